"""One step's batch: rows of the path and of drafts put through the model, and what comes of each outcome.

Owns the order in which the books follow the cells: what is stored is recorded before anybody chooses, and of a draft only what
equals the choices stays. Refuses to decide who rides, who gets room and what is drafted.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inference.admission import Admission
from inference.backend import Backend, Outcome, Row
from inference.costs import CostTable
from inference.drafts.draft import Draft
from inference.drafts.drafting import Drafting
from inference.inbox import Inbox
from inference.kv_cache import KvCache
from inference.run import Run
from inference.scheduler import PATIENCE_MS
from inference.tally import Tally
from inference.threads import ThreadCount
from inference.types import ClaimKind, FinishReason

Choose = Callable[[Run, NDArray[np.float32], float], None]


@dataclass(frozen=True, slots=True)
class Ride:
    """A run in a step: n rows of its path, and a draft behind them."""

    run: Run
    n: int
    draft: Draft | None

    @property
    def drafted(self) -> tuple[int, ...]:
        return () if self.draft is None else self.draft.tokens

    def rows(self) -> list[Row]:
        run, first = self.run, self.run.pos
        assert run.sequence is not None
        seq, last, end = run.sequence.seq, len(run.path) - 1, first + self.n
        path = [Row(seq, p, run.path[p], wants_logits=p == last) for p in range(first, end)]
        return path + [Row(seq, p, token, wants_logits=True) for p, token in enumerate(self.drafted, end)]


class Decoding:
    """choose: goes on from logits behind the whole path of a run. on_loss: told when the context can't be used any more."""

    def __init__(
        self,
        backend: Backend,
        kv: KvCache,
        table: CostTable,
        threads: ThreadCount,
        tally: Tally,
        inbox: Inbox,
        admission: Admission,
        clock: Callable[[], float],
        *,
        n_ctx: int,
        drafting: Drafting | None,
        choose: Choose,
        on_loss: Callable[[], None],
    ) -> None:
        self._backend = backend
        self._kv = kv
        self._table = table
        self._threads = threads
        self._tally = tally
        self._inbox = inbox
        self._admission = admission
        self._clock = clock
        self._n_ctx = n_ctx
        self._drafting = drafting
        self._choose = choose
        self._on_loss = on_loss

    def decode(self, batch: list[tuple[Run, int]], started: float, runs: Callable[[], Seq[Run]]) -> None:
        """batch: runs with a sequence, and how many rows of each. started: when the step began. runs: all there are."""
        for run, _ in batch:
            assert run.sequence is not None
            if self._kv.truncate(run.sequence, run.pos) < run.pos:
                run.place(run.sequence, 0)  # this model can't drop a part: everything is evaluated anew
                self._tally.claimed(ClaimKind.CUT)
        rides = [Ride(run, n, draft) for (run, n), draft in zip(batch, self._drafts(batch), strict=True)]
        rows = [row for ride in rides for row in ride.rows()]
        # one row is the least that can be done; it is not ended for a keystroke
        yields = len(rows) > 1
        most_ms = self._threads.begin(len(rows))
        ends = [(run, run.pos + n) for run, n in batch]
        self._inbox.begin_step(ends, self._table.cost(len(rows)), PATIENCE_MS, yields, most_ms)
        began = self._clock()
        outcome = self._backend.decode(rows)
        self._inbox.end_step()
        if outcome in (Outcome.OK, Outcome.ABORTED):
            self._threads.end(len(rows), (self._clock() - began) * 1000, is_whole=outcome is Outcome.OK)
        if outcome in (Outcome.OK, Outcome.ABORTED):
            self._tally.decoded(batch, sum(len(ride.drafted) for ride in rides))
        if outcome is Outcome.OK:
            self._accept(rides, started)
            return
        if self._drafting is not None:
            self._drafting.unused([ride.draft for ride in rides])
        if outcome is Outcome.ABORTED:
            self._tally.n_aborted_steps += 1
            for ride in rides:
                ride.run.was_ended(ride.n, len(ride.drafted))
        elif outcome is Outcome.NO_ROOM:
            self._admission.make_room(len(rows), runs())
        elif outcome is Outcome.REFUSED:
            self._isolate(batch, started, runs)
        else:
            self._on_loss()

    def _drafts(self, batch: list[tuple[Run, int]]) -> list[Draft | None]:
        """None of them takes a cell that somebody else holds."""
        if self._drafting is None:
            return [None] * len(batch)
        n_rows = sum(n for _, n in batch)
        n_room = min(self._backend.n_batch, self._backend.n_ctx - self._kv.n_used()) - n_rows
        return self._drafting.drafts(batch, n_room=n_room, n_ctx=self._n_ctx)

    def _accept(self, rides: list[Ride], started: float) -> None:
        row, n_right = -1, []
        for ride in rides:
            run, n = ride.run, ride.n
            assert run.sequence is not None
            row += n
            self._kv.stored(run.sequence, [*run.path[run.pos : run.pos + n], *ride.drafted])
            now = self._clock()
            run.effort.drafted(len(ride.drafted))
            run.rode(n, (now - started) * 1000, self._tally.counters.n_steps)
            n_right.append(0)
            if run.pos == len(run.path):
                self._look_behind(run, row, now)
                for i, token in enumerate(ride.drafted, 1):
                    if run.pos == len(run.path) or run.path[run.pos] != token:
                        break  # it has ended, or chosen something else
                    run.stands()
                    n_right[-1] = i
                    if run.finish is not None:
                        break
                    self._look_behind(run, row + i, now)
            if n_right[-1] < len(ride.drafted) and self._kv.truncate(run.sequence, run.pos) < run.pos:
                self._cannot_roll_back(run)
            row += len(ride.drafted)
        if self._drafting is not None:
            self._drafting.checked([(ride.run, ride.n) for ride in rides], [ride.draft for ride in rides], n_right)

    def _look_behind(self, run: Run, row: int, now: float) -> None:
        """Choose from the logits of this row, which is that of the path's end."""
        assert run.sequence is not None
        logits = self._backend.logits(row)
        self._kv.keep_logits(run.sequence, logits, run.pos - 1)
        self._choose(run, logits, now)

    def _cannot_roll_back(self, run: Run) -> None:
        """The model has dropped the whole sequence with what did not stand."""
        run.place(run.sequence, 0)
        if self._drafting is not None:
            self._drafting.stop()

    def _isolate(self, batch: list[tuple[Run, int]], started: float, runs: Callable[[], Seq[Run]]) -> None:
        """A refused batch is tried run by run, so that the bad one fails alone."""
        if len(batch) > 1:
            for single in batch:
                # one before it may have ended others, or taken their sequence: no room, or a lost context
                if single[0].finish is None and single[0].sequence is not None:
                    self.decode([single], started, runs)
            return
        run, _ = batch[0]
        assert run.sequence is not None
        run.end(FinishReason.ERROR, self._clock(), "the model refused the prompt; please report this with the log")
        self._kv.truncate(run.sequence, 0)
