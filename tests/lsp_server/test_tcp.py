"""Connections over real sockets: each its own session, whatever the others do, and one engine behind them."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from inference.clients.local import LocalClient
from inference.config import EngineConfig
from inference.engine import Engine, Sink
from inference.types import Costs, EngineError, FinishReason, GenerationRequest
from lsp_server.app import open_session
from lsp_server.config import Sources
from lsp_server.engines.sharing import SharedEngine
from lsp_server.wire import stdio, tcp
from lsp_server.wire.address import LOOPBACK, Address
from tests.lsp_server.conftest import House, Script, build
from tests.support.client import CANCELLED, Json, TcpClient, in_loop
from tests.support.fake_backend import FakeBackend

URI = "file:///w/app/main.py"
ANYWHERE = Address(LOOPBACK, 0)


class Port:
    """A listener whose sessions are scripted. houses: of the connections, in the order they came."""

    def __init__(self, make: Callable[[], House] = build, address: Address = ANYWHERE) -> None:
        self.houses: list[House] = []
        self._make = make
        self.listener = tcp.Listener(address, self._open)

    def _open(self) -> tcp.Session:
        house = self._make()
        self.houses.append(house)
        return tcp.Session(house.server.protocol, house.script.aclose)

    def client(self, **options: Any) -> TcpClient:
        address = self.listener.address
        return TcpClient(address.host, address.port, **options)

    async def until(self, n_connections: int) -> None:
        while self.listener.n_connections != n_connections:
            await asyncio.sleep(0.001)

    async def __aenter__(self) -> Port:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.listener.aclose()
        assert self.listener.n_connections == 0, "a session did not end"


def io_threads() -> int:
    return sum(thread.name.startswith("midfill-std") for thread in threading.enumerate())


async def works(client: TcpClient) -> None:
    answer = await client.inline(URI, 0, 4)
    assert answer["result"]["items"][0]["insertText"] == "a = x"


async def begin(client: TcpClient, **options: Any) -> None:
    assert "result" in await client.initialize(**options)
    client.open(URI, "a = ")
    await works(client)


# --- sessions of their own


@in_loop
async def test_each_connection_has_its_own_documents_and_settings() -> None:
    async with Port() as port, port.client() as one, port.client() as other:
        await one.initialize(options={"max_tokens": 5})
        await other.initialize(encodings=("utf-8",))
        one.open(URI, "a = ")
        other.open(URI, "b = ")
        assert (await one.inline(URI, 0, 4))["result"]["items"][0]["insertText"] == "a = x"
        assert (await other.inline(URI, 0, 4))["result"]["items"][0]["insertText"] == "b = x"
        assert [house.room.config.server.max_tokens for house in port.houses] == [5, 64]
        assert (await other.inline("file:///w/app/else.py", 0, 0))["result"] == {"items": []}
        assert one.stray == other.stray == b""


def drop(client: TcpClient) -> None:
    """As when the process is killed while there is something unread: a reset."""
    client._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client._writer.transport.abort()


ENDS: dict[str, Callable[[TcpClient], None]] = {
    "shutdown and exit": lambda client: client.send({"id": 99, "method": "shutdown"}, {"method": "exit"}),
    "exit alone": lambda client: client.notify("exit"),
    "a half-closed connection": lambda client: client.hang_up(),
    "a reset": drop,
    "inside a frame": lambda client: (client.send_bytes(b"Content-Length: 99\r\n\r\n{"), client.hang_up())[0],
}


@pytest.mark.parametrize("end", ENDS)
@in_loop
async def test_the_end_of_a_connection_is_the_end_of_its_session_only(end: str) -> None:
    before = io_threads()
    async with Port() as port, port.client() as stays:
        await begin(stays)
        async with port.client() as goes:
            await begin(goes)
            port.houses[1].script.gate = asyncio.Event()
            asked = goes.ask_inline(URI, 0, 4)
            await goes.settle()
            ENDS[end](goes)
            await goes.ended()
            await port.until(1)
            if end != "a reset":
                assert (await goes.answer(asked))["error"]["code"] == CANCELLED
            assert port.houses[1].script.n_cancelled == 1
            assert port.houses[1].script.of("aclose") and not port.houses[0].script.of("aclose")
        await works(stays)
        async with port.client() as comes:
            await begin(comes)
    while io_threads() > before:
        await asyncio.sleep(0.001)


@in_loop
async def test_what_comes_behind_the_end_is_passed_over() -> None:
    async with Port() as port, port.client() as client:
        await begin(client)
        client.send({"method": "exit"}, *({"id": 100 + i, "method": "midfill/nothing"} for i in range(50)))
        await client.ended()
        await port.until(0)
        assert len(port.houses[0].script.queries) == 1


@in_loop
async def test_the_end_of_the_process_answers_what_is_open_and_closes() -> None:
    port = Port(lambda: build(Script(gate=asyncio.Event())))
    too_late = port.client()
    async with port.client() as client:
        await client.initialize()
        client.open(URI, "a = ")
        asked = client.ask_inline(URI, 0, 4)
        await client.settle()
        await port.listener.aclose()
        assert (await client.answer(asked))["error"]["code"] == CANCELLED
        await client.ended()
        with pytest.raises(ConnectionError):
            await too_late.__aenter__()


# --- clients that mean no good, or nothing


@pytest.mark.parametrize(
    "noise",
    [
        b"\x00\xff\r\n\r\n" * 500,
        b"Content-Length: 999999999999\r\n\r\n",
        b"Content-Length: -5\r\n\r\nContent-Length: 0\r\n\r\n",
        b"Content-Length: 4\r\n\r\nnull" + b"Content-Length: 9\r\n\r\n[[[[[[[[[",
        b"x" * 200_000 + b"\n",
    ],
    ids=["bytes", "a huge length", "odd lengths", "no messages", "a long line"],
)
@in_loop
async def test_garbage_harms_nobody(noise: bytes) -> None:
    async with Port() as port, port.client() as stays, port.client() as noisy:
        await begin(stays)
        noisy.send_bytes(noise)
        await begin(noisy)
        await works(stays)


@in_loop
async def test_a_web_request_is_refused_although_a_message_stands_in_it() -> None:
    async with Port() as port, port.client() as stays, port.client() as page:
        await begin(stays)
        body = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"processId":null,"rootUri":null,"capabilities":{}}}'
        page.send_bytes(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await page.ended()
        assert page.messages == []
        assert [house.server.protocol.is_initialized for house in port.houses] == [True, False]
        await works(stays)


@in_loop
async def test_a_client_that_never_reads_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_WAITING", 200)
    async with Port() as port, port.client() as stays:
        await begin(stays)
        slow = socket.create_connection((LOOPBACK, port.listener.address.port))
        try:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.setblocking(False)
            body = b'{"jsonrpc":"2.0","id":"%s","method":"midfill/nothing"}' % (b"i" * 20_000)
            question = b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
            loop = asyncio.get_running_loop()
            with pytest.raises(ConnectionError):
                while True:
                    await loop.sock_sendall(slow, question)
                    await works(stays)
            await port.until(1)
        finally:
            slow.close()
        await works(stays)


@in_loop
async def test_a_connection_that_says_nothing_gives_its_place_away(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    call_later, looks = loop.call_later, []

    def hold(delay: float, callback: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        if delay == tcp.GREETING_S:
            looks.append(callback)
            delay = 3600.0
        return call_later(delay, callback, *args)

    monkeypatch.setattr(loop, "call_later", hold)
    async with Port() as port, port.client() as speaks, port.client() as silent:
        await begin(speaks)
        silent.send_bytes(b"Content-Length: 50\r\n\r\n{")
        await port.until(2)
        for look in looks:
            look()
        await silent.ended()
        await port.until(1)
        await works(speaks)
        assert len(looks) == 2


@in_loop
async def test_there_is_a_limit_and_it_is_no_trap(caplog: pytest.LogCaptureFixture) -> None:
    async with Port() as port:
        clients = [port.client() for _ in range(tcp.MAX_CONNECTIONS)]
        for client in clients:
            await client.__aenter__()
            await client.initialize()
        async with port.client() as refused:
            await refused.ended()
            assert refused.messages == []
        assert "refused" in caplog.text
        assert len(port.houses) == tcp.MAX_CONNECTIONS
        await clients[0].shutdown()
        await port.until(tcp.MAX_CONNECTIONS - 1)
        async with port.client() as welcome:
            await begin(welcome)
            for client in clients:
                await client.__aexit__()


@in_loop
async def test_fifty_quick_connections() -> None:
    before = io_threads()
    async with Port() as port, port.client() as stays:
        await begin(stays)
        for _ in range(50):
            socket.create_connection((LOOPBACK, port.listener.address.port)).close()
        await works(stays)
        await port.until(1)
        async with port.client() as comes:
            await begin(comes)
    while io_threads() > before:
        await asyncio.sleep(0.001)


@in_loop
async def test_a_session_that_can_not_be_built_costs_its_connection_only() -> None:
    makes = iter([build, None, build])

    def make() -> House:
        made = next(makes)
        if made is None:
            raise RuntimeError("zz-inner-zz")
        return made()

    async with Port(make) as port, port.client() as stays:
        await begin(stays)
        async with port.client() as unlucky:
            await unlucky.ended()
        async with port.client() as comes:
            await begin(comes)
        await works(stays)


@in_loop
async def test_what_can_not_be_accepted_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tcp, "_BREATH_S", 0.001)
    loop = asyncio.get_running_loop()
    accept, faults = loop.sock_accept, iter([OSError(24, "Too many open files")])

    async def flaky(listener: socket.socket) -> Any:
        for fault in faults:
            raise fault
        return await accept(listener)

    monkeypatch.setattr(loop, "sock_accept", flaky)
    async with Port() as port, port.client() as client:
        await begin(client)
        assert "Too many open files" in caplog.text


# --- the client's process


@in_loop
async def test_a_client_process_that_ends_takes_its_session_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "INTERVAL_S", 0.001)
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        async with Port() as port, port.client() as stays, port.client() as goes:
            await begin(stays)
            await begin(goes, process_id=process.pid)
            process.kill()
            await goes.ended()
            await port.until(1)
            await works(stays)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("kind", ["gone", "none", "of another machine"])
@in_loop
async def test_a_number_that_is_no_process_here_ends_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client behind a tunnel or in a container tells a number that means nothing here, or something else."""
    monkeypatch.setattr(tcp, "INTERVAL_S", 0.001)
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    if kind == "of another machine":
        monkeypatch.setattr(tcp, "is_loopback", lambda _host: False)
    else:
        process.communicate()
    try:
        async with Port() as port, port.client() as client:
            await begin(client, process_id=-1 if kind == "none" else process.pid)
            process.kill()
            await asyncio.to_thread(process.wait)
            for _ in range(5):
                await asyncio.sleep(0.002)
                await works(client)
    finally:
        process.kill()
        process.communicate()


