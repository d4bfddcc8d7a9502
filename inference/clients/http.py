"""An engine in another process, over HTTP. Fits `inference.clients.base.EngineClient`.

States of a client:

    CONNECTED ──(its lease ends, nothing listens any more, nothing is heard)──▶ LOST ──reconnect()──▶ CONNECTED
        └────────────────────────────────── aclose() ──────────────────────────────▶ CLOSED

When it is LOST, every open stream has ended with one event, finish ERROR and a sentence; requests end the same way at once;
`on_lost` has been called, once for each loss, and `lost()` returns. Nothing here starts an engine or tries again by itself.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from inference.backend import Vocab
from inference.clients.http_link import HttpStream, Link, OnLost, OnNews
from inference.clients.vocabulary import EarlyVocabulary, Load, load_native, obtain
from inference.endpoint import Endpoint
from inference.models.identity import MAX_VOCABULARY
from inference.types import Costs, Counters, EngineError, GenerationRequest
from inference.wire import Hello, News, WireError, read_json, to_json


class State(StrEnum):
    CONNECTED = "connected"
    LOST = "lost"
    CLOSED = "closed"


class HttpClient:
    """Use `connect`."""

    def __init__(self, link: Link, vocab: Vocab, on_news: OnNews, on_lost: OnLost) -> None:
        self._link = link
        self._vocab = vocab
        self._ids = itertools.count(1)
        self._on_news = on_news
        self._on_lost = on_lost
        self._reconnecting = asyncio.Lock()
        self._is_closed = False

    @classmethod
    async def connect(
        cls,
        endpoint: Endpoint,
        cache_dir: Path,
        *,
        on_news: OnNews = lambda news: None,
        on_lost: OnLost = lambda why: None,
        load: Load = load_native,
        early: EarlyVocabulary | None = None,
    ) -> HttpClient:
        """Waits until the engine has its model and this process its vocabulary. on_news: the engine's state, meanwhile too.
        early: the vocabulary that the engine is expected to have.

        EngineError: not possible; `Gone` among them: no engine is there.
        """
        link = await _open(endpoint, on_news, on_lost)

        async def fetch() -> bytes:
            return await link.session.ask("GET", f"/midfill/vocab/{link.hello.vocab_digest}", most=MAX_VOCABULARY)

        try:
            vocab = await obtain(link.hello, fetch, cache_dir, load, early)
            link.begin()
        except BaseException:
            await link.aclose()
            raise
        return cls(link, vocab, on_news, on_lost)

    async def reconnect(self, endpoint: Endpoint | None = None) -> None:
        """To the engine that is there now, at the same place or another one. EngineError: there is none, or its model has
        another vocabulary; the client stays as it is then."""
        async with self._reconnecting:
            link = await _open(endpoint or self._link.endpoint, self._on_news, self._on_lost)
            try:
                if self._is_closed or link.hello.vocab_digest != self._link.hello.vocab_digest:
                    raise EngineError("The engine has a model with another vocabulary now; restart the language server.")
                link.offered = self._link.offered  # another engine names what it lacks
                link.begin()
            except EngineError:
                await link.aclose()
                raise
            old, self._link = self._link, link
            await old.aclose()

    @property
    def state(self) -> State:
        if self._is_closed:
            return State.CLOSED
        return State.LOST if self._link.why_lost else State.CONNECTED

    async def lost(self) -> str:
        """Returns when the present connection is lost: why."""
        link = self._link
        await link.lost.wait()
        return link.why_lost

    @property
    def hello(self) -> Hello:
        """What the engine said of itself when it was connected to."""
        return self._link.hello

    @property
    def news(self) -> News:
        """The engine's state as it was last told."""
        return self._link.news

    @property
    def vocab(self) -> Vocab:
        return self._vocab

    @property
    def n_ctx(self) -> int:
        return self.hello.n_ctx

    @property
    def model_name(self) -> str:
        return self.hello.model_name

    @property
    def notices(self) -> tuple[str, ...]:
        return self.hello.notices

    def next_id(self) -> int:
        return next(self._ids)

    def submit(self, request: GenerationRequest) -> HttpStream:
        """Never raises: without an engine the stream has one event, finish ERROR."""
        return HttpStream(self._link, request)

    def offer(self, chunks: Mapping[str, tuple[int, ...]]) -> None:
        self._link.offer(chunks)

    async def n_reusable(self, tokens: Sequence[int]) -> int:
        """0 without an engine."""
        if self._link.why_lost:
            return 0
        try:
            answer = read_json(await self._link.session.ask("POST", "/midfill/reusable", to_json({"tokens": tokens})))
        except (EngineError, WireError):
            return 0
        n = answer.get("n") if isinstance(answer, dict) else None
        return n if type(n) is int and 0 <= n <= len(tokens) else 0

    async def stats(self) -> bytes:
        """What the engine tells of itself, as JSON. EngineError."""
        return await self._link.session.ask("GET", "/midfill/stats")

    def costs(self) -> Costs:
        """As the engine last told them; the longer it runs, the better it knows."""
        costs = self._link.costs
        assert costs is not None, "without costs there is no connection"
        return costs

    def counters(self) -> Counters:
        """As the engine last told them, at the end of one of our requests."""
        return self._link.counters

    async def aclose(self) -> None:
        """End our requests and the connection; the engine lives on."""
        self._is_closed = True
        await self._link.aclose()


async def _open(endpoint: Endpoint, on_news: OnNews, on_lost: OnLost) -> Link:
    link = Link(endpoint, on_news, on_lost)
    try:
        await link.open()
    except BaseException:
        await link.aclose()
        raise
    return link
