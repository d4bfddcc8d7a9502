"""What the engine is asked and what it says, watched from between it and the server. Changes nothing that passes through.

Times are of `time.perf_counter()`, at the moment at which the server itself is told.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from inference.backend import Vocab
from inference.clients.base import EngineClient, Stream
from inference.types import Costs, Counters, FinishReason, GenerationRequest, Priority, TokenEvent


@dataclass(slots=True)
class Seen:
    """What came of one typing request. events: (perf_counter, n_steps) of each; first_text: perf_counter, 0 = none yet."""

    n_context: int
    first_text: float = 0.0
    finish: FinishReason | None = None
    events: list[tuple[float, int]] = field(default_factory=list)

    def take(self, event: TokenEvent) -> None:
        now = time.perf_counter()
        if event.text and not self.first_text:
            self.first_text = now
        self.finish = event.finish
        self.events.append((now, event.stats.n_steps))

    def n_steps_at(self, moment: float) -> int:
        return max((n for when, n in self.events if when <= moment), default=0)


class _WatchedStream:
    def __init__(self, stream: Stream, seen: Seen) -> None:
        self._stream = stream
        self._seen = seen

    async def next(self) -> TokenEvent:
        event = await self._stream.next()
        self._seen.take(event)
        return event

    def cancel(self) -> None:
        self._stream.cancel()


class Probe:
    """An EngineClient in front of another one. typing: the typing requests so far."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self.typing: list[Seen] = []

    @property
    def vocab(self) -> Vocab:
        return self._client.vocab

    @property
    def n_ctx(self) -> int:
        return self._client.n_ctx

    @property
    def model_name(self) -> str:
        return self._client.model_name

    @property
    def notices(self) -> tuple[str, ...]:
        return self._client.notices

    def next_id(self) -> int:
        return self._client.next_id()

    def submit(self, request: GenerationRequest) -> Stream:
        stream = self._client.submit(request)
        if request.priority is not Priority.TYPING:
            return stream
        seen = Seen(len(request.tokens))
        self.typing.append(seen)
        return _WatchedStream(stream, seen)

    def offer(self, chunks: Mapping[str, tuple[int, ...]]) -> None:
        self._client.offer(chunks)

    async def n_reusable(self, tokens: Sequence[int]) -> int:
        return await self._client.n_reusable(tokens)

    def costs(self) -> Costs:
        return self._client.costs()

    def counters(self) -> Counters:
        return self._client.counters()

    async def aclose(self) -> None:
        await self._client.aclose()