# --- listening


def test_a_port_in_use_is_told_with_what_to_do() -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:

        async def listen() -> None:
            tcp.Listener(Address(LOOPBACK, taken.getsockname()[1]), lambda: pytest.fail("nobody connects"))

        with pytest.raises(EngineError, match=r"in use; choose another one, or 0") as raised:
            asyncio.run(listen())
        assert f"127.0.0.1:{taken.getsockname()[1]}" in str(raised.value)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b", "x" * 300])
def test_a_host_that_has_no_address(host: str) -> None:
    async def listen() -> None:
        tcp.Listener(Address(host, 0), lambda: pytest.fail("nobody connects"))

    with pytest.raises(EngineError, match=r"; (name one of this machine|choose another address)"):
        asyncio.run(listen())


@pytest.mark.skipif(not socket.has_ipv6, reason="this build knows no IPv6")
@in_loop
async def test_the_other_loopback() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    async with Port(address=Address("::1", 0)) as port, port.client() as client:
        assert str(port.listener.address).startswith("[::1]:")
        await begin(client)


# --- one engine


class Watched(Engine):
    """Remembers how its requests ended."""

    finishes: list[FinishReason]

    def submit(self, request: GenerationRequest, sink: Sink) -> None:
        def told(event: Any) -> None:
            if event.finish is not None:
                self.finishes.append(event.finish)
            sink(event)

        super().submit(request, told)


