"""An engine's process as a language server starts it, in a place of its own: the launcher, its Unix socket, and the clients.

Owns the process from start to end, and the temporary directory with all that it leaves. An engine of the user's own is neither
used nor disturbed. It ends by itself soon after the bench has gone, however that ended: it does not linger.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from bench.errors import BenchError
from inference import unix_socket
from inference.clients.base import EngineClient
from inference.clients.http import HttpClient
from inference.config import EngineConfig
from inference.endpoint import Endpoint
from inference.launcher import Launcher, ask_to
from inference.models.identity import identify
from inference.runtime_dir import RUNTIME_VARIABLE, place_of
from inference.types import FinishReason, GenerationRequest, Priority, TokenEvent
from lsp_server.__main__ import version
from lsp_server.commands.engine import command_line

_END_S = 20.0


class Served:
    """Use as an asynchronous context manager. config: `model` is not looked at."""

    def __init__(self, model: Path, config: EngineConfig) -> None:
        self._model = identify(model.absolute())
        self._config = config
        self._home = tempfile.TemporaryDirectory(prefix="midfill-bench-")
        self._clients: list[HttpClient] = []
        self._where: Endpoint | None = None
        self._process: psutil.Process | None = None

    async def __aenter__(self) -> Served:
        try:
            self._where = await self._launched()
            hello = (await self.connect()).hello
            self._process = psutil.Process(hello.pid)
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        await self._end()

    async def _launched(self) -> Endpoint:
        home = Path(self._home.name)
        directory, cache_dir = home / "run", home / "cache"
        model, loopback = self._model, not unix_socket.is_possible()
        launcher = Launcher(
            place_of(model.digest, directory),
            lambda place: command_line(model.path, model.path.stem, model.digest, self._config, cache_dir, loopback=loopback),
            version(),
        )
        before, os.environ[RUNTIME_VARIABLE] = os.environ.get(RUNTIME_VARIABLE), str(directory)  # the engine inherits it
        try:
            return await launcher.endpoint()
        finally:
            if before is None:
                del os.environ[RUNTIME_VARIABLE]
            else:
                os.environ[RUNTIME_VARIABLE] = before

    @property
    def client(self) -> HttpClient:
        """The first one."""
        return self._clients[0]

    async def connect(self) -> HttpClient:
        """Another window's. Waits until the model is loaded."""
        assert self._where is not None
        client = await HttpClient.connect(self._where, Path(self._home.name) / "cache")
        self._clients.append(client)
        return client

    async def n_background(self) -> int:
        """Token positions of the background so far."""
        told: dict[str, Any] = json.loads(await self.client.stats())
        return int(told["counters"]["background"])

    async def _end(self) -> None:
        for client in self._clients:
            await client.aclose()
        if self._where is not None:
            await ask_to(self._where, "stop")
        if self._process is not None:
            try:
                await asyncio.to_thread(self._process.wait, _END_S)
            except psutil.TimeoutExpired:
                self._process.kill()
        self._home.cleanup()


async def finished(client: EngineClient, request: GenerationRequest) -> TokenEvent:
    """Ask, and wait for the last event. BenchError: the engine failed."""
    stream = client.submit(request)
    while (event := await stream.next()).finish is None:
        pass
    if event.finish is FinishReason.ERROR:
        raise BenchError(f"the engine failed: {event.error}")
    return event


async def prefill(client: EngineClient, tokens: tuple[int, ...]) -> None:
    """Make a prompt resident."""
    await finished(client, GenerationRequest(client.next_id(), tokens, n_max=0, priority=Priority.TYPING))


async def only_prompt(client: EngineClient, tokens: tuple[int, ...]) -> None:
    """Make a prompt resident, and forget what was generated or typed behind it; the logits at its end are kept.

    Otherwise a prompt that is asked for again would be answered out of what is left of the time before.
    """
    (newline,) = client.vocab.encode(b"\n")[:1]
    (blank,) = client.vocab.encode(b" ")[:1]
    end = newline if tokens[-1] != newline else blank
    await prefill(client, (*tokens[:-1], end))
    await prefill(client, tokens)
