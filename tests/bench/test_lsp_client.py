"""The bench's LSP client against a server of a few lines."""

from __future__ import annotations

import json
import os
import threading
from typing import Any, BinaryIO

import pytest

from bench.lsp_client import LspClient, ServerGoneError


class TinyServer(threading.Thread):
    """Answers `echo` with its parameters, `bye` by closing; asks the client for its settings when told `ask`."""

    def __init__(self, source: BinaryIO, out: BinaryIO) -> None:
        super().__init__(daemon=True)
        self.source, self.out = source, out
        self.heard: list[Any] = []
        self.start()

    def send(self, message: dict[str, Any]) -> None:
        body = json.dumps(message).encode()
        self.out.write(b"Content-Length: %d\r\nContent-Type: x\r\n\r\n" % len(body) + body)
        self.out.flush()

    def run(self) -> None:
        while header := self.source.readline():
            self.source.readline()
            message = json.loads(self.source.read(int(header.split(b":")[1])))
            self.heard.append(message)
            method = message.get("method")
            if method == "bye":
                break
            if method == "ask":
                params = {"items": [{"section": "a"}, {"section": "b"}]}
                self.send({"jsonrpc": "2.0", "id": "q", "method": "workspace/configuration", "params": params})
            elif method == "shout":
                self.send({"jsonrpc": "2.0", "method": "shouted", "params": message["params"]})
            elif "id" in message and method:
                self.send({"jsonrpc": "2.0", "id": message["id"], "result": message.get("params")})
        self.out.close()


def connect() -> tuple[LspClient, TinyServer, list[tuple[str, Any]]]:
    said: list[tuple[str, Any]] = []
    server_reads, client_writes = os.pipe()
    client_reads, server_writes = os.pipe()
    server = TinyServer(os.fdopen(server_reads, "rb"), os.fdopen(server_writes, "wb"))
    client = LspClient(
        os.fdopen(client_writes, "wb"), os.fdopen(client_reads, "rb"), lambda method, params: said.append((method, params))
    )
    return client, server, said


def test_answers_go_to_their_requests_and_notifications_to_the_listener() -> None:
    client, server, said = connect()
    first, second = client.request("echo", {"text": "é😋"}), client.request("echo", 2)
    assert second.wait(5)["result"] == 2
    assert first.wait(5)["result"] == {"text": "é😋"}
    assert 0 < first.received <= second.received
    client.notify("shout", 1)
    assert client.request("echo", 3).wait(5)["result"] == 3
    assert said == [("shouted", 1)]
    client.close()
    assert [m["method"] for m in server.heard[-2:]] == ["shutdown", "exit"]


def test_requests_of_the_server_are_answered() -> None:
    client, server, _ = connect()
    client.notify("ask", None)
    client.request("echo", 1).wait(5)
    client.close()
    server.join(5)
    assert {"jsonrpc": "2.0", "id": "q", "result": [None, None]} in server.heard


def test_only_what_is_unanswered_is_cancelled() -> None:
    client, server, _ = connect()
    done = client.request("echo", 1)
    done.wait(5)
    client.cancel(done)
    client.close()
    assert "$/cancelRequest" not in [m.get("method") for m in server.heard]


def test_a_server_that_leaves_leaves_nobody_waiting() -> None:
    client, _, _ = connect()
    pending = client.request("bye", None)
    with pytest.raises(ServerGoneError):
        pending.wait(5)
