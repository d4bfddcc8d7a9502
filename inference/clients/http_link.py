"""A connection to one engine's process: the lease that holds it, and the streams that run over it.

Owns what happens when it breaks: every stream ends with exactly one event. The lease is an event stream that stays open as long
as the client is connected. It tells the engine's state, and its end tells that the engine has gone, within a moment, whether
anything was asked or not. Refuses to start an engine or to try again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import aclosing, suppress
from typing import Any

from inference import sse
from inference.call import call_for, encode_call
from inference.clients.http_session import Gone, Refusal, Session
from inference.clients.material import Offered, Tokens
from inference.endpoint import Endpoint
from inference.types import Costs, Counters, EngineError, FinishReason, GenerationRequest, GenerationStats, TokenEvent
from inference.wire import EngineState, Hello, News, WireError, decode, decode_completion, decode_hello, to_json

_ACCEPTED_S = 0.25  # how long a cancellation waits for earlier requests to arrive before it
_CANCELLED_S = 2.0  # and then for the engine to end the request; after that the connection is closed

OnNews = Callable[[News], None]
OnLost = Callable[[str], None]


class HttpStream:
    """Events of one request. Exactly one, the last, has a finish, whatever happens to the connection."""

    def __init__(self, link: Link, request: GenerationRequest) -> None:
        self._link = link
        self._asked_at = asyncio.get_running_loop().time()
        self._id = request.request_id
        self._name = f"{link.prefix}-{request.request_id}"
        self._stats = GenerationStats()
        self._events: asyncio.Queue[TokenEvent] = asyncio.Queue()
        self._ended = asyncio.Event()
        self._is_cancelled = False
        self.accepted = asyncio.Event()  # the engine has it, or it is over
        self.was_heard = False  # the engine has said anything about it, be it that it does not want it
        if link.why_lost:
            self.fail(link.why_lost)
            return
        self._task = link.spawn(self._run(request))
        link.streams.add(self)

    async def next(self) -> TokenEvent:
        return await self._events.get()

    def cancel(self) -> None:
        if not self._ended.is_set() and not self._is_cancelled:
            self._is_cancelled = True
            self._link.spawn(self._cancel())

    def fail(self, why: str) -> None:
        """End it here and now."""
        self._end(TokenEvent(self._id, "", self._stats, FinishReason.ERROR, why))

    def close(self) -> None:
        """End it as cancelled, by closing its connection: the engine notices."""
        self._end(TokenEvent(self._id, "", self._stats, FinishReason.CANCELLED))
        self._task.cancel()

    async def _run(self, request: GenerationRequest) -> None:
        link = self._link
        body = to_json(encode_call(call_for(request, name=self._name, model=link.hello.model_name)))
        try:
            async with aclosing(link.session.events("POST", "/v1/completions", body, self._accept)) as events:
                async for data in events:
                    if data != sse.DONE:
                        self._heard(data)
        except (EngineError, WireError) as error:
            self.was_heard |= isinstance(error, Refusal)
            self.fail(str(error))
        finally:
            self.fail("The connection to the engine was lost.")  # does nothing if it has ended

    def _accept(self) -> None:
        self.was_heard = True
        self.accepted.set()

    def _heard(self, data: bytes) -> None:
        chunk = decode_completion(data, self._id)
        self._stats = chunk.event.stats
        if chunk.counters is not None:
            self._link.counters = chunk.counters
        if chunk.costs is not None:
            self._link.costs = chunk.costs
        if chunk.unknown_chunks:
            self._link.offer_again(chunk.unknown_chunks, self._asked_at)
        if chunk.event.finish is not None:
            self._end(chunk.event)
        elif not self._ended.is_set():
            self._events.put_nowait(chunk.event)

    def _end(self, event: TokenEvent) -> None:
        if self._ended.is_set():
            return
        self._ended.set()
        self.accepted.set()
        self._link.streams.discard(self)
        self._events.put_nowait(event)

    async def _cancel(self) -> None:
        """By name, so that the engine tells what it had done and the connection stays. Requests that were submitted before are
        let through first: one of them may go on where this one ends."""
        await self._link.all_accepted(_ACCEPTED_S)
        if not self._ended.is_set() and self.accepted.is_set():
            with suppress(EngineError, TimeoutError):
                async with asyncio.timeout(_CANCELLED_S):
                    await self._link.session.ask("POST", "/midfill/cancel", to_json({"name": self._name}))
                    await self._ended.wait()
        if not self._ended.is_set():
            self.close()


class Link:
    """One connection to one engine's process, from `open` to its loss or `aclose`."""

    def __init__(self, endpoint: Endpoint, on_news: OnNews, on_lost: OnLost) -> None:
        self.endpoint = endpoint
        self.prefix = secrets.token_hex(8)  # names of requests are the same for all clients of an engine
        self.session = Session(endpoint)
        self.streams: set[HttpStream] = set()
        self.offered = Offered()
        self.counters = Counters()
        self.costs: Costs | None = None
        self.news = News(EngineState.LOADING)
        self.why_lost = ""
        self.lost = asyncio.Event()
        self.hello: Hello
        self._on_news = on_news
        self._on_lost = on_lost
        self._is_open = False
        self._told = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Take a lease, wait for the model. EngineError: it can't be loaded, or the engine speaks another protocol; Gone."""
        await self._greet()  # before anything else is believed
        self.spawn(self._hold())
        while not self.why_lost:
            await self._told.wait()
            self._told.clear()
            if self.news.state is not EngineState.LOADING:
                break
        if self.why_lost:
            raise Gone(self.why_lost)
        if self.news.state is EngineState.FAILED:
            raise EngineError(self.news.why or "The engine can't load the model; its log says more.")
        if self.news.state is EngineState.DRAINING:
            raise Gone("The engine is about to end; start another one.")
        self.hello = await self._greet()
        if not self.hello.n_ctx or self.hello.costs is None:
            raise EngineError("The engine does not know its model yet; try again.")
        self.counters, self.costs = self.hello.counters, self.hello.costs

    async def _greet(self) -> Hello:
        try:
            return decode_hello(await self.session.ask("GET", "/midfill/hello"))
        except WireError as error:
            raise EngineError(str(error)) from None

    def begin(self) -> None:
        """From here on a loss is told. Gone: it is lost already."""
        if self.why_lost:
            raise Gone(self.why_lost)
        self._is_open = True

    def offer(self, chunks: Mapping[str, Tokens]) -> None:
        """Send what was not sent yet. Nothing waits for it."""
        self._send(self.offered.offer(chunks, asyncio.get_running_loop().time()))

    def offer_again(self, unknown: Iterable[str], asked_at: float) -> None:
        """What a request that was asked at that time named, and the engine did not know."""
        self._send(self.offered.again(unknown, asked_at, asyncio.get_running_loop().time()))

    def _send(self, chunks: Mapping[str, Tokens]) -> None:
        if chunks and not self.why_lost:
            self.spawn(self._put(chunks))

    async def _put(self, chunks: Mapping[str, Tokens]) -> None:
        for digest, tokens in chunks.items():
            try:
                await self.session.ask("PUT", f"/midfill/chunks/{digest}", to_json({"tokens": tokens}))
            except EngineError:
                self.offered.missed(digest)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def all_accepted(self, timeout_s: float) -> None:
        """Until the engine has every request that was submitted so far."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                for stream in tuple(self.streams):
                    await stream.accepted.wait()

    def lose(self, why: str) -> None:
        """The engine has gone."""
        if self.why_lost:
            return
        self.why_lost = why
        for stream in tuple(self.streams):
            stream.fail(why)
        self.lost.set()
        self._told.set()
        if self._is_open:
            self._on_lost(why)

    async def aclose(self) -> None:
        for stream in tuple(self.streams):
            stream.close()
        tasks = self._tasks - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.session.aclose()

    async def _hold(self) -> None:
        why = "The engine has ended."
        try:
            async with aclosing(self.session.events("GET", "/midfill/lease")) as events:
                async for data in events:
                    self.news = decode(News, data, "news")
                    self._told.set()
                    self._on_news(self.news)
        except (EngineError, WireError) as error:
            why = str(error)
        self.lose(why)
