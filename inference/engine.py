"""The engine: one owner thread, one explicit loop over one backend.

`step()` = take commands, admit, advance over what is resident, schedule, decode, accept, settle. Everything mutable belongs to
the thread that steps; other threads only `submit` and `cancel`, and may ask `n_reusable`, `counters` and `stats`. Events leave
through each request's sink, on the owner thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from inference.admission import Admission
from inference.backend import Backend, Vocab
from inference.candidates import Candidates
from inference.costs import CostTable
from inference.decoding import Decoding
from inference.drafts.drafting import Drafting
from inference.engine_stats import stats_of
from inference.healing import HealingIndex
from inference.inbox import Inbox
from inference.kv_cache import KvCache
from inference.prompt_cache.archive import Archive
from inference.prompt_cache.keeper import Keeper
from inference.run import Run, Sink
from inference.scheduler import Scheduler
from inference.tally import Tally
from inference.threads import ThreadCount
from inference.types import Costs, Counters, EngineStats, FinishReason, GenerationRequest, Priority

logger = logging.getLogger(__name__)

MakeDrafting = Callable[[Vocab, CostTable, HealingIndex], Drafting]

_LAST_S = 2.0  # for saving prompts at the end


class Engine:
    """n_ctx: longest sequence in tokens. costs: of this machine, as far as `table` knows no better.

    table: what steps of this machine cost; None: what `costs` say. threads: of steps, by the same table; None: as many as there
    are. n_stowed, stow_bytes: sequences kept in RAM. on_end: is told the table when `run_forever` ends. archive: prompts on
    disk, started; one is saved every save_every_s while somebody types.
    make_drafting: of tokens to be checked several at a time; None: nothing is drafted, as with models that can't roll back.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        n_ctx: int,
        n_sequences: int,
        costs: Costs,
        table: CostTable | None = None,
        threads: ThreadCount | None = None,
        chunk_ms: float = 250.0,
        background_rows: int = 32,
        n_stowed: int = 0,
        stow_bytes: int = 0,
        archive: Archive | None = None,
        save_every_s: float = 20.0,
        make_drafting: MakeDrafting | None = None,
        clock: Callable[[], float] = time.monotonic,
        on_end: Callable[[CostTable], None] = lambda table: None,
    ) -> None:
        self._backend = backend
        self._vocab = backend.vocab
        self._healing = HealingIndex(self._vocab.pieces, self._vocab.stop_tokens)
        self.n_ctx = min(n_ctx, backend.n_ctx)
        self.table = CostTable(costs) if table is None else table
        self.threads = ThreadCount(1, lambda n: None, self.table, clock) if threads is None else threads
        # one sequence more for the background's
        self.kv = KvCache(backend, n_sequences + 1, n_stowed=n_stowed, stow_bytes=stow_bytes)
        self._scheduler = Scheduler(
            self.table,
            n_batch=backend.n_batch,
            chunk_ms=chunk_ms,
            background_rows=background_rows,
            can_abort=backend.can_abort,
        )
        self._clock = clock
        self._on_end = on_end
        self._runs: list[Run] = []
        self._tally = Tally()
        self._typed_at = float("-inf")
        self._failed = ""
        self._inbox = Inbox(clock)
        self._keeper: Keeper | None = None
        if archive is not None:
            self._keeper = Keeper(
                archive, self.kv, backend, self.threads, clock=clock, save_every_s=save_every_s, on_lost=self._fail
            )
            archive.listen(self._inbox.wake)
        self._admission = Admission(self.kv, self._tally, clock, None if self._keeper is None else self._keeper.restorer)
        self.drafting: Drafting | None = None
        if backend.can_roll_back and make_drafting is not None:
            self.drafting = make_drafting(self._vocab, self.table, self._healing)
            self.drafting.listen(lambda: not self._inbox.is_empty)
            if self._keeper is not None and self.drafting.partner is not None:
                self._keeper.join(self.drafting.partner, self._inbox.wake)
        self._decoding = Decoding(
            backend, self.kv, self.table, self.threads, self._tally, self._inbox, self._admission, clock,
            n_ctx=self.n_ctx, drafting=self.drafting, choose=self._choose, on_loss=self._fail,
        )  # fmt: skip
        backend.set_abort(self._inbox.is_aborted)

    # -- for other threads

    def submit(self, request: GenerationRequest, sink: Sink) -> None:
        """Queue a request. Its events go to sink; the last one has a finish. Never blocks on the model."""
        now = self._clock()
        run = Candidates(request, sink, now).first if request.n_candidates > 1 else Run(request, sink, now)
        if not self._inbox.put(run):
            run.end(FinishReason.CANCELLED, now)

    def cancel(self, request_id: int) -> None:
        """End a request; unknown ids are ignored. A step that serves nobody else is aborted where the device allows."""
        self._inbox.cancel(request_id)

    def n_reusable(self, tokens: tuple[int, ...]) -> int:
        """Longest prefix of tokens that is in the cache, in RAM or on disk; off by what the running step changes."""
        n_saved = self._keeper.restorer.n_known(tokens) if self._keeper is not None else 0
        return max(self.kv.n_known(tokens), n_saved)

    def counters(self) -> Counters:
        return self._tally.counters

    @property
    def costs(self) -> Costs:
        return self.table.costs

    def stats(self) -> EngineStats:
        """What is held and was done; cheap."""
        return stats_of(
            list(self._runs), self._inbox.priorities(), self.kv, self._backend.n_ctx, self._tally, self._keeper, self.drafting,
            self.threads,
        )  # fmt: skip

    def close(self) -> None:
        """No more steps; everything unfinished is answered CANCELLED by the owner thread."""
        self._inbox.close()

    @property
    def why_failed(self) -> str:
        """Why every request is answered with an error from now on, or ""."""
        return self._failed

    @property
    def is_idle(self) -> bool:
        """Nothing runs and nothing waits."""
        return not self._runs and self._inbox.is_empty

    # -- the owner thread

    def run_forever(self) -> None:
        """Step until closed; sleeps while there is nothing to do."""
        while True:
            try:
                busy = self.step()
            except Exception:  # a fault of ours must not leave anybody waiting
                logger.exception("the engine's loop failed")
                self._fail("the engine failed; restart midfill (the log says more)")
                busy = False
            if self._inbox.is_closed:
                break
            if not busy:
                self._inbox.wait(self._keeper.wait_s() if self._keeper is not None else None)
        self._end_all(FinishReason.CANCELLED)
        if self._keeper is not None:
            self._backend.set_abort(lambda: False)
            self._keeper.finish(0.0 if self._failed else _LAST_S)
        if self.drafting is not None:
            self.drafting.close()
        self._backend.close()
        self._on_end(self.table)

    def step(self) -> bool:
        """One step of the loop; false if nothing is left to do until something arrives."""
        self._take_commands()
        self._admission.admit(self._runs)
        started = self._clock()
        for run in self._runs:
            self._advance(run, started)
        self._drop_finished()
        ready = [run for run in self._runs if run.sequence is not None]
        plan = self._scheduler.plan(ready, (started - self._typed_at) * 1000)
        for run in ready:
            run.n_waited += 1
        if plan:
            self._decoding.decode([(ready[i], n) for i, n in plan], started, lambda: self._runs)
            self._drop_finished()
        settled = False
        if not any(run.priority.is_foreground and not run.has_byte for run in self._runs) and self._inbox.is_empty:
            settled = self.kv.settle() or (self._keeper is not None and not self._failed and self._keeper.tend())
        # those that are left without a plan waited for a sequence, which is free now; or they wait for the disk, which wakes us
        return bool(plan or settled or not all(self._keeper and self._keeper.restorer.is_held(run) for run in self._runs))

    def _take_commands(self) -> None:
        arrived, cancelled = self._inbox.take()
        self._runs.extend(arrived)
        now = self._clock()
        if arrived and self._keeper is not None:
            self._keeper.saver.has_arrived()
        if any(run.priority is Priority.TYPING for run in arrived):
            self._typed_at = now
        for run in self._runs:
            if run.request_id in cancelled:
                run.end(FinishReason.CANCELLED, now)
            elif self._failed:
                run.end(FinishReason.ERROR, now, self._failed)
            elif not run.request.tokens:
                run.end(FinishReason.ERROR, now, "the prompt is empty")
            elif run.n_prompt >= self.n_ctx:
                run.end(FinishReason.ERROR, now, f"the prompt has {run.n_prompt} tokens, the context only {self.n_ctx}")
        self._drop_finished()

    def _advance(self, run: Run, now: float) -> None:
        """Go on over tokens that are resident already, and choose from kept logits, without the model."""
        sequence = run.sequence
        if sequence is None:
            return
        while run.finish is None:
            if run.pos < len(run.path):
                if run.pos >= len(sequence.tokens) or sequence.tokens[run.pos] != run.path[run.pos]:
                    return
                run.pos += 1
                continue
            logits = sequence.logits.get(run.pos - 1)
            if logits is None:
                run.place(sequence, run.pos - 1)  # the last token again, for its logits
                return
            self._choose(run, logits, now)

    def _choose(self, run: Run, logits: NDArray[np.float32], now: float) -> None:
        begun = run.others(logits, self.kv.fork, self._vocab, self._healing, now)
        self._runs += begun
        run.accept(logits, self._vocab, self._healing, now)
        for each in (run, *begun):
            if each.finish is None and len(each.path) >= self.n_ctx:
                each.end(FinishReason.CONTEXT, now)

    def _fail(self, why: str = "the model's context failed; restart midfill") -> None:
        """Everything unfinished, and every later request, is answered with the error."""
        self._failed = why
        self._end_all(FinishReason.ERROR, why)
        self.kv.forget_all()

    def _drop_finished(self) -> None:
        finished = [run for run in self._runs if run.finish is not None]
        if finished:
            self._runs = [run for run in self._runs if run.finish is None]
            for run in finished:
                self._admission.left(run, self._runs)

    def _end_all(self, finish: FinishReason, error: str = "") -> None:
        arrived, _ = self._inbox.take()
        self._runs.extend(arrived)
        now = self._clock()
        for run in self._runs:
            run.end(finish, now, error)
        self._drop_finished()
