"""A small model that drafts for a large one: its own context, and in it, for each of the target's sequences, the same tokens.

Owns the draft's cells and the record of them, which is never trusted further than it agrees with the run's path: what agrees is
kept, what does not is dropped, what is missing is evaluated before anything is drafted. So the draft stands where its target
does, also after the target's sequence was moved, stowed, restored or given to another request. What another sequence of the
draft already has of a path is shared with it by copy.

Drafts what the small model would choose greedily, as long as it is confident, and as long as whoever asks says that one more is
worth it. Only the engine's owner thread comes in here. Fails silently: without a draft there is only no gain.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_right
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from inference.backend import Backend, Outcome, Row
from inference.cells import Cells
from inference.costs import CostTable
from inference.drafts.draft import Draft, Worth
from inference.healing import HealingIndex
from inference.run import Run
from inference.sampler import highest
from inference.sequence import WIDTH, Sequence, n_common_packed, pack

_log = logging.getLogger(__name__)

MODEL = "model"
CONFIDENT = 0.5  # a token that the small model gives less to is not tried
_LEVELS = (0.55, 0.65, 0.75, 0.82, 0.88, 0.92, 0.95, 0.98, 0.995)  # probabilities: each begins a grade
_MIN_COPY = 32  # sharing fewer tokens is not worth a copy


class DraftModel:
    """Fits `inference.drafts.draft.ComputedSource`. backend: can roll back, and knows the target's tokens. table: what its
    steps cost. is_hurried: somebody has come; drafting ends then. on_end: is told the table."""

    name = MODEL

    def __init__(
        self,
        backend: Backend,
        table: CostTable,
        healing: HealingIndex,
        *,
        n_ctx: int,
        confident: float = CONFIDENT,
        is_hurried: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
        on_end: Callable[[CostTable], None] = lambda table: None,
    ) -> None:
        self._backend = backend
        self._table = table
        self._healing = healing
        self._n_ctx = min(n_ctx, backend.n_ctx)
        self._confident = confident
        self._clock = clock
        self._on_end = on_end
        self._used = 0  # of its calls; the sequence used longest ago goes first
        self.is_hurried = is_hurried
        self.cells = Cells(backend, backend.n_seq_max)
        self.is_lost = False

    @property
    def step_ms(self) -> float:
        return self._table.cost(1)

    def cost_of_start(self, run: Run) -> float:
        """A run's path is seen with the first step; more than a step's rows cost what the table says."""
        packed = pack(run.path)
        known = max((n_common_packed(s.packed, packed) for s in self.cells.sequences), default=0)
        return self._cost(len(run.path) - min(known, len(run.path) - 1)) - self.step_ms

    def draft(self, run: Run, n: int, worth: Worth) -> Draft:
        tokens, grades, ms, held = list[int](), list[int](), 0.0, 1.0
        rest, sequence = run.rest, self._sequence(run)
        todo = run.path[len(sequence.tokens) :]
        while not self.is_lost and len(run.path) + len(tokens) < self._n_ctx:
            ms += self._cost(len(todo))
            logits = self._evaluate(sequence, todo)
            if logits is None:
                break
            token, probability = self._best(logits, rest)
            if token < 0 or probability < self._confident or token in self._backend.vocab.stop_tokens:
                break
            tokens.append(token)
            grades.append(bisect_right(_LEVELS, probability))
            held *= probability
            rest = rest[len(self._backend.vocab.pieces[token]) :]
            todo = [token]
            if len(tokens) == n or self.is_hurried() or not worth(len(tokens), held):
                break
        return Draft(self.name, tuple(tokens), tuple(grades), ms)

    def close(self) -> None:
        self._backend.close()
        self._on_end(self._table)

    def _sequence(self, run: Run) -> Sequence:
        """The one that mirrors the run's, with as much of the path as is known and at least one token of it to be evaluated."""
        assert run.sequence is not None
        packed, most = pack(run.path), len(run.path) - 1
        own = self.cells.sequences[run.sequence.seq % len(self.cells.sequences)]
        n_own = n_common_packed(own.packed, packed)
        best = max(self.cells.sequences, key=lambda s: n_common_packed(s.packed, packed))
        n = min(n_common_packed(best.packed, packed), most)
        if best is not own and n >= n_own + _MIN_COPY:
            self.cells.truncate(own, 0)
            if self._backend.copy(best.seq, own.seq, n):
                own.append(best.tokens[:n], best.cells[: n * WIDTH])
        else:
            self.cells.truncate(own, min(n_own, most))
        self._used += 1
        own.last_used = self._used
        return own

    def _evaluate(self, sequence: Sequence, tokens: list[int]) -> NDArray[np.float32] | None:
        """Logits behind these tokens, which come behind what the sequence holds; None: it could not be done, or somebody has
        come."""
        for i in range(0, len(tokens), self._backend.n_batch):
            if i and self.is_hurried():
                return None
            part = tokens[i : i + self._backend.n_batch]
            first, last = len(sequence.tokens), i + len(part) == len(tokens)
            rows = [Row(sequence.seq, first + j, t, last and j == len(part) - 1) for j, t in enumerate(part)]
            began = self._clock()
            outcome = self._backend.decode(rows)
            while outcome is Outcome.NO_ROOM and self._empty_another(sequence):
                outcome = self._backend.decode(rows)
            if outcome is not Outcome.OK:
                self._failed(outcome)
                return None
            self._table.observe(len(rows), (self._clock() - began) * 1000)
            self.cells.stored(sequence, part)
        return self._backend.logits(len(rows) - 1)

    def _empty_another(self, sequence: Sequence) -> bool:
        others = [s for s in self.cells.sequences if s is not sequence and s.tokens]
        if not others:
            return False
        self.cells.truncate(min(others, key=lambda s: s.last_used), 0)
        return True

    def _failed(self, outcome: Outcome) -> None:
        if outcome is Outcome.ABORTED:
            return
        _log.warning("the draft model can't go on (%s); nothing is drafted by it any more", outcome.value)
        self.is_lost = True

    def _best(self, logits: NDArray[np.float32], rest: bytes) -> tuple[int, float]:
        """Its greedy choice among what may come, and the probability of that; -1: nothing may."""
        allowed = self._healing.allowed(rest) if rest else None
        scores = logits if allowed is None else logits[allowed[allowed < len(logits)]]
        if not len(scores):
            return -1, 0.0
        i = highest(scores)
        probability = 1.0 / float(np.exp(scores - scores[i]).sum(dtype=np.float64))
        return (i if allowed is None else int(allowed[i])), probability

    def _cost(self, n: int) -> float:
        whole, rest = divmod(max(n, 1), self._backend.n_batch)
        return whole * self._table.cost(self._backend.n_batch) + (self._table.cost(rest) if rest else 0.0)
