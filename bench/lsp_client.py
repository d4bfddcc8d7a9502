"""A small LSP client over two byte streams, for a server in this process or in another one.

Owns frames, ids and the moment at which an answer arrives. Speaks plain JSON on purpose: what is sent is what an editor sends,
not what the server's own types make of it. Requests of the server are answered with null.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable
from typing import Any, BinaryIO

Json = dict[str, Any]


class ServerGoneError(Exception):
    """The server closed its stream while something was still to be answered, or did not answer in time."""


class Pending:
    """A request under way. received: `time.perf_counter()` when the answer had been read, 0 before."""

    def __init__(self, request_id: int) -> None:
        self.request_id = request_id
        self.received = 0.0
        self._answer: Json | None = None
        self._done = threading.Event()

    @property
    def is_done(self) -> bool:
        return self._done.is_set()

    def settle(self, answer: Json | None) -> None:
        self._answer = answer
        self.received = time.perf_counter()
        self._done.set()

    def wait(self, timeout_s: float = 120.0) -> Json:
        """The whole answer, with `result` or `error`. Raises ServerGoneError."""
        if not self._done.wait(timeout_s):
            raise ServerGoneError(f"no answer to request {self.request_id} within {timeout_s:.0f} s")
        if self._answer is None:
            raise ServerGoneError("the server closed the connection")
        return self._answer


class LspClient:
    """One connection. Messages are written by the caller's thread and read by one of its own."""

    def __init__(self, to_server: BinaryIO, from_server: BinaryIO, on_notification: Callable[[str, Any], None]) -> None:
        self._to_server = to_server
        self._from_server = from_server
        self._on_notification = on_notification
        self._ids = itertools.count(1)
        self._pending: dict[int, Pending] = {}
        self._lock = threading.Lock()
        self._is_closed = False
        self._reader = threading.Thread(target=self._read, name="bench-lsp-client", daemon=True)
        self._reader.start()

    def request(self, method: str, params: Any) -> Pending:
        pending = Pending(next(self._ids))
        with self._lock:
            if self._is_closed:
                raise ServerGoneError("the server closed the connection")
            self._pending[pending.request_id] = pending
        self._send({"jsonrpc": "2.0", "id": pending.request_id, "method": method, "params": params})
        return pending

    def notify(self, method: str, params: Any) -> None:
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def cancel(self, pending: Pending) -> None:
        if not pending.is_done:
            self.notify("$/cancelRequest", {"id": pending.request_id})

    def close(self) -> None:
        """Shut the server down in order and close the streams."""
        self.request("shutdown", None).wait(10.0)
        self.notify("exit", None)
        self._to_server.close()
        self._reader.join(10.0)

    def _send(self, message: Json) -> None:
        body = json.dumps(message, ensure_ascii=False).encode()
        with self._lock:
            self._to_server.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            self._to_server.flush()

    def _read(self) -> None:
        try:
            while (message := self._read_message()) is not None:
                self._take(message)
        except (OSError, ValueError):
            pass  # the stream was closed under us: the same as its end
        finally:
            with self._lock:
                self._is_closed = True
                left = list(self._pending.values())
                self._pending.clear()
            for pending in left:
                pending.settle(None)

    def _read_message(self) -> Json | None:
        length = 0
        while line := self._from_server.readline():
            if line == b"\r\n":
                message: Json = json.loads(self._from_server.read(length))
                return message
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"content-length":
                length = int(value)
        return None

    def _take(self, message: Json) -> None:
        method = message.get("method")
        if method is None:
            with self._lock:
                pending = self._pending.pop(message["id"], None)
            if pending is not None:
                pending.settle(message)
        elif "id" in message:
            asked = (message.get("params") or {}).get("items", []) if method == "workspace/configuration" else None
            self._send({"jsonrpc": "2.0", "id": message["id"], "result": None if asked is None else [None] * len(asked)})
        else:
            self._on_notification(method, message.get("params"))
