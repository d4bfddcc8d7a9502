"""Streams of a client whose engine comes and goes (`lasting`): one that waits for an engine, and one that may have met none.

Owns that each ends once, whatever happens in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from inference.clients.base import Stream
from inference.clients.http_link import HttpStream
from inference.types import FinishReason, GenerationRequest, GenerationStats, TokenEvent


class SentStream:
    """A request that was sent. on_served: called when it is told something that only a sound engine says. again: gives another
    stream for it, if no engine has heard of it; once."""

    def __init__(
        self,
        stream: HttpStream,
        on_served: Callable[[], None],
        again: Callable[[], Awaitable[Stream | None]] | None = None,
    ) -> None:
        self._sent = stream
        self._stream: Stream = stream
        self._on_served = on_served
        self._again = again
        self._is_cancelled = False

    async def next(self) -> TokenEvent:
        event = await self._stream.next()
        if event.finish is FinishReason.ERROR and not self._sent.was_heard and self._again is not None:
            again, self._again = self._again, None
            stream = None if self._is_cancelled else await again()
            if self._is_cancelled:
                if stream is not None:
                    stream.cancel()
                return replace(event, finish=FinishReason.CANCELLED, error="")
            if stream is not None:
                self._stream = stream
                return await stream.next()
        if event.text or event.finish not in (None, FinishReason.ERROR, FinishReason.CANCELLED):
            self._on_served()
        return event

    def cancel(self) -> None:
        self._is_cancelled = True
        self._stream.cancel()


class LateStream:
    """A request that waits for an engine. task: what looks for one, kept alive here."""

    def __init__(self, request: GenerationRequest) -> None:
        self._request = request
        self._begun: asyncio.Future[Stream | TokenEvent] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[None] | None = None

    async def next(self) -> TokenEvent:
        begun = await asyncio.shield(self._begun)
        return begun if isinstance(begun, TokenEvent) else await begun.next()

    def cancel(self) -> None:
        if not self._begun.done():
            self.end(FinishReason.CANCELLED)
            return
        begun = self._begun.result()
        if not isinstance(begun, TokenEvent):
            begun.cancel()

    def begin(self, submit: Callable[[GenerationRequest], Stream]) -> None:
        if not self._begun.done():
            self._begun.set_result(submit(self._request))

    def end(self, finish: FinishReason, why: str = "") -> None:
        if not self._begun.done():
            self._begun.set_result(TokenEvent(self._request.request_id, "", GenerationStats(), finish, why))
