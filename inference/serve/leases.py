"""Leases: each connected language server holds one, as long as it wants the engine to stay.

Owns their number and what they are told: the engine's state, at once and whenever it changes, and a comment when it is quiet.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from inference import sse
from inference.serve.errors import Refused
from inference.serve.host import EngineHost
from inference.serve.limits import Limits
from inference.serve.running import Running
from inference.serve.stream import EventStream
from inference.wire import EngineState, News, to_json


class Leases:
    """Lives on the event loop that it is made on. Told of nothing before `start`."""

    def __init__(self, host: EngineHost, running: Running, limits: Limits) -> None:
        self._host = host
        self._running = running
        self._limits = limits
        self._waiting: set[asyncio.Event] = set()  # one of each lease; set when there is something to tell
        self._is_closing = False

    def __len__(self) -> int:
        return len(self._waiting)

    def start(self) -> None:
        loop = asyncio.get_running_loop()

        def tell(_: News) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self.announce)

        self._host.watch(tell)

    def announce(self) -> None:
        """The state may have changed."""
        for changed in self._waiting:
            changed.set()

    def close(self) -> None:
        """End all of them."""
        self._is_closing = True
        self.announce()

    def news(self) -> News:
        return News(EngineState.DRAINING) if self._running.is_draining else self._host.news()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if len(self) >= self._limits.n_leases:
            raise Refused(429, f"There are {len(self)} leases already.", "busy")
        changed = asyncio.Event()
        self._waiting.add(changed)
        self._host.on_leases(len(self))
        try:
            return await self._tell(request, changed)
        finally:
            self._waiting.discard(changed)
            self._host.on_leases(len(self))

    async def _tell(self, request: web.Request, changed: asyncio.Event) -> web.StreamResponse:
        stream = EventStream(request, self._limits.write_s)
        await stream.begin()
        told: News | None = None
        while not self._is_closing:
            changed.clear()
            news = self.news()
            await stream.write(sse.frame(to_json(news)) if news != told else sse.comment())
            told = news
            try:
                async with asyncio.timeout(self._limits.quiet_s):
                    await changed.wait()
            except TimeoutError:
                continue
        return await stream.end()