class Engines:
    """Opens engines on the strict fake; the model says `text` for ever. hold: decoding waits for it."""

    def __init__(self, text: str = "item ") -> None:
        self.opened: list[Watched] = []
        self.hold = threading.Event()
        self.hold.set()
        self._text = text

    def open(self, _config: EngineConfig, on_progress: Callable[[float], None]) -> LocalClient:
        on_progress(0.5)
        backend = FakeBackend(n_ctx=4096)
        token = backend.vocab.encode(self._text.encode())[0]
        backend.script_always = lambda _tokens: token
        backend.on_decode = lambda _rows: None if self.hold.wait(10) else pytest.fail("held for ever")
        engine = Watched(backend, n_ctx=2048, n_sequences=3, costs=Costs(0.001, 0.001))
        engine.finishes = []
        self.opened.append(engine)
        return LocalClient(engine, backend.vocab, "fake")


@asynccontextmanager
async def shared_port(engines: Engines) -> AsyncIterator[tuple[tcp.Listener, SharedEngine]]:
    shared = SharedEngine(engines.open)
    listener = tcp.Listener(ANYWHERE, lambda: open_session(shared, Sources()))
    try:
        yield listener, shared
    finally:
        await listener.aclose()
        await shared.aclose()


def connect(listener: tcp.Listener) -> TcpClient:
    return TcpClient(listener.address.host, listener.address.port)


