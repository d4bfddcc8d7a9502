"""An engine stepped by hand whose prompts survive it: on the strict fake, with a clock that moves only when it is told to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from inference.engine import Engine
from inference.prompt_cache.archive import Archive
from inference.prompt_cache.keeper import Keeper
from inference.prompt_cache.store import Store
from inference.sequence import pack
from inference.types import Costs, EngineStats, GenerationRequest, Priority, TokenEvent
from tests.support.fake_backend import FakeBackend, FakeVocab
from tests.support.saved_prompts import OF, wait_until

VOCAB = FakeVocab()
NEVER = -50.0  # so much less likely is the end of a text
COSTS = Costs(prefill_ms_per_token=8.0, step_ms=30.0)


class SavingEngine:
    """states: what backends have saved so far, which all that use one directory share. Whatever is given beside goes to the
    engine; backend: None = a fake."""

    def __init__(
        self,
        place: Path,
        states: dict[bytes, tuple[int, ...]] | None = None,
        *,
        backend: Any = None,
        fingerprint: bytes = OF,
        store: Store | None = None,
        n_ctx: int = 2048,
        n_sequences: int = 3,
        is_open: bool = True,
        **more: Any,
    ) -> None:
        self.backend = backend or FakeBackend(VOCAB, n_ctx=2 * n_ctx, n_batch=256, n_seq_max=n_sequences + 1, states=states)
        self.backend.eos_bias = NEVER
        self.now = 0.0
        self.archive = Archive(store or Store(place, 1 << 30), fingerprint)
        self.archive.start()
        if is_open:
            wait_until(lambda: not self.archive.is_opening)
        self.engine = Engine(
            self.backend, n_ctx=n_ctx, n_sequences=n_sequences, costs=COSTS, archive=self.archive,
            clock=lambda: self.now, chunk_ms=4000.0, **more,
        )  # fmt: skip
        self.events: dict[int, list[TokenEvent]] = {}

    @property
    def keeper(self) -> Keeper:
        keeper = self.engine._keeper
        assert keeper is not None
        return keeper

    @property
    def stats(self) -> EngineStats:
        return self.engine.stats()

    def submit(self, tokens: tuple[int, ...], n_max: int = 4, **more: Any) -> int:
        request_id = len(self.events) + 1
        events = self.events.setdefault(request_id, [])
        priority = more.pop("priority", Priority.TYPING)
        self.engine.submit(GenerationRequest(request_id, tokens, n_max=n_max, priority=priority, **more), events.append)
        return request_id

    def step(self) -> bool:
        busy = self.engine.step()
        for sequence in self.engine.kv.sequences:
            assert sequence.tokens == self.backend.tokens(sequence.seq)
            assert sequence.packed == pack(sequence.tokens) and len(sequence.cells) == len(sequence.packed)
        return busy

    def drain(self) -> None:
        """Until nothing is left to do at this time; what is read from the disk is waited for."""
        for _ in range(100_000):
            if self.step():
                continue
            if not self.is_waiting:
                return
            wait_until(lambda: not self.is_waiting or self.step())
        raise AssertionError("the engine never came to rest")

    @property
    def is_waiting(self) -> bool:
        return any(self.keeper.restorer.is_held(run) for run in self.engine._runs)

    def rest(self, seconds: float = 6.0) -> None:
        """So long nobody types; what was handed over is written afterwards."""
        self.now += seconds
        self.drain()
        wait_until(lambda: not self.archive._pending)
        self.drain()

    def say(self, tokens: tuple[int, ...], n_max: int = 4, **more: Any) -> TokenEvent:
        """Ask and wait. The last event, with the whole text in it."""
        return self.said(self.submit(tokens, n_max, **more))

    def said(self, request_id: int) -> TokenEvent:
        self.drain()
        events = self.events[request_id]
        last = events[-1]
        assert last.finish is not None
        text = "".join(event.text for event in events)
        return TokenEvent(last.request_id, text, last.stats, last.finish, last.error)

    def end(self) -> None:
        """In order: what is worth it is saved."""
        self.engine.close()
        self.engine.run_forever()

    def kill(self) -> None:
        """Nothing more is saved."""
        self.archive.close(100.0)
