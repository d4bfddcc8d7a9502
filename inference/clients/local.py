"""The engine in this process: its owner thread, and streams that bring its events to the event loop."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Mapping, Sequence

from inference.backend import Vocab
from inference.engine import Engine
from inference.types import Costs, Counters, GenerationRequest, TokenEvent


class LocalStream:
    """Events of one request, handed from the owner thread to the loop that submitted it."""

    def __init__(self, engine: Engine, request: GenerationRequest) -> None:
        self._engine = engine
        self._request_id = request.request_id
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[TokenEvent] = asyncio.Queue()
        engine.submit(request, self._sink)

    def _sink(self, event: TokenEvent) -> None:
        try:
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)
        except RuntimeError:  # the loop has closed: nobody is left to tell
            self._engine.cancel(self._request_id)

    async def next(self) -> TokenEvent:
        return await self._events.get()

    def cancel(self) -> None:
        self._engine.cancel(self._request_id)


class LocalClient:
    """Fits `inference.clients.base.EngineClient`. Owns the engine's thread from construction to `aclose`."""

    def __init__(self, engine: Engine, vocab: Vocab, model_name: str, notices: tuple[str, ...] = ()) -> None:
        self._engine = engine
        self._vocab = vocab
        self._ids = itertools.count(1)
        self.model_name = model_name
        self.notices = notices
        self._thread = threading.Thread(target=engine.run_forever, name="engine", daemon=True)
        self._thread.start()

    @property
    def vocab(self) -> Vocab:
        return self._vocab

    @property
    def n_ctx(self) -> int:
        return self._engine.n_ctx

    def next_id(self) -> int:
        return next(self._ids)

    def submit(self, request: GenerationRequest) -> LocalStream:
        return LocalStream(self._engine, request)

    async def n_reusable(self, tokens: Sequence[int]) -> int:
        return self._engine.n_reusable(tuple(tokens))

    def offer(self, chunks: Mapping[str, tuple[int, ...]]) -> None:
        if (drafting := self._engine.drafting) is not None:
            for digest in drafting.chunks.unknown(chunks):
                drafting.chunks.put(digest, chunks[digest])

    def costs(self) -> Costs:
        return self._engine.costs

    def counters(self) -> Counters:
        return self._engine.counters()

    async def aclose(self) -> None:
        """End everything that runs and free the model; waits for the step under way, off the loop."""
        self._engine.close()
        await asyncio.to_thread(self._thread.join, 10.0)
