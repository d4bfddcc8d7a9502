"""Who has a sequence: runs that wait get one, and runs that others go before are set aside until there is one again.

Owns no run and no cell; it decides between them. A run that is set aside keeps its path and goes on where it was: what it holds
stays resident, or is stowed, where that is possible. A candidate beside a request's first one is not set aside: it ends for
whoever needs its sequence or cells, of whatever priority.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq

from inference.kv_cache import KvCache
from inference.prompt_cache.restorer import Restorer
from inference.run import Run
from inference.tally import Tally
from inference.types import FinishReason


class Admission:
    """restorer: of prompts on disk; None: there are none."""

    def __init__(self, kv: KvCache, tally: Tally, clock: Callable[[], float], restorer: Restorer | None = None) -> None:
        self._kv = kv
        self._tally = tally
        self._clock = clock
        self._restorer = restorer

    def admit(self, runs: Seq[Run]) -> None:
        """Give sequences to those that wait, in order of priority, and within one first to those without a byte."""
        waiting = [run for run in runs if run.sequence is None]
        if not waiting:
            return
        if len(waiting) == len(runs) and all(run.lacks_room for run in waiting):
            waiting[0].lacks_room = False  # nobody is left to end
        if self._restorer is not None:
            waiting = self._restorer.ready(waiting)
        for run in sorted(waiting, key=lambda r: (r.priority, r.has_byte)):
            if run.lacks_room:
                continue
            tokens = run.request.tokens if len(run.path) == run.n_prompt else tuple(run.path)
            while True:
                claim = self._kv.claim(
                    tokens, run.request_id, n_prompt=run.n_prompt, background=not run.priority.is_foreground,
                    private=run.request.is_private,
                )  # fmt: skip
                if claim is not None or not self._take_from(run, runs):
                    break
            if claim is not None:
                run.place(claim.sequence, claim.n)
                self._tally.claimed(claim.kind)

    def left(self, run: Run, runs: Seq[Run]) -> None:
        """A run has ended and given up its sequence: one that lacked room may try again."""
        if run.sequence is None:
            return
        if run.is_branch:
            self._kv.drop(run.sequence)
        else:
            self._kv.release(run.sequence)
        run.sequence = None
        lacking = [r for r in runs if r.lacks_room and r.finish is None]
        if lacking:
            min(lacking, key=lambda r: (r.priority, r.has_byte)).lacks_room = False

    def make_room(self, n: int, runs: Seq[Run]) -> None:
        """The cells are full: candidates go, unless what is idle is kept in RAM and can go instead; then idle sequences; then a
        run is set aside, the lowest first. One that is alone ends.

        So does one that has said something and would have to be evaluated again in full: better a shorter text than a late one.
        """
        if self._kv.stowage.is_open and self._kv.make_room(n):
            return
        if self._end_branch(runs) or self._kv.make_room(n):
            return
        running = [run for run in runs if run.sequence is not None]
        victim = max(running, key=lambda r: (r.priority, r.has_byte, r.pos))
        if len(running) == 1 or (victim.has_byte and not self._kv.stowage.is_open):
            victim.end(FinishReason.CONTEXT, self._clock())
            return
        victim.lacks_room = True
        self._set_aside(victim)
        self._kv.make_room(n)

    def _take_from(self, run: Run, runs: Seq[Run]) -> bool:
        """End a candidate, or set one aside that ranks below; where somebody waits, among equals one that has its first byte
        gives way to one that has none."""
        if self._end_branch(runs):
            return True
        waits = run.priority.is_foreground and not run.has_byte
        below = [
            r for r in runs
            if r.sequence is not None and (r.priority > run.priority or (r.priority == run.priority and r.has_byte and waits))
        ]  # fmt: skip
        if not below:
            return False
        self._set_aside(max(below, key=lambda r: (r.priority, r.has_byte, r.request_id)))
        return True

    def _end_branch(self, runs: Seq[Run]) -> bool:
        branches = [run for run in runs if run.is_branch and run.sequence is not None]
        if not branches:
            return False
        last = max(branches, key=lambda r: r.priority)
        last.end(FinishReason.CONTEXT, self._clock())
        self.left(last, runs)
        return True

    def _set_aside(self, victim: Run) -> None:
        assert victim.sequence is not None
        self._kv.release(victim.sequence)
        victim.sequence = None
        self._tally.n_set_aside += 1
