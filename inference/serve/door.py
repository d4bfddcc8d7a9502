"""Connections: who may have one, how many, and what HTTP that is none is told.

Owns the moment of accepting and the end of each connection. Behind it the protocol is aiohttp's.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

from aiohttp import web

from inference import unix_socket
from inference.serve.errors import error_body
from inference.serve.limits import Limits

log = logging.getLogger(__name__)


def peer_of(transport: asyncio.BaseTransport | None) -> str:
    """A name for the other end: its process on a Unix socket, its address on TCP."""
    if transport is None:
        return ""
    name = transport.get_extra_info("peername")
    if isinstance(name, tuple):
        return str(name[0])
    connection = transport.get_extra_info("socket")
    found = unix_socket.peer(connection) if connection is not None else None
    return f"process {found[0]}" if found is not None else "local"


def is_tcp(transport: asyncio.BaseTransport | None) -> bool:
    connection = transport.get_extra_info("socket") if transport is not None else None
    return connection is None or connection.family in (socket.AF_INET, socket.AF_INET6)


class Doorkeeper:
    """Makes the protocol of each connection; to be given to the event loop as a protocol factory."""

    def __init__(self, server: web.Server, limits: Limits) -> None:
        self._server = server
        self._limits = limits
        self._by_peer: Counter[str] = Counter()

    @property
    def n_connections(self) -> int:
        return self._by_peer.total()

    @property
    def linger_s(self) -> float:
        return self._limits.linger_s

    def __call__(self) -> asyncio.Protocol:
        return _Arrival(self)

    def refusal(self, transport: asyncio.BaseTransport, peer: str) -> tuple[int, str] | None:
        """Status and sentence for one who may not come in."""
        if not is_tcp(transport):
            found = unix_socket.peer(transport.get_extra_info("socket"))
            if found is not None and found[1] != os.geteuid():
                return 403, "This engine belongs to another user of this machine; start your own."
        if self.n_connections >= self._limits.n_connections or self._by_peer[peer] >= self._limits.n_connections_per_peer:
            return 503, "There are too many connections; close some."
        return None

    def enter(self, peer: str) -> web.RequestHandler:
        self._by_peer[peer] += 1
        limits = self._limits
        return _Connection(
            self._server, lambda: self._left(peer), loop=asyncio.get_running_loop(), access_log=None, auto_decompress=False,
            keepalive_timeout=limits.idle_s, lingering_time=limits.linger_s, max_headers=64,
        )  # fmt: skip

    def _left(self, peer: str) -> None:
        self._by_peer[peer] -= 1
        if not self._by_peer[peer]:
            del self._by_peer[peer]


class _Arrival(asyncio.Protocol):
    """A connection until it is known who comes."""

    def __init__(self, keeper: Doorkeeper) -> None:
        self._keeper = keeper

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        door = cast(asyncio.Transport, transport)
        peer = peer_of(door)
        refusal = self._keeper.refusal(door, peer)
        if refusal is None:
            inside = self._keeper.enter(peer)
            door.set_protocol(inside)
            inside.connection_made(door)
            return
        status, sentence = refusal
        log.warning("a connection was refused: %s", sentence)
        body = error_body(status, sentence)
        head = f"HTTP/1.1 {status} Refused\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        door.write(head.encode() + b"Connection: close\r\n\r\n" + body)
        door.write_eof()
        # closing with something unread would take the answer back; what still comes is dropped
        asyncio.get_running_loop().call_later(self._keeper.linger_s, door.abort)


class _Connection(web.RequestHandler):
    """Says of faults only what kind they are: aiohttp's own messages quote what came in."""

    def __init__(self, server: web.Server, on_lost: Callable[[], None], **options: Any) -> None:
        super().__init__(server, **options)
        self._on_lost: Callable[[], None] | None = on_lost

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._on_lost is not None:
            self._on_lost()
            self._on_lost = None
        super().connection_lost(exc)

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        if status == 400:
            log.info("a request that is no HTTP was refused (%s)", type(exc).__name__)
            sentence = "The request is not HTTP, or its header is too large."
        else:
            log.error("a request failed: %s", type(exc).__name__)
            log.debug("details", exc_info=exc)
            sentence = "The engine's server failed; its log says more."
        if request.writer.output_size > 0:
            raise ConnectionError("the answer had begun")
        response = web.Response(body=error_body(status, sentence), status=status, content_type="application/json")
        response.force_close()
        return response

    def log_exception(self, *args: Any, **kw: Any) -> None:
        log.error("a connection failed")
        log.debug("details", exc_info=True)
