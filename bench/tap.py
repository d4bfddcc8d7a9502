"""What the engine is asked and what it says in full, seen from between it and the completion heart.

Times are no matter here, tokens are. One thing it may change, and only when told: how many tokens a request generates.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from inference.backend import Vocab
from inference.clients.base import EngineClient, Stream
from inference.types import Costs, Counters, FinishReason, GenerationRequest, GenerationStats, Priority, TokenEvent


@dataclass(slots=True)
class Call:
    """One typing request: its prompt, and what has come of it so far. text: beyond the cursor.

    n_to_line: tokens beyond the cursor that were generated until the first line was whole, or until the end.
    """

    tokens: tuple[int, ...]
    heal: bytes
    text: str = ""
    n_to_line: int = 0
    stats: GenerationStats = field(default_factory=GenerationStats)
    finish: FinishReason | None = None
    error: str = ""

    def take(self, event: TokenEvent) -> None:
        if "\n" not in self.text:
            self.n_to_line = event.stats.n_generated
        self.text += event.text
        self.stats, self.finish, self.error = event.stats, event.finish, event.error


class _TappedStream:
    def __init__(self, stream: Stream, call: Call | None, ended: asyncio.Event, goes_on: bool) -> None:
        self._goes_on = goes_on
        self._stream = stream
        self._call = call
        self._ended = ended

    async def next(self) -> TokenEvent:
        event = await self._stream.next()
        if self._call is not None:
            self._call.take(event)
        if event.finish is not None:
            self._ended.set()
        return event

    def cancel(self) -> None:
        if not self._goes_on:
            self._stream.cancel()


class Tap:
    """An EngineClient in front of another one. calls: the typing requests since they were last taken.

    n_most: most tokens that a typing request generates from now on, whatever it asks for; None = as it asks. goes_on: it is let
    say all of it, also where the product has heard enough.
    Closing it leaves the engine open: `client` is whose it is.
    """

    def __init__(self, client: EngineClient) -> None:
        self.client = client
        self.calls: list[Call] = []
        self.n_most: int | None = None
        self.goes_on = False
        self._ends: list[asyncio.Event] = []

    @property
    def vocab(self) -> Vocab:
        return self.client.vocab

    @property
    def n_ctx(self) -> int:
        return self.client.n_ctx

    @property
    def model_name(self) -> str:
        return self.client.model_name

    @property
    def notices(self) -> tuple[str, ...]:
        return self.client.notices

    def next_id(self) -> int:
        return self.client.next_id()

    def submit(self, request: GenerationRequest) -> Stream:
        call = None
        if request.priority is Priority.TYPING:
            if self.n_most is not None:
                request = replace(request, n_max=min(request.n_max, self.n_most))
            call = Call(request.tokens, request.heal)
            self.calls.append(call)
        ended = asyncio.Event()
        self._ends.append(ended)
        return _TappedStream(self.client.submit(request), call, ended, call is not None and self.goes_on)

    async def quiet(self) -> None:
        """Until every request has ended. Somebody has to be reading them: whoever submitted them is."""
        for ended in self._ends:
            await ended.wait()
        self._ends.clear()

    def offer(self, chunks: Mapping[str, tuple[int, ...]]) -> None:
        self.client.offer(chunks)

    async def n_reusable(self, tokens: Sequence[int]) -> int:
        return await self.client.n_reusable(tokens)

    def costs(self) -> Costs:
        return self.client.costs()

    def counters(self) -> Counters:
        return self.client.counters()

    async def aclose(self) -> None:
        await self.quiet()
