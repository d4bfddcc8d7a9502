"""Which rows ride in the next step. Pure: a question about the runs, answered with row counts.

In this order:
1. Somebody types and has no byte yet: the step is that of the typing runs. One row for each that generates, and one prefill
   chunk between those that don't, shortest first; a long prefill stays out of every second step that brings another its
   logits. Invoked runs that generate ride along if the cost table says that it costs little; so do typing ones that have their
   byte where the others need no more rows than a key brings (a step of two rows can take 1.7 times as long as one of one).
2. Somebody asked for a completion and has no byte yet: typing and invoked runs share the step in the same way.
3. All of these have their first byte: one row each; prefetch and background ride along as far as that costs little. Where it
   doesn't, they get a step of their own after SHARE others, of a third of their time at most.
4. Nobody waits for anything in front: prefetch, then background.
Candidates of a request beside its first share its steps as long as nobody else is in front; where somebody is, they ride along
as what ranks below does.
Whoever was held back for STARVED steps gets a step of its own even then, of no more than PATIENCE_MS: a keystroke waits for
that once in a while, and nothing waits for ever.

A lower run's chunk is no longer than a twelfth of the time since somebody last typed. A keystroke ends a running chunk, which
then has to be evaluated again: so what bursts of typing waste is a small part of what the pauses between them gave.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Protocol

from inference.costs import CostTable
from inference.types import Priority

PATIENCE_MS = 30.0  # a step that ends this soon is not ended for a keystroke; ending one takes up to 20 ms more
_FIXED_MS = 20.0  # a lower chunk where a running step can't be ended
_RIDE = 1.25  # a step may become this much longer by what rides along
_QUIET_SHARE = 12
_A_KEY = 8  # tokens: so few are what somebody has just typed, more are a prompt
SHARE = 8
STARVED = 16

Plan = list[tuple[int, int]]


class Schedulable(Protocol):
    @property
    def request_id(self) -> int: ...
    @property
    def is_branch(self) -> bool:
        """A candidate beside the first one of its request."""
        ...

    @property
    def priority(self) -> Priority: ...
    @property
    def n_pending(self) -> int:
        """Rows that are known and not yet evaluated: the rest of the prompt, or one generated token."""
        ...

    @property
    def has_byte(self) -> bool:
        """Something beyond the cursor was said already."""
        ...

    @property
    def n_waited(self) -> int:
        """Steps of others since this run last rode in one."""
        ...

    @property
    def row_limit(self) -> int:
        """Most rows of a chunk of a lower run: halved by each step that was ended for a keystroke. 0: no limit."""
        ...


class Scheduler:
    """chunk_ms: aimed length of a typing run's prefill chunk.

    background_rows: most rows of a lower run's chunk where a running step can be ended (can_abort); elsewhere such a chunk
    takes no more than 20 ms.
    """

    def __init__(self, table: CostTable, *, n_batch: int, chunk_ms: float, background_rows: int, can_abort: bool) -> None:
        self._table = table
        self._n_batch = n_batch
        self._chunk_ms = chunk_ms
        self._background_rows = max(1, min(background_rows, n_batch))
        self._can_abort = can_abort

    def plan(self, runs: Seq[Schedulable], quiet_ms: float) -> Plan:
        """(index of the run, number of its rows), in order of the runs; at most n_batch rows in all.

        quiet_ms: time since somebody last typed.
        """
        ready = [i for i, run in enumerate(runs) if run.n_pending]
        front = [i for i in ready if runs[i].priority.is_foreground]
        branches = [i for i in front if runs[i].is_branch] if len({runs[i].request_id for i in front}) > 1 else []
        front = [i for i in front if i not in branches]
        typing = [i for i in front if runs[i].priority is Priority.TYPING]
        lower = [i for i in ready if i not in front]
        first = [i for i in typing if not runs[i].has_byte]
        if first:
            if sum(runs[i].n_pending for i in first) > _A_KEY:
                first = typing  # a prefill: who generates beside it costs little, and would wait long
            others = [i for i in front if i not in first]
            generating = [i for i in others if runs[i].n_pending == 1] + branches
            return self._starved(runs, others + lower) or self._with_riders(runs, first, generating)
        if any(not runs[i].has_byte for i in front):
            return self._starved(runs, lower) or sorted(self._front(runs, front))
        if front:
            return self._own_share(runs, front, lower, quiet_ms) or self._with_riders(runs, front, lower)
        return self._lower(runs, lower, self._lower_rows(quiet_ms))

    def _front(self, runs: Seq[Schedulable], front: list[int]) -> Plan:
        """One row for each that generates, and one chunk between the others."""
        picked: Plan = []
        room, chunk = self._n_batch, self._table.chunk(self._chunk_ms, self._n_batch)
        below = self._lower_rows(float("inf"))  # what ranks below typing may have to be ended for it
        order = sorted(front, key=lambda i: (runs[i].n_pending > 1, runs[i].n_waited < SHARE, runs[i].n_pending))
        ends = any(not runs[i].has_byte and runs[i].n_pending <= chunk for i in order)
        for i in order:
            pending = runs[i].n_pending
            if ends and pending > chunk and runs[i].n_waited == 0:
                continue  # somebody gets an answer by this step, and sooner without this prefill
            n = min(pending, room)
            if pending > 1:
                n = min(n, chunk)
                if runs[i].priority is not Priority.TYPING:
                    n = min(n, below, runs[i].row_limit or n)
                chunk -= n
            if runs[i].priority is not Priority.TYPING:
                below = max(0, below - n)
            if n > 0:
                picked.append((i, n))
                room -= n
        return picked

    def _with_riders(self, runs: Seq[Schedulable], front: list[int], riders: list[int]) -> Plan:
        picked = self._front(runs, front)
        n = sum(rows for _, rows in picked)
        if riders:
            picked += self._lower(runs, riders, self._table.most_rows(_RIDE * self._table.cost(n), self._n_batch) - n)
        return sorted(picked)

    def _own_share(self, runs: Seq[Schedulable], front: list[int], lower: list[int], quiet_ms: float) -> Plan:
        """A step for those below, where all in front have their first byte. Empty: not now."""
        due = [i for i in lower if runs[i].n_waited >= SHARE]
        if not due:
            return []
        n = self._lower_rows(min(quiet_ms, _QUIET_SHARE * SHARE * self._table.cost(len(front)) / 3))
        return self._lower(runs, due, n)

    def _starved(self, runs: Seq[Schedulable], held_back: list[int]) -> Plan:
        starved = [i for i in held_back if runs[i].n_waited >= STARVED]
        first = sorted(starved, key=lambda i: -runs[i].n_waited)[:1]
        return self._lower(runs, first, self._table.best_rows(PATIENCE_MS, self._background_rows))

    def _lower_rows(self, quiet_ms: float) -> int:
        """Rows of a step that holds only what ranks below typing."""
        if not self._can_abort:
            return self._table.best_rows(_FIXED_MS, self._n_batch)
        return self._table.best_rows(max(PATIENCE_MS, quiet_ms / _QUIET_SHARE), self._background_rows)

    def _lower(self, runs: Seq[Schedulable], lower: list[int], n_rows: int) -> Plan:
        """Fill n_rows: first who waited beyond its share, longest first; then by priority, one row for each that generates."""
        picked: Plan = []

        def order(i: int) -> tuple[int, int, bool]:
            waited = runs[i].n_waited
            return (-waited if waited >= SHARE else 0, runs[i].priority, runs[i].n_pending > 1)

        for i in sorted(lower, key=order):
            n = min(runs[i].n_pending, n_rows, runs[i].row_limit or n_rows)
            if n > 0:
                picked.append((i, n))
                n_rows -= n
        return sorted(picked)
