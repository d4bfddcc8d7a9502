"""An LSP client in the test's own process and loop: real pipes, real framing, the real server object.

Speaks raw JSON, parses frames by itself and keeps every message. It answers workspace/configuration and
window/workDoneProgress/create unless told not to.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import socket
from collections import Counter
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any

from lsp_server.wire.protocol import Server
from lsp_server.wire.stdio import Pipes, serve

HANG_S = 100.0  # only ends a test that hangs; nothing is asserted about it
CONTENT_MODIFIED, CANCELLED, INVALID_PARAMS = -32801, -32800, -32602

Json = dict[str, Any]


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs an async test on a loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), HANG_S))

    return run


def frame(message: object) -> bytes:
    body = message if isinstance(message, bytes) else json.dumps(message, ensure_ascii=False).encode()
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def position(line: int, character: int) -> Json:
    return {"line": line, "character": character}


def span(start_line: int, start: int, end_line: int, end: int) -> Json:
    return {"start": position(start_line, start), "end": position(end_line, end)}


class Client:
    """messages: all that came, in order. answers: how many answers each id of ours got. stray: bytes outside of frames.

    configuration: what workspace/configuration is answered with; None: it is never answered. first_id: of our own requests.
    """

    def __init__(
        self,
        server: Server | None,
        aclose: Callable[[], Coroutine[None, None, None]] | None = None,
        *,
        configuration: object = (None,),
        agrees_to_progress: bool = True,
        first_id: int = 1,
    ) -> None:
        self._server = server
        self.messages: list[Json] = []
        self.answers: Counter[int | str] = Counter()
        self.stray = b""
        self.configuration = configuration
        self.agrees_to_progress = agrees_to_progress
        self.result: Json = {}
        self.exit_code: int | None = None
        self._aclose = aclose
        self._ids = count(first_id)
        self._versions: dict[str, int] = {}
        self._news = asyncio.Condition()

    async def __aenter__(self) -> Client:
        assert self._server is not None
        server_in, self._to_server = os.pipe()
        from_server, server_out = os.pipe()
        pipes = Pipes(os.fdopen(server_in, "rb"), os.fdopen(server_out, "wb", buffering=0))
        self._pipes = pipes
        self.serving = asyncio.ensure_future(serve(self._server.protocol, pipes, self._aclose))
        self._reader = asyncio.StreamReader(limit=2**24)
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._reader), os.fdopen(from_server, "rb")
        )
        self._reading = asyncio.ensure_future(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.hang_up()
        self.exit_code = await self.serving
        self._pipes.out.close()
        await self._reading

    # --- bytes

    def send_bytes(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._to_server, data) :]

    def hang_up(self) -> None:
        """Close the server's input."""
        if self._to_server >= 0:
            os.close(self._to_server)
            self._to_server = -1

    async def _read(self) -> None:
        while line := await self._reader.readline():
            length = 0
            while line.strip():
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
                elif name.lower() != b"content-type":
                    self.stray += line
                line = await self._reader.readline()
            if not length:
                self.stray += line
                continue
            await self._take(json.loads(await self._reader.readexactly(length)))

    async def _take(self, message: Json) -> None:
        async with self._news:
            self.messages.append(message)
            if "method" not in message:
                self.answers[message["id"]] += 1
            self._news.notify_all()
        if message.get("method") == "workspace/configuration" and self.configuration is not None:
            self.send({"id": message["id"], "result": self.configuration})
        if message.get("method") == "window/workDoneProgress/create" and self.agrees_to_progress:
            self.send({"id": message["id"], "result": None})

    # --- messages

    def send(self, *messages: Json) -> None:
        """All of them in one write."""
        self.send_bytes(b"".join(frame({"jsonrpc": "2.0", **message}) for message in messages))

    def notify(self, method: str, params: object = None) -> None:
        self.send({"method": method, "params": params})

    def ask(self, method: str, params: object = None, *, msg_id: int | str | None = None) -> int | str:
        """Send a request and return its id at once; `answer(id)` awaits it."""
        number = next(self._ids) if msg_id is None else msg_id
        self.send({"id": number, "method": method, "params": params})
        return number

    async def answer(self, msg_id: int | str) -> Json:
        """The (first) answer to this id: a message with result or error."""
        return await self.until(lambda m: "method" not in m and m.get("id") == msg_id)

    async def request(self, method: str, params: object = None) -> Json:
        return await self.answer(self.ask(method, params))

    async def until(self, wanted: Callable[[Json], bool]) -> Json:
        """The first message, come or to come, that is wanted."""
        async with self._news:
            while True:
                for message in self.messages:
                    if wanted(message):
                        return message
                await self._news.wait()

    async def settle(self) -> None:
        """Returns when the server has taken everything sent so far."""
        await self.request("midfill/nothing")

    def of_method(self, method: str) -> list[Json]:
        return [message for message in self.messages if message.get("method") == method]

    # --- a session

    async def initialize(
        self,
        *,
        encodings: tuple[str, ...] | None = None,
        options: object = None,
        capabilities: Json | None = None,
        process_id: int | None = None,
        root: str | None = None,
        initialized: bool = True,
    ) -> Json:
        """The server's answer. capabilities: beside the position encodings."""
        offered = dict(capabilities or {})
        if encodings is not None:
            offered["general"] = {"positionEncodings": list(encodings)}
        answer = await self.request(
            "initialize",
            {"processId": process_id, "rootUri": root, "capabilities": offered, "initializationOptions": options},
        )
        self.result = answer.get("result", {})
        if initialized:
            self.notify("initialized", {})
        return answer

    def open(self, uri: str, text: str, language: str = "python", version: int = 1) -> None:
        self._versions[uri] = version
        document = {"uri": uri, "languageId": language, "version": version, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": document})

    def change(self, uri: str, *changes: Json, version: int | None = None) -> None:
        self._versions[uri] = self._versions.get(uri, 0) + 1 if version is None else version
        self.notify(
            "textDocument/didChange",
            {"textDocument": {"uri": uri, "version": self._versions[uri]}, "contentChanges": list(changes)},
        )

    def close(self, uri: str) -> None:
        self.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def ask_inline(
        self, uri: str, line: int, character: int, *, invoked: bool = False, selected: Json | None = None
    ) -> int | str:
        return self.ask("textDocument/inlineCompletion", inline_params(uri, line, character, invoked, selected))

    async def inline(self, uri: str, line: int, character: int, *, invoked: bool = False, selected: Json | None = None) -> Json:
        return await self.answer(self.ask_inline(uri, line, character, invoked=invoked, selected=selected))

    async def command(self, name: str, *arguments: object) -> Json:
        return await self.request("workspace/executeCommand", {"command": name, "arguments": list(arguments)})

    def ask_plain(self, uri: str, line: int, character: int, **context: object) -> int | str:
        params = {"textDocument": {"uri": uri}, "position": position(line, character), "context": context or None}
        return self.ask("textDocument/completion", params)

    async def plain(self, uri: str, line: int, character: int, **context: object) -> Json:
        return await self.answer(self.ask_plain(uri, line, character, **context))

    def cancel(self, msg_id: int | str) -> None:
        self.notify("$/cancelRequest", {"id": msg_id})

    async def shutdown(self) -> int:
        """Shut down in order; the server's exit code."""
        await self.request("shutdown")
        self.notify("exit")
        self.exit_code = await asyncio.shield(self.serving)
        return self.exit_code


class TcpClient(Client):
    """The same over a connection to a server that listens. `ended`: it has closed the connection."""

    def __init__(self, host: str, port: int, **options: Any) -> None:
        super().__init__(None, **options)
        self._where = (host, port)

    async def __aenter__(self) -> TcpClient:
        self._socket = socket.create_connection(self._where)
        self._socket.setblocking(False)
        self._reader, self._writer = await asyncio.open_connection(sock=self._socket, limit=2**24)
        self._reading = asyncio.ensure_future(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.transport.abort()
        self._reading.cancel()
        await asyncio.wait({self._reading})

    def send_bytes(self, data: bytes) -> None:
        self._writer.write(data)

    def hang_up(self) -> None:
        """Say that no more will come; the other direction stays open."""
        self._writer.write_eof()

    async def ended(self) -> None:
        await asyncio.wait({self._reading})
        error = self._reading.exception()
        if error is not None and not isinstance(error, ConnectionError):
            raise error

    async def shutdown(self) -> int:
        await self.request("shutdown")
        self.notify("exit")
        await self.ended()
        return 0


def inline_params(uri: str, line: int, character: int, invoked: bool = False, selected: Json | None = None) -> Json:
    context: Json = {"triggerKind": 1 if invoked else 2}
    if selected is not None:
        context["selectedCompletionInfo"] = selected
    return {"textDocument": {"uri": uri}, "position": position(line, character), "context": context}
