"""An engine on the strict fake behind real sockets, and clients that speak HTTP badly on purpose."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp

from inference.backend import Row
from inference.drafts.chunks import Chunks
from inference.drafts.drafting import Drafting
from inference.engine import Engine
from inference.models.identity import ModelFile
from inference.serve.app import PARTS, Parts, make_application
from inference.serve.host import LoadedHost
from inference.serve.limits import Limits
from inference.serve.listen import Listening, on_socket, on_tcp
from inference.types import Costs, TokenEvent
from tests.support.fake_backend import FakeBackend, FakeVocab

VOCAB = FakeVocab()
MODEL = ModelFile(Path("/nowhere/fake-model.gguf"), "d" * 64, "e" * 64)
COSTS = Costs(prefill_ms_per_token=8.0, step_ms=30.0)
KEY = "k" * 20


def run(main: Callable[[], Coroutine[Any, Any, Any]], timeout_s: float = 60) -> Any:
    """Run a coroutine to its end; one that hangs fails."""
    return asyncio.run(asyncio.wait_for(main(), timeout_s))


async def until(condition: Callable[[], object], timeout_s: float = 10) -> None:
    """Wait for what another thread or process is about to do."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.002)


class Gate:
    """Holds the model's steps back while it is closed, so that a test decides when something is running."""

    def __init__(self, backend: FakeBackend) -> None:
        self._open = threading.Event()
        self._open.set()
        self.n_steps = 0
        self.step_s = 0.0  # how long each step takes at least
        self.entered = threading.Event()
        backend.on_decode = self._pass

    def close(self) -> None:
        self.entered.clear()
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    def _pass(self, rows: list[Row]) -> None:
        self.n_steps += 1
        self.entered.set()
        assert self._open.wait(30), "the gate was never opened"
        time.sleep(self.step_s)


@dataclass
class Served:
    """A listening engine. events: all that its engine said, by the server's id."""

    backend: FakeBackend
    host: LoadedHost
    parts: Parts
    gate: Gate
    listening: Listening
    socket: Path | None
    told: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return "http://midfill" if self.socket else f"http://{self.listening.address}"

    def session(self, **options: Any) -> aiohttp.ClientSession:
        connector = aiohttp.UnixConnector(str(self.socket)) if self.socket else aiohttp.TCPConnector()
        headers = {} if self.socket else {"Authorization": f"Bearer {KEY}"}
        return aiohttp.ClientSession(self.url, connector=connector, headers=headers, **options)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.socket:
            return await asyncio.open_unix_connection(str(self.socket))
        host, port = self.listening.address.rsplit(":", 1)
        return await asyncio.open_connection(host, int(port))

    async def idle(self) -> None:
        """Nothing runs, neither in the engine nor on the wire."""
        await until(lambda: not len(self.parts.running) and self.engine.is_idle)
        assert all(s.is_idle for s in self.engine.kv.sequences)

    @property
    def engine(self) -> Engine:
        return self.host._engine

    async def raw(self, data: bytes, *, reads: bool = True) -> bytes:
        """What comes back for bytes on a fresh connection, until it is closed."""
        reader, writer = await self.connect()
        writer.write(data)
        answer = await reader.read() if reads else b""
        writer.close()
        return answer


@asynccontextmanager
async def serving(
    directory: Path,
    *,
    tcp: bool = False,
    limits: Limits | None = None,
    backend: FakeBackend | None = None,
    model: ModelFile = MODEL,
    n_ctx: int = 512,
    name: str = "fake",
    chunks: Chunks | None = None,
) -> AsyncIterator[Served]:
    backend = backend or FakeBackend(VOCAB, n_ctx=4096, n_seq_max=8)
    gate = Gate(backend)
    drafts = None if chunks is None else partial(Drafting, chunks=chunks)
    engine = Engine(backend, n_ctx=n_ctx, n_sequences=6, costs=COSTS, make_drafting=drafts)
    host = LoadedHost(engine, backend.vocab, model, name, {"n_ctx": n_ctx, "model": name}, ("a notice",))
    told: list[str] = []
    app = make_application(
        host, version="1.2.3", on_drained=lambda: told.append("drained"), on_stop=lambda: told.append("stop"),
        key=KEY if tcp else None, limits=limits, chunks=chunks,
    )  # fmt: skip
    socket = None if tcp else directory / "run" / "engine.sock"
    listening = await (on_tcp(app, "127.0.0.1", 0) if socket is None else on_socket(app, socket))
    try:
        yield Served(backend, host, app[PARTS], gate, listening, socket, told)
    finally:
        gate.open()
        await listening.aclose()
        await asyncio.to_thread(host.close)
    assert socket is None or not socket.exists()
    assert backend.closed


def post(path: str, body: bytes, headers: str = "") -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


def error_of(answer: bytes) -> tuple[int, str]:
    """Status and sentence of a raw answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    error = json.loads(body)["error"]
    assert set(error) == {"message", "type", "param", "code"} and error["message"].count("\n") == 0
    return int(head.split()[1]), error["message"]


async def events(stream: Any) -> list[TokenEvent]:
    """All events of a client's stream."""
    found = []
    while not found or found[-1].finish is None:
        found.append(await stream.next())
    return found


def text_of(found: list[TokenEvent]) -> str:
    return "".join(event.text for event in found)
