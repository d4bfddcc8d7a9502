"""An engine elsewhere that is there again after it has gone. Fits `inference.clients.base.EngineClient`.

Owns when it is looked for and started again: never by itself, but for the next request, which waits for it; with back-off. What
runs when the engine goes away is answered with the reason (`http`). A request that comes when it is too early to try again is
answered at once. Refuses to know how an engine is started: `Source` does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from inference.backend import Vocab
from inference.backoff import Backoff
from inference.clients.base import Stream
from inference.clients.http import HttpClient, State
from inference.clients.http_link import OnNews
from inference.clients.http_session import Gone
from inference.clients.late_stream import LateStream, SentStream
from inference.clients.vocabulary import EarlyVocabulary, Load, load_native
from inference.endpoint import Endpoint
from inference.types import Costs, Counters, EngineError, FinishReason, GenerationRequest
from inference.wire import EngineState, Hello, News

log = logging.getLogger(__name__)

_PATIENCE_S = 2.0  # so long a request waits for the next attempt
_NOTICED_S = 1.0  # for the loss of a connection to be noticed everywhere
_LEAVING_S = 25.0  # for an engine that finishes what runs, before another one is looked for

OnLost = Callable[[str, bool], None]


class Source(Protocol):
    """Where an engine is to be had."""

    async def endpoint(self) -> Endpoint:
        """Of one that runs, started if need be. EngineError."""
        ...

    async def sweep(self) -> None:
        """One has died: remove what it has left. Never fails."""
        ...


class LastingClient:
    """Use `connect`. on_lost: why, and whether it has failed so often that nothing is tried for a while. on_revived: called
    when an engine is there again, perhaps with another n_ctx."""

    def __init__(self, source: Source, on_news: OnNews, on_lost: OnLost, backoff: Backoff) -> None:
        self._source = source
        self._on_news = on_news
        self._on_lost = on_lost
        self._backoff = backoff
        self._http: HttpClient
        self._reviving: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._why = ""
        self._has_served = False  # since it was connected to
        self.on_revived: Callable[[], None] = lambda: None

    @classmethod
    async def connect(
        cls,
        source: Source,
        cache_dir: Path,
        *,
        on_news: OnNews = lambda news: None,
        on_lost: OnLost = lambda why, is_hopeless: None,
        backoff: Backoff | None = None,
        load: Load = load_native,
        early: EarlyVocabulary | None = None,
    ) -> LastingClient:
        """Waits until the engine has its model. EngineError: not possible. backoff: its failures before count, too. early: the
        vocabulary that the engine is expected to have."""
        client = cls(source, on_news, on_lost, backoff or Backoff(asyncio.get_running_loop().time))
        where = await source.endpoint()
        client._http = await HttpClient.connect(where, cache_dir, on_news=on_news, on_lost=client._lost, load=load, early=early)
        return client

    @property
    def hello(self) -> Hello:
        return self._http.hello

    @property
    def news(self) -> News:
        return self._http.news

    @property
    def is_connected(self) -> bool:
        return self._http.state is State.CONNECTED

    @property
    def vocab(self) -> Vocab:
        return self._http.vocab

    @property
    def n_ctx(self) -> int:
        return self._http.n_ctx

    @property
    def model_name(self) -> str:
        return self._http.model_name

    @property
    def notices(self) -> tuple[str, ...]:
        return self._http.notices

    def next_id(self) -> int:
        return self._http.next_id()

    def costs(self) -> Costs:
        return self._http.costs()

    def counters(self) -> Counters:
        return self._http.counters()

    async def n_reusable(self, tokens: Sequence[int]) -> int:
        return await self._http.n_reusable(tokens)

    def offer(self, chunks: Mapping[str, tuple[int, ...]]) -> None:
        self._http.offer(chunks)

    def submit(self, request: GenerationRequest) -> Stream:
        if self._is_usable:
            return SentStream(self._http.submit(request), self._served, lambda: self._again(request))
        return self._later(request)

    def _later(self, request: GenerationRequest) -> LateStream:
        late = LateStream(request)
        if not request.priority.is_foreground:
            late.end(FinishReason.ERROR, self._why or "The engine is about to end.")  # nobody waits: no reason to start one
            return late
        late.task = asyncio.get_running_loop().create_task(self._submit_later(late))
        return late

    async def stats(self) -> bytes | None:
        """What the engine tells of itself, as JSON; None: it is not there, or does not answer."""
        if not self._is_usable:
            return None
        try:
            return await self._http.stats()
        except EngineError:
            return None

    async def aclose(self) -> None:
        """End our requests and the connection; the engine lives on."""
        for task in (self._reviving, self._sweeping):
            if task is not None:
                task.cancel()
        await self._http.aclose()

    # -- coming back

    @property
    def _is_usable(self) -> bool:
        return self.is_connected and self._http.news.state is not EngineState.DRAINING

    async def _submit_later(self, late: LateStream) -> None:
        try:
            await self._revived()
        except EngineError as error:
            late.end(FinishReason.ERROR, str(error))
            return
        except asyncio.CancelledError:  # the client is being closed
            late.end(FinishReason.CANCELLED)
            raise
        late.begin(lambda request: SentStream(self._http.submit(request), self._served))

    async def _again(self, request: GenerationRequest) -> Stream | None:
        """For one that no engine has heard of, because it was about to be lost when it was asked; None: it was not."""
        if self.is_connected:
            await _in_time(self._http.lost(), _NOTICED_S)
        return self._later(request) if self._http.state is State.LOST else None

    async def _revived(self) -> None:
        """Returns when there is an engine again. EngineError: there is none, or it is too early to try."""
        if self._is_usable or self._http.state is State.CLOSED:
            return
        wait_s = self._backoff.wait_s()
        if self._reviving is None and wait_s > _PATIENCE_S:
            raise EngineError(f"{self._why.rstrip('.')}; it is tried again in {wait_s:.0f} s, or by midfill.restartEngine.")
        await asyncio.shield(self._begin_to_revive(wait_s))

    def _begin_to_revive(self, wait_s: float) -> asyncio.Task[None]:
        if self._reviving is None:
            self._reviving = asyncio.get_running_loop().create_task(self._revive(wait_s))
            self._reviving.add_done_callback(self._has_tried)
        return self._reviving

    def _has_tried(self, task: asyncio.Task[None]) -> None:
        self._reviving = None
        if not task.cancelled():
            task.exception()  # nobody may be waiting any more

    async def _revive(self, wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        if self.is_connected:  # it finishes what runs, and goes
            await _in_time(self._http.lost(), _LEAVING_S)
        try:
            self._on_news(News(EngineState.LOADING))
            where = await self._source.endpoint()
            await self._http.reconnect(where)
        except EngineError as error:
            self._failed(str(error))
            if isinstance(error, Gone):
                await self._source.sweep()
            raise
        self._has_served = False
        self._on_news(self._http.news)
        self.on_revived()

    def _served(self) -> None:
        self._has_served = True
        self._backoff.succeeded()

    def _lost(self, why: str) -> None:
        """The connection that was there is not any more."""
        if self._http.news.state is EngineState.DRAINING:
            self._why = why
            self._begin_to_revive(0.0)  # another one takes its place
            return
        self._sweeping = asyncio.get_running_loop().create_task(self._source.sweep())
        if self._has_served:
            self._why = why
            self._on_lost(why, False)
        else:
            self._failed(why)

    def _failed(self, why: str) -> None:
        self._backoff.failed()
        self._why = why
        self._on_lost(why, self._backoff.is_hopeless)


async def _in_time(wait: Awaitable[object], seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await wait
    except TimeoutError:
        log.info("the engine takes its time to go")
