"""How a server comes to its engine: one in this process, one that all windows share, or one on another machine.

Owns the three ways and the choice between them by the settings. What an engine then does is told through `Ears`; what to do
about it is `room`'s.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from inference import engine_record, unix_socket
from inference.backoff import Backoff
from inference.clients.base import EngineClient
from inference.clients.http_session import Gone
from inference.clients.lasting import LastingClient, Source
from inference.clients.vocabulary import EarlyVocabulary
from inference.config import EngineConfig
from inference.endpoint import Endpoint, at_url
from inference.engine_settings import differing, settings_of
from inference.launcher import Launcher
from inference.models.choice import AUTO, Located, locate
from inference.models.identity import ModelFile, identify
from inference.runtime_dir import place_of, places
from inference.smaller_model import that_fits, without_native_code
from inference.spare import Spare
from inference.wire import EngineState, News
from lsp_server.commands.engine import command_line
from lsp_server.config import Config

log = logging.getLogger(__name__)

OnProgress = Callable[[float], None]
# settings and a callback for the share loaded (0 to 1) → a client, and what it has to tell; blocking, in a thread
OpenHere = Callable[[Config, OnProgress], tuple[EngineClient, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class Ears:
    """Called on the loop. on_lost: why, and whether nothing is tried for a while. on_revived: there is an engine again."""

    on_news: Callable[[News], None]
    on_lost: Callable[[str, bool], None]
    on_revived: Callable[[], None]
    backoff: Backoff


def deaf() -> Ears:
    """Hears nothing: for what ends before anything could be done about it."""
    return Ears(lambda news: None, lambda why, is_pausing: None, lambda: None, Backoff(time.monotonic))


async def _no_stats() -> dict[str, Any] | None:
    return None


@dataclass(frozen=True, slots=True)
class Opened:
    """notes: for the message that it is ready. notices: for the user, once. aclose: leaves the engine, or ends it."""

    client: EngineClient
    aclose: Callable[[], Awaitable[None]]
    notes: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    stats: Callable[[], Awaitable[dict[str, Any] | None]] = field(default=_no_stats)


class Way(Protocol):
    async def open(self, config: Config, ears: Ears, *, fresh: bool = False) -> Opened:
        """Waits until the model is there. fresh: end the engine that runs, and start one with these settings.

        EngineError; `Gone` among them: it ended on the way, and another try may do.
        """
        ...


class Here:
    """In this process. is_kept: it outlives this server, because others use it as well."""

    def __init__(self, open_here: OpenHere, *, is_kept: bool = False) -> None:
        self._open = open_here
        self._is_kept = is_kept
        self._closing: asyncio.Future[None] | None = None

    async def open(self, config: Config, ears: Ears, *, fresh: bool = False) -> Opened:
        loop = asyncio.get_running_loop()

        def progress(share: float) -> None:
            loop.call_soon_threadsafe(ears.on_news, News(EngineState.LOADING, share))

        loading = asyncio.ensure_future(asyncio.to_thread(self._open, config, progress))
        try:
            client, notes = await asyncio.shield(loading)
        except asyncio.CancelledError:  # a thread can't be stopped: what it still brings is closed
            loading.add_done_callback(self._let_go)
            raise

        async def stats() -> dict[str, Any]:
            return {"model": client.model_name, "n_ctx": client.n_ctx, "counters": asdict(client.counters())}

        return Opened(client, _nothing if self._is_kept else client.aclose, notes, client.notices, stats)

    def _let_go(self, loading: asyncio.Future[tuple[EngineClient, tuple[str, ...]]]) -> None:
        if not self._is_kept and not loading.cancelled() and loading.exception() is None:
            self._closing = asyncio.ensure_future(loading.result()[0].aclose())


async def _nothing() -> None:
    """What is shared stays."""


class Shared:
    """A process of its own, found or started. version: of this midfill. spare: for the first one that is started."""

    def __init__(self, cache_dir: Callable[[], Path], version: str, spare: Spare | None = None) -> None:
        self._cache_dir = cache_dir
        self._version = version
        self._spare = spare

    async def open(self, config: Config, ears: Ears, *, fresh: bool = False) -> Opened:
        cache_dir, engine = self._cache_dir(), config.engine
        located, model = await asyncio.to_thread(_aim, config, cache_dir)
        loopback = not unix_socket.is_possible()
        launcher = Launcher(
            place_of(model.digest),
            lambda place: command_line(model.path, located.name, model.digest, engine, cache_dir, loopback=loopback),
            self._version,
            self._spare,
        )
        try:
            if fresh:
                await launcher.restart()
            client = await _connect(launcher, cache_dir, ears, EarlyVocabulary(model))
        except Gone:
            await launcher.sweep()
            raise Gone(f"The engine ended while it loaded {located.name}; {launcher.place.log} says more.") from None
        other = differing(settings_of(engine), client.hello.settings)
        notices = [*([located.notice] if located.notice else []), *client.notices]
        if other:
            notices.append(
                f"{', '.join(other)}: the engine runs with other values, for another window; it is used as it is, and the "
                "command midfill.restartEngine starts it with yours"
            )
        return Opened(client, client.aclose, (located.note,) if located.note else (), tuple(notices), _stats_of(client))


class Elsewhere:
    """An engine on another machine, at `engine_url`."""

    def __init__(self, cache_dir: Callable[[], Path]) -> None:
        self._cache_dir = cache_dir

    async def open(self, config: Config, ears: Ears, *, fresh: bool = False) -> Opened:
        where = await asyncio.to_thread(at_url, config.engine.engine_url, config.engine.api_key_file)
        try:
            client = await _connect(_Fixed(where), self._cache_dir(), ears)
        except Gone as error:
            raise Gone(f"{where}: {error}") from None
        return Opened(client, client.aclose, (f"on {where}",), client.notices, _stats_of(client))


class BySettings:
    """The way that the settings name. spare: is closed once it is known whether it is needed."""

    def __init__(self, here: Way, shared: Way, elsewhere: Way, spare: Spare | None = None) -> None:
        self._here = here
        self._shared = shared
        self._elsewhere = elsewhere
        self._spare = spare

    async def open(self, config: Config, ears: Ears, *, fresh: bool = False) -> Opened:
        engine = config.engine
        way = self._elsewhere if engine.engine_url else self._shared if engine.shared_engine else self._here
        try:
            return await way.open(config, ears, fresh=fresh)
        finally:
            if self._spare is not None:
                self._spare.close()


@dataclass(frozen=True, slots=True)
class _Fixed:
    where: Endpoint

    async def endpoint(self) -> Endpoint:
        return self.where

    async def sweep(self) -> None:
        """Nothing of it is here."""


async def _connect(source: Source, cache_dir: Path, ears: Ears, early: EarlyVocabulary | None = None) -> LastingClient:
    client = await LastingClient.connect(
        source, cache_dir, on_news=ears.on_news, on_lost=ears.on_lost, backoff=ears.backoff, early=early
    )
    client.on_revived = ears.on_revived
    return client


def _stats_of(client: LastingClient) -> Callable[[], Awaitable[dict[str, Any] | None]]:
    async def stats() -> dict[str, Any] | None:
        told = await client.stats()
        found = json.loads(told) if told is not None else None
        return found if isinstance(found, dict) else None

    return stats


def _aim(config: Config, cache_dir: Path) -> tuple[Located, ModelFile]:
    """The model that the settings name, or leave open."""
    located = _running(config.engine) or locate(config.engine, config.server.reply_deadline_ms, cache_dir)
    plan_of = without_native_code(config.engine)
    if plan_of is not None:
        located = that_fits(located, config.engine, plan_of, _is_in_memory)
    if located.note:
        log.info("%s", located.note)
    return located, identify(located.path.absolute())


def _is_in_memory(path: Path) -> bool:
    """An engine of this user runs that file."""
    records = (engine_record.load(place) for place in places())
    return any(r is not None and Path(r.model_path) == path.absolute() and r.process() is not None for r in records)


def _running(config: EngineConfig) -> Located | None:
    """Where the choice is left open, the one that was chosen for another window: its memory is not free any more, so that the
    choice would be another one now."""
    if config.model.strip() != AUTO:
        return None
    for place in places():
        record = engine_record.load(place)
        if (
            record is not None and record.asked.strip() == AUTO and record.models_dir == config.models_dir and record.socket
            and record.process() is not None and Path(record.model_path).is_file()
        ):  # fmt: skip
            return Located(Path(record.model_path), record.model_name)
    return None
