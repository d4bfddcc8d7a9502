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
    """Events of one request, on the loop. Those that nobody has taken yet are joined, candidate by candidate, so that no reader
    can pile them up."""

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
        self._stops = [Stops(call.stops) for _ in range(call.n_candidates)]
        self._why_ended: FinishReason | None = None
        self._waiting: dict[int, TokenEvent] = {}  # by candidate
        self._last: TokenEvent | None = None
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
        if not self._waiting and self._last is None:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._news.wait()
            except TimeoutError:
                return None
        self._news.clear()
        return self._waiting.pop(min(self._waiting)) if self._waiting else self._last

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
        self._join(event, self._stops[event.candidate].push(event.text))
        self.stats = event.stats
        if event.finish is not None:
            self._take_last(event)
        elif all(stops.is_hit for stops in self._stops):
            self.end(FinishReason.STOP)
        if self._waiting or self._last is not None:
            self._news.set()
        self._on_event(self)

    def _join(self, event: TokenEvent, text: str) -> None:
        if not text:
            return
        self.has_text = True
        before = self._waiting.get(event.candidate)
        self._waiting[event.candidate] = replace(
            event, text=(before.text if before is not None else "") + text, finish=None, error="", ranking=()
        )

    def _take_last(self, event: TokenEvent) -> None:
        assert event.finish is not None
        for candidate, stops in enumerate(self._stops):
            self._join(replace(event, candidate=candidate), stops.rest())
        ranking = tuple(replace(r, finish=self._finish(r.candidate, r.finish)) for r in event.ranking)
        self.finish = self._finish(event.candidate, event.finish)
        said = self._waiting.pop(event.candidate, None)
        self._last = replace(event, text=said.text if said is not None else "", finish=self.finish, ranking=ranking)
        for timer in self._timers:
            timer.cancel()

    def _finish(self, candidate: int, finish: FinishReason) -> FinishReason:
        """Why it ended, as its caller sees it."""
        if finish is FinishReason.CANCELLED and self._why_ended is not None:
            return self._why_ended
        if finish in (FinishReason.LENGTH, FinishReason.CONTEXT) and self._stops[candidate].is_hit:
            return FinishReason.STOP
        return finish


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
