"""The engine: one owner thread, one explicit loop over one backend.

`step()` = take commands, admit, advance over what is resident, schedule, decode, accept. Everything mutable belongs to the
thread that steps; other threads only `submit` and `cancel`, and may ask `n_reusable` and `counters`. Events leave through
each request's sink, on the owner thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from inference.backend import Backend, Outcome, Row
from inference.healing import HealingIndex
from inference.inbox import Inbox
from inference.kv_cache import KvCache
from inference.run import Run, Sink
from inference.scheduler import schedule
from inference.sequence import Sequence, n_common
from inference.types import Costs, Counters, FinishReason, GenerationRequest, Priority

logger = logging.getLogger(__name__)


class Engine:
    """n_ctx: longest sequence in tokens. costs: measured on this machine; sizes the prefill chunks."""

    def __init__(
        self,
        backend: Backend,
        *,
        n_ctx: int,
        n_sequences: int,
        costs: Costs,
        chunk_ms: float = 250.0,
        background_rows: int = 32,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._backend = backend
        self._vocab = backend.vocab
        self._healing = HealingIndex(self._vocab.pieces, self._vocab.stop_tokens)
        self.n_ctx = min(n_ctx, backend.n_ctx)
        self.costs = costs
        self.kv = KvCache(backend, n_sequences + 1)  # one more for the background's
        per_token = max(costs.prefill_ms_per_token, 1e-3)
        self._n_chunk = max(8, min(backend.n_batch, int(chunk_ms / per_token)))
        self._n_background = max(1, min(backend.n_batch, max(background_rows, int(20.0 / per_token))))
        self._clock = clock
        self._runs: list[Run] = []
        self._counters = Counters()
        self._failed = ""
        self._inbox = Inbox()
        backend.set_abort(self._inbox.is_aborted)

    # -- for other threads

    def submit(self, request: GenerationRequest, sink: Sink) -> None:
        """Queue a request. Its events go to sink; the last one has a finish. Never blocks on the model."""
        run = Run(request, sink, self._clock())
        if not self._inbox.put(run):
            run.end(FinishReason.CANCELLED, self._clock())

    def cancel(self, request_id: int) -> None:
        """End a request; unknown ids are ignored. A step that serves nobody else is aborted where the device allows."""
        self._inbox.cancel(request_id)

    def n_reusable(self, tokens: tuple[int, ...]) -> int:
        """Longest resident prefix of tokens; from another thread it may be off by what the running step changes."""
        return max(n_common(list(s.tokens), tokens) for s in self.kv.sequences)

    def counters(self) -> Counters:
        return self._counters

    def close(self) -> None:
        """No more steps; everything unfinished is answered CANCELLED by the owner thread."""
        self._inbox.close()

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
                self._inbox.wait()
        self._end_all(FinishReason.CANCELLED)
        self._backend.close()

    def step(self) -> bool:
        """One step of the loop; false if nothing is left to do until something arrives."""
        self._take_commands()
        self._admit()
        started = self._clock()
        for run in self._runs:
            self._advance(run, started)
        self._drop_finished()
        ready = [run for run in self._runs if run.sequence is not None]
        plan = schedule(ready, self._n_chunk, self._n_background, self._backend.n_batch)
        if not plan:
            return bool(self._runs)  # they waited for a sequence that is free now
        self._decode([(ready[i], n) for i, n in plan], started)
        self._drop_finished()
        return True

    def _take_commands(self) -> None:
        arrived, cancelled = self._inbox.take()
        self._runs.extend(arrived)
        now = self._clock()
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

    def _admit(self) -> None:
        for run in sorted(self._runs, key=lambda r: r.priority):
            if run.sequence is not None:
                continue
            is_background = run.priority is Priority.BACKGROUND
            claimed = self.kv.claim(run.request.tokens, run.request_id, background=is_background)
            if claimed is None and run.priority is Priority.TYPING:
                claimed = self._preempt(run)
            if claimed is None:
                continue  # waits for a sequence
            run.sequence, run.pos = claimed
            run.n_reused = min(run.pos, run.n_prompt)

    def _preempt(self, run: Run) -> tuple[Sequence, int] | None:
        """A typing request takes the sequence of a background one, which ends."""
        victim = next((r for r in self._runs if r.priority is Priority.BACKGROUND and r.sequence is not None), None)
        if victim is None:
            return None
        victim.end(FinishReason.CANCELLED, self._clock())
        self._release(victim)
        return self.kv.claim(run.request.tokens, run.request_id)

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
                run.pos -= 1  # the last token again, for its logits
                run.n_reused = min(run.n_reused, run.pos)
                return
            self._choose(run, logits, now)

    def _choose(self, run: Run, logits: NDArray[np.float32], now: float) -> None:
        run.accept(logits, self._vocab, self._healing, now)
        if run.finish is None and len(run.path) >= self.n_ctx:
            run.end(FinishReason.CONTEXT, now)

    def _decode(self, batch: list[tuple[Run, int]], started: float) -> None:
        rows: list[Row] = []
        for run, n in batch:
            assert run.sequence is not None
            kept = self.kv.truncate(run.sequence, run.pos)
            if kept < run.pos:  # this model can't drop a part: everything is evaluated anew
                run.pos, run.n_reused = 0, 0
            end = run.pos + n
            rows += [
                Row(run.sequence.seq, p, run.path[p], wants_logits=p == len(run.path) - 1) for p in range(run.pos, end)
            ]
        self._inbox.begin_step([(run, run.pos + n) for run, n in batch])
        outcome = self._backend.decode(rows)
        self._inbox.end_step()
        if outcome in (Outcome.OK, Outcome.ABORTED):
            self._count(batch)
        if outcome is Outcome.OK:
            self._accept(batch, started)
        elif outcome is Outcome.ABORTED:
            logger.debug("a step of %d rows was aborted", len(rows))
        elif outcome is Outcome.NO_ROOM:
            self._make_room(batch)
        elif outcome is Outcome.REFUSED:
            self._isolate(batch, started)
        else:
            self._fail("the model's context failed; restart midfill")

    def _fail(self, why: str) -> None:
        """Everything unfinished, and every later request, is answered with the error."""
        self._failed = why
        self._end_all(FinishReason.ERROR, why)
        self.kv.forget_all()

    def _count(self, batch: list[tuple[Run, int]]) -> None:
        add = dict.fromkeys(("prompt", "healing", "generated", "background"), 0)
        for run, n in batch:
            for position in range(run.pos, run.pos + n):
                add[run.role(position)] += 1
        old = self._counters
        self._counters = replace(
            old,
            n_steps=old.n_steps + 1,
            prompt=old.prompt + add["prompt"],
            healing=old.healing + add["healing"],
            generated=old.generated + add["generated"],
            background=old.background + add["background"],
        )

    def _accept(self, batch: list[tuple[Run, int]], started: float) -> None:
        row = -1
        for run, n in batch:
            assert run.sequence is not None
            row += n
            self.kv.stored(run.sequence, run.path[run.pos : run.pos + n])
            prefill = run.in_prefill
            run.n_evaluated += max(0, min(run.pos + n, run.n_prompt) - run.pos)
            run.pos += n
            run.n_steps += 1
            now = self._clock()
            if prefill:
                run.prefill_ms += (now - started) * 1000
            else:
                run.decode_ms += (now - started) * 1000
            if run.pos == len(run.path):
                logits = self._backend.logits(row)
                self.kv.keep_logits(run.sequence, logits)
                self._choose(run, logits, now)

    def _make_room(self, batch: list[tuple[Run, int]]) -> None:
        """The cells are full: an idle sequence goes, then the background; then the largest of the batch ends."""
        if self.kv.evict():
            return
        victims = [r for r in self._runs if r.priority is Priority.BACKGROUND and r.sequence is not None]
        victim = victims[0] if victims else max((run for run, _ in batch), key=lambda r: r.pos)
        victim.end(FinishReason.CANCELLED if victims else FinishReason.CONTEXT, self._clock())

    def _isolate(self, batch: list[tuple[Run, int]], started: float) -> None:
        """A refused batch is tried run by run, so that the bad one fails alone."""
        if len(batch) > 1:
            for single in batch:
                if single[0].finish is None:  # one before it may have ended others: no room, or a lost context
                    self._decode([single], started)
            return
        run, _ = batch[0]
        assert run.sequence is not None
        run.end(FinishReason.ERROR, self._clock(), "the model refused the prompt; please report this with the log")
        self.kv.truncate(run.sequence, 0)

    def _drop_finished(self) -> None:
        for run in self._runs:
            if run.finish is not None:
                self._release(run)
        self._runs = [run for run in self._runs if run.finish is None]

    def _release(self, run: Run) -> None:
        if run.sequence is not None:
            self.kv.release(run.sequence)
            run.sequence = None

    def _end_all(self, finish: FinishReason, error: str = "") -> None:
        arrived, _ = self._inbox.take()
        self._runs.extend(arrived)
        now = self._clock()
        for run in self._runs:
            run.end(finish, now, error)
        self._drop_finished()
