"""The composition root: builds the parts, joins them, and loads the model in the background. No logic of its own.

`serve` and `serve_tcp` are what `midfill lsp` runs; `build` is for whoever drives the server in this process (tests, benches,
the command line).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from lsprotocol import types

from inference.clients.base import EngineClient
from inference.config import EngineConfig
from inference.memory_report import MemoryBoard
from inference.models.choice import locate
from inference.spare import Spare
from inference.types import Counters
from lsp_server.__main__ import version
from lsp_server.completer import Completions
from lsp_server.config import Config, ServerConfig, Sources, default_sources, load
from lsp_server.dirs import cache_dir
from lsp_server.documents import DocumentStore
from lsp_server.engines.room import EngineRoom
from lsp_server.engines.sharing import SharedEngine
from lsp_server.engines.ways import BySettings, Elsewhere, Here, Shared, Way
from lsp_server.handlers import register
from lsp_server.index import editor
from lsp_server.index.room import IndexRoom
from lsp_server.interpreter import keep_loop_free
from lsp_server.learning import feedback
from lsp_server.status import Status
from lsp_server.wire import stdio, tcp
from lsp_server.wire.address import Address
from lsp_server.wire.protocol import make_server
from lsp_server.workspace import Exclusion

log = logging.getLogger(__name__)

OnProgress = Callable[[float], None]
# settings and a callback for the share loaded (0 to 1) → a client; blocking, in a thread; raises EngineError
OpenClient = Callable[[EngineConfig, OnProgress], EngineClient]


def open_local(
    config: EngineConfig,
    on_progress: OnProgress,
    *,
    deadline_ms: float = ServerConfig().reply_deadline_ms,
    on_note: Callable[[str], None] = lambda _: None,
) -> EngineClient:
    """The engine in this process. deadline_ms: of a reply, where the model is left open. on_note: told what was chosen, why."""
    from inference.clients.local import LocalClient

    located = locate(config, deadline_ms, cache_dir())
    if located.note:
        log.info("%s", located.note)
        on_note(located.note)
    from inference.llama.opening import open_engine  # native code: only once the file is there
    from inference.llama.room import smaller_if_needed

    board, located = MemoryBoard(), smaller_if_needed(located, config)
    engine, vocab = open_engine(config, located.path, cache_dir(), on_progress, name=located.name, on_memory=board.take)
    notices = (*([located.notice] if located.notice else []), *board.notices)
    return LocalClient(engine, vocab, located.name, notices)


def open_with_notes(config: Config, on_progress: OnProgress) -> tuple[EngineClient, tuple[str, ...]]:
    """The same as `lsp_server.engines.ways.OpenHere`."""
    notes: list[str] = []
    deadline_ms = config.server.reply_deadline_ms
    client = open_local(config.engine, on_progress, deadline_ms=deadline_ms, on_note=notes.append)
    return client, tuple(notes)


class App:
    def __init__(self, sources: Sources, way: Way) -> None:
        config, _ = load(sources)
        self.server = make_server(version())
        self.status = Status(self.server)
        self.index = IndexRoom(lambda: cache_dir(), version(), self._indexing, self._show)
        self.completer = Completions(config, index=self.index)
        self.exclusion = Exclusion()
        self.completer.roots = lambda: self.exclusion.roots
        self.completer.why_private = self.exclusion.reason
        self.store = DocumentStore(self.exclusion.reason)
        self.engine = EngineRoom(self.server, self.completer, self.status, way, lambda: self.room.config, version())
        self.room = register(
            self.server, self.completer, self.store, self.exclusion, self.status, sources, on_started=self._start
        )
        self.room.on_saved = self.index.changed
        self.room.on_rules = self._set_rules
        editor.register(self.server, self.index.changed)
        feedback.register(self.server, self.completer.told)
        thinking = self.completer.on_thinking

        def think(is_busy: bool, reason: str) -> None:
            (self.index.hold if is_busy else self.index.release)()
            thinking(is_busy, reason)

        self.completer.on_thinking = think

    def _start(self, config: Config) -> None:
        self.engine.start(config)
        self._set_index()
        self.index.start()
        keep_loop_free()
        editor.ask_for_changes(self.server)

    def _set_index(self) -> None:
        self.index.configure(self.room.config.server, self.exclusion.on_disk)

    def _set_rules(self) -> None:
        self._set_index()
        self.completer.look_again(forget=True)

    def _indexing(self, percent: int | None) -> None:
        self.status.index(percent)
        if percent is None:
            self.completer.look_again(forget=False)

    def _show(self, sentence: str) -> None:
        params = types.ShowMessageParams(type=types.MessageType.Warning, message=f"midfill: {sentence}")
        self.server.window_show_message(params)

    def counters(self) -> Counters:
        """Token positions put through the model so far."""
        client = self.completer.client
        return client.counters() if client is not None else Counters()

    async def aclose(self) -> None:
        await self.index.aclose()
        await self.completer.aclose(engine=False)
        await self.engine.aclose()


def build(sources: Sources | None = None, open_client: OpenClient | None = None, spare: Spare | None = None) -> App:
    """open_client: opens the engine in this process; None: the way that the settings name. spare: may become the engine."""
    way = by_settings(Here(open_with_notes), spare) if open_client is None else Here(_without_notes(open_client))
    return App(default_sources() if sources is None else sources, way)


def by_settings(here: Way, spare: Spare | None = None) -> Way:
    return BySettings(here, Shared(cache_dir, version(), spare), Elsewhere(cache_dir), spare)


def _without_notes(open_client: OpenClient) -> Callable[[Config, OnProgress], tuple[EngineClient, tuple[str, ...]]]:
    return lambda config, on_progress: (open_client(config.engine, on_progress), ())


async def serve(pipes: stdio.Pipes, spare: Spare | None = None) -> int:
    """Serve one client over the pipes; returns the exit code. spare: may become the engine."""
    app = build(spare=spare)
    return await stdio.serve(app.server.protocol, pipes, app.aclose, force=stdio.leave)


async def serve_tcp(address: Address) -> int:
    """Serve everybody who connects until the process is interrupted; returns the exit code. An engine in this process is one
    for all of them."""
    shared = SharedEngine(open_local)
    return await tcp.serve(address, lambda: open_session(shared, way=by_settings), shared.aclose, force=stdio.leave)


def open_session(
    shared: SharedEngine, sources: Sources | None = None, way: Callable[[Way], Way] = lambda here: here
) -> tcp.Session:
    """For one connection: its own documents and settings, and its share of the engine. way: what is made of the way to the
    engine in this process."""
    loop = asyncio.get_running_loop()

    def tell_other(names: tuple[str, ...]) -> None:
        sentence = f"{', '.join(names)}: the engine was loaded with other values, for an earlier connection; restart the server"
        log.warning("%s", sentence)
        params = types.ShowMessageParams(type=types.MessageType.Warning, message=f"midfill: {sentence}")
        loop.call_soon_threadsafe(app.server.window_show_message, params)

    def open_client(config: Config, on_progress: OnProgress) -> tuple[EngineClient, tuple[str, ...]]:
        return shared.open(config.engine, on_progress, tell_other), ()

    app = App(default_sources() if sources is None else sources, way(Here(open_client, is_kept=True)))
    return tcp.Session(app.server.protocol, app.aclose)
