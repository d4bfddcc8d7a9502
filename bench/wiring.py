"""How midfill's server is put together in this process: the only place of the bench that knows.

Owns the server's thread and event loop, and the probe between server and engine.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import BinaryIO

from bench.probe import Probe
from inference.clients.base import EngineClient
from inference.config import EngineConfig
from lsp_server.app import build, open_local
from lsp_server.config import Sources
from lsp_server.wire import stdio


def pipe() -> tuple[BinaryIO, BinaryIO]:
    """(reading end, writing end); nothing is held back in the writing end."""
    reading, writing = os.pipe()
    return os.fdopen(reading, "rb"), os.fdopen(writing, "wb", buffering=0)


class Running:
    """A server on a thread of its own. probe: None until its model is loaded."""

    def __init__(self, stdin: BinaryIO, out: BinaryIO) -> None:
        self.probe: Probe | None = None
        self._stdin, self._out = stdin, out
        self._thread = threading.Thread(target=self._run, name="bench-midfill", daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join(15.0)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        # No settings file: what a user has there is not what is measured.
        app = build(Sources(), self._open)
        try:
            await stdio.serve(app.server.protocol, stdio.Pipes(self._stdin, self._out), app.aclose)
        finally:
            self._out.close()
            self._stdin.close()

    def _open(self, config: EngineConfig, on_progress: Callable[[float], None]) -> EngineClient:
        self.probe = Probe(open_local(config, on_progress))
        return self.probe