async def ready(client: TcpClient, **options: Any) -> None:
    await client.initialize(options={"reply_deadline_ms": 0, **options})  # the machine may be busy
    await client.until(lambda m: m.get("method") == "midfill/status" and m["params"]["state"] == "ready")
    client.open(URI, "x = ")


def shown(client: TcpClient) -> list[str]:
    return [message["params"]["message"] for message in client.of_method("window/showMessage")]


def engine_threads() -> int:
    return sum(thread.name == "engine" for thread in threading.enumerate())


def text_of(answer: Json) -> str:
    (item,) = answer["result"]["items"]
    text: str = item["insertText"]
    return text


@in_loop
async def test_connections_share_one_engine_that_outlives_them() -> None:
    before, engines = engine_threads(), Engines()
    async with shared_port(engines) as (listener, _):
        async with connect(listener) as first, connect(listener) as second:
            await ready(first)
            await ready(second)
            assert engine_threads() == before + 1
            texts = [text_of(await client.inline(URI, 0, 4)) for client in (first, second)]
            assert texts[0] == texts[1] and "item" in texts[0]
            assert await first.shutdown() == 0
            second.change(URI, {"text": "y = "})
            assert text_of(await second.inline(URI, 0, 4)).startswith("y = ")
        async with connect(listener) as third:
            await ready(third)
            assert text_of(await third.inline(URI, 0, 4)) == texts[0]
        assert len(engines.opened) == 1
        assert engine_threads() == before + 1
    while engine_threads() > before:
        await asyncio.sleep(0.001)


@in_loop
async def test_a_dropped_connection_leaves_nothing_running() -> None:
    engines = Engines()
    async with shared_port(engines) as (listener, _), connect(listener) as stays:
        await ready(stays)
        (engine,) = engines.opened
        async with connect(listener) as goes:
            await ready(goes, max_tokens=1500)
            goes.change(URI, {"text": "def f():\n    "})
            engines.hold.clear()
            goes.ask_inline(URI, 1, 4, invoked=True)
            await goes.settle()
            while not engine._runs:
                await asyncio.sleep(0.001)
        while listener.n_connections > 1:
            await asyncio.sleep(0.001)
        engines.hold.set()
        while not engine.is_idle:
            await asyncio.sleep(0.001)
        assert engine.finishes[-1] is FinishReason.CANCELLED
        assert "item" in text_of(await stays.inline(URI, 0, 4))


@in_loop
async def test_other_engine_settings_are_told_once_to_whom_they_belong() -> None:
    engines = Engines()
    async with shared_port(engines) as (listener, _), connect(listener) as first, connect(listener) as second:
        await ready(first, n_ctx=1024)
        await ready(second, n_ctx=2048, max_tokens=3)
        assert text_of(await second.inline(URI, 0, 4))
        (message,) = shown(second)
        assert "n_ctx" in message and "restart" in message and "max_tokens" not in message
        assert shown(first) == []
        assert len(engines.opened) == 1


@in_loop
async def test_a_model_that_is_not_there_is_looked_for_again_at_the_next_connection() -> None:
    engines = Engines()
    is_there = False

    def open_client(config: EngineConfig, on_progress: Callable[[float], None]) -> Any:
        if not is_there:
            raise EngineError("pull it first")
        return engines.open(config, on_progress)

    shared = SharedEngine(open_client)
    listener = tcp.Listener(ANYWHERE, lambda: open_session(shared, Sources()))
    async with connect(listener) as early:
        await early.initialize()
        await early.until(lambda m: m.get("method") == "midfill/status" and m["params"]["state"] == "error")
        is_there = True
        async with connect(listener) as late:
            await ready(late)
            assert text_of(await late.inline(URI, 0, 4))
    await listener.aclose()
    await shared.aclose()


@in_loop
async def test_a_connection_that_ends_while_the_model_loads_leaves_the_load_to_the_next() -> None:
    engines = Engines()
    go = threading.Event()

    def open_client(config: EngineConfig, on_progress: Callable[[float], None]) -> Any:
        assert go.wait(30)
        return engines.open(config, on_progress)

    shared = SharedEngine(open_client)
    listener = tcp.Listener(ANYWHERE, lambda: open_session(shared, Sources()))
    async with connect(listener) as goes:
        await goes.initialize()
        await goes.until(lambda m: m.get("method") == "midfill/status" and m["params"]["state"] == "loading")
    while listener.n_connections:
        await asyncio.sleep(0.001)
    go.set()
    async with connect(listener) as comes:
        await ready(comes)
        assert text_of(await comes.inline(URI, 0, 4))
        assert len(engines.opened) == 1
    await listener.aclose()
    await shared.aclose()
