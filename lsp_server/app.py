"""The composition root: builds the parts, joins them, and loads the model in the background. No logic of its own.

`serve` is what `midfill lsp` runs; `build` is for whoever drives the server in this process (tests, benches, the command line).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from lsprotocol import types

from inference.clients.base import EngineClient
from inference.config import EngineConfig
from inference.models.store import models_dir, resolve
from inference.types import Counters, EngineError
from lsp_server import stdio
from lsp_server.__main__ import version
from lsp_server.completer import Completions
from lsp_server.config import Config, Sources, default_sources, load
from lsp_server.documents import DocumentStore
from lsp_server.handlers import register
from lsp_server.protocol import make_server
from lsp_server.status import State, Status
from lsp_server.workspace import Exclusion

log = logging.getLogger(__name__)

# settings and a callback for the share loaded (0 to 1) → a client; blocking, in a thread; raises EngineError
OpenClient = Callable[[EngineConfig, Callable[[float], None]], EngineClient]


def cache_dir() -> Path:
    import platformdirs

    return Path(platformdirs.user_cache_dir("midfill", appauthor=False))


def open_local(config: EngineConfig, on_progress: Callable[[float], None]) -> EngineClient:
    """The engine in this process."""
    from inference.clients.local import LocalClient

    path = resolve(config.model, models_dir(config.models_dir))
    from inference.llama.opening import open_engine  # native code: only once the file is there

    engine, vocab = open_engine(config, path, cache_dir(), on_progress)
    return LocalClient(engine, vocab, path.stem)


class App:
    def __init__(self, sources: Sources, open_client: OpenClient) -> None:
        config, _ = load(sources)
        self.server = make_server(version())
        self.completer = Completions(config)
        self.status = Status(self.server)
        self.exclusion = Exclusion()
        self.store = DocumentStore(self.exclusion.reason)
        self.completer.on_thinking = self._thinking
        self._open_client = open_client
        self._loading: asyncio.Task[None] | None = None
        self.room = register(
            self.server, self.completer, self.store, self.exclusion, self.status, sources, on_started=self._started
        )

    def counters(self) -> Counters:
        """Token positions put through the model so far."""
        client = self.completer.client
        return client.counters() if client is not None else Counters()

    def _started(self, config: Config) -> None:
        self._loading = asyncio.get_running_loop().create_task(self._load(config.engine))

    async def _load(self, config: EngineConfig) -> None:
        loop = asyncio.get_running_loop()
        message = f"loading {config.model}"
        self.status.set(State.LOADING, message, 0)

        def progress(share: float) -> None:
            loop.call_soon_threadsafe(self.status.set, State.LOADING, message, share * 100)

        try:
            client = await asyncio.to_thread(self._open_client, config, progress)
            self.completer.attach(client)
        except EngineError as error:
            self._fail(str(error))
        except Exception as error:
            log.debug("details", exc_info=True)
            self._fail(f"the model could not be loaded ({type(error).__name__}); MIDFILL_LOG=debug shows more")
        else:
            self.status.set(State.READY, f"{client.model_name} is ready")

    def _fail(self, sentence: str) -> None:
        log.error("%s", sentence)
        self.completer.not_ready = sentence
        self.status.set(State.ERROR, sentence)
        self.server.window_show_message(
            types.ShowMessageParams(type=types.MessageType.Error, message=f"midfill: {sentence}")
        )

    def _thinking(self, is_busy: bool, reason: str) -> None:
        if self.completer.client is None:
            return
        if is_busy:
            self.status.set(State.THINKING)
        elif self.completer.is_paused:
            self.status.set(State.PAUSED)
        else:
            self.status.set(State.READY, reason=reason)

    async def aclose(self) -> None:
        await self.completer.aclose()


def build(sources: Sources | None = None, open_client: OpenClient = open_local) -> App:
    return App(default_sources() if sources is None else sources, open_client)


async def serve(pipes: stdio.Pipes) -> int:
    """Serve one client over the pipes; returns the exit code."""
    app = build()
    return await stdio.serve(app.server.protocol, pipes, app.aclose, force=stdio.leave)
