"""Requests that run: their names, who asked, their events on the event loop, and the wait for the last one.

Owns the server's own request ids and the limits on how many run. A request is known here until the engine has ended it, which
may be long after its client left. Refuses HTTP.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from inference.call import Call
from inference.serve.errors import Refused
from inference.serve.host import EngineHost
from inference.serve.limits import Limits
from inference.serve.stops import Stops
from inference.types import FinishReason, GenerationRequest, GenerationStats, Priority, TokenEvent

log = logging.getLogger(__name__)

_BUSY = {"Retry-After": "1"}


class Feed:
    """Events of one request, on the loop. Those that nobody has taken yet are joined, so that no reader can pile them up."""

    def __init__(
        self, host: EngineHost, request: GenerationRequest, call: Call, peer: str, on_event: Callable[[Feed], None]
    ) -> None:
        self.request_id = request.request_id
        self.name = call.name or f"cmpl-{request.request_id}"
        self.peer = peer
        self.priority = call.priority
        self.stats = GenerationStats()
        self.finish: FinishReason | None = None
        self.has_text = False
        self._host = host
        self._stops = Stops(call.stops)
        self._why_ended: FinishReason | None = None
        self._waiting: TokenEvent | None = None
        self._news = asyncio.Event()
        self._loop = loop = asyncio.get_running_loop()
        self._on_event = on_event
        self._timers: list[asyncio.TimerHandle] = []
        self.began = loop.time()
        if call.deadline_ms is not None:
            self._timers.append(loop.call_later(call.deadline_ms / 1000, self.end, FinishReason.DEADLINE))

    def sink(self, event: TokenEvent) -> None:
        """For the engine's thread."""
        try:
            self._loop.call_soon_threadsafe(self._take, event)
        except RuntimeError:  # the loop has closed: nobody is left to tell
            self._host.cancel(self.request_id)

    async def next(self, timeout_s: float) -> TokenEvent | None:
        """What is new, as one event; None: nothing within the time. Not to be called after the one with a finish."""
        if self._waiting is None:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._news.wait()
            except TimeoutError:
                return None
        event, self._waiting = self._waiting, None
        self._news.clear()
        return event

    def end(self, why: FinishReason) -> None:
        """Let the engine end it; it will have ended for that reason."""
        if self.finish is None and self._why_ended is None:
            self._why_ended = why
            self._host.cancel(self.request_id)

    def leave(self, adopt_ms: float) -> None:
        """Its client is gone."""
        if self.finish is None:
            self._timers.append(self._loop.call_later(adopt_ms / 1000, self.end, FinishReason.CANCELLED))

    def _take(self, event: TokenEvent) -> None:
        text = self._stops.push(event.text)
        finish = event.finish
        if finish is not None:
            text += self._stops.rest()
        elif self._stops.is_hit:
            self.end(FinishReason.STOP)
        if finish is FinishReason.CANCELLED and self._why_ended is not None:
            finish = self._why_ended
        elif finish in (FinishReason.LENGTH, FinishReason.CONTEXT) and self._stops.is_hit:
            finish = FinishReason.STOP
        self.has_text |= bool(text)
        self.stats, self.finish = event.stats, finish
        if finish is not None:
            for timer in self._timers:
                timer.cancel()
        before = self._waiting.text if self._waiting is not None else ""
        if text or finish is not None:
            self._waiting = replace(event, text=before + text, finish=finish)
            self._news.set()
        self._on_event(self)


@dataclass
class Running:
    """on_event: told of every event of every request, for the metrics."""

    host: EngineHost
    limits: Limits
    on_event: Callable[[Feed], None] = lambda feed: None
    _by_name: dict[str, Feed] = field(default_factory=dict)
    _ids: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _on_empty: Callable[[], None] | None = None

    @property
    def is_draining(self) -> bool:
        return self._on_empty is not None

    def __len__(self) -> int:
        return len(self._by_name)

    def by_priority(self) -> Counter[Priority]:
        return Counter(feed.priority for feed in self._by_name.values())

    def start(self, call: Call, tokens: tuple[int, ...], peer: str) -> Feed:
        """Hand it to the engine. Refused: too many run, the name is taken, or nothing new is taken any more."""
        if self.is_draining:
            raise Refused(503, "The engine is about to end and takes nothing new; connect again.", "draining", headers=_BUSY)
        if len(self) >= self.limits.n_running:
            raise Refused(429, f"{len(self)} requests run already; try again later.", "busy", headers=_BUSY)
        n_own = sum(feed.peer == peer for feed in self._by_name.values())
        if n_own >= self.limits.n_running_per_peer:
            raise Refused(429, f"{n_own} requests of yours run already; try again later.", "busy", headers=_BUSY)
        if call.name in self._by_name:
            raise Refused(409, "A request of that name runs already; choose another midfill.name.", "name_taken")
        request = call.request(next(self._ids), tokens)
        feed = Feed(self.host, request, call, peer, self._heard)
        self._by_name[feed.name] = feed
        try:
            self.host.submit(request, feed.sink)
        except BaseException:
            del self._by_name[feed.name]
            raise
        return feed

    def cancel(self, name: str) -> bool:
        """False: there is no such request (any more)."""
        feed = self._by_name.get(name)
        if feed is None:
            return False
        feed.end(FinishReason.CANCELLED)
        return True

    def cancel_all(self) -> None:
        for feed in self._by_name.values():
            feed.end(FinishReason.CANCELLED)

    def drain(self, on_empty: Callable[[], None]) -> None:
        """Take nothing new; on_empty is called once, when nothing runs any more."""
        if self.is_draining:
            return
        self._on_empty = on_empty
        if not self._by_name:
            asyncio.get_running_loop().call_soon(on_empty)

    def _heard(self, feed: Feed) -> None:
        self.on_event(feed)
        if feed.finish is None:
            return
        del self._by_name[feed.name]
        if self._on_empty is not None and not self._by_name:
            asyncio.get_running_loop().call_soon(self._on_empty)
