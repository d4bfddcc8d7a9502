"""The wire over TCP: a listening socket, one session for each connection, and the end of the process by a signal.

Owns the socket, the connections and their number. A connection's end is the end of its session only, whatever ends it: `exit`,
a drop, its client's process. Frames are read and written as over pipes (`stdio`), by two threads for each connection, so that a
slow client holds up nobody else. Refuses what comes from web pages, which may post to any port of the machine they run on.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import logging
import re
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

import psutil

from inference.types import EngineError
from lsp_server.wire import stdio
from lsp_server.wire.address import Address, is_loopback
from lsp_server.wire.signals import on_signals
from lsp_server.wire.watch import INTERVAL_S, is_alive

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 16  # each may hold documents and two threads
GREETING_S = 60.0  # a connection that has not said `initialize` by then gives its place away
_BREATH_S = 1.0  # when no connection can be accepted, e.g. for want of descriptors
_SESSIONS_S = 1.2  # for sessions to end in order when the process does
_HTTP = re.compile(rb" HTTP/\d(\.\d)?\s*$")


class TcpPeer(stdio.Peer, Protocol):
    @property
    def is_initialized(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Session:
    """What a connection is served by. aclose: ends it, and nothing that others use."""

    peer: TcpPeer
    aclose: Callable[[], Coroutine[None, None, None]]


class Listener:
    """Listens from construction to `aclose`. Raises EngineError if that is not possible here. open_session: a new one for each
    connection."""

    def __init__(self, address: Address, open_session: Callable[[], Session]) -> None:
        self._socket = _listen(address)
        self._open_session = open_session
        self._connections: dict[socket.socket, asyncio.Task[None]] = {}
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    @property
    def address(self) -> Address:
        """Where it really listens."""
        return Address(*self._socket.getsockname()[:2])

    @property
    def n_connections(self) -> int:
        return len(self._connections)

    async def aclose(self) -> None:
        """End all sessions, in bounded time: what is unanswered is answered, what was written is sent."""
        self._accepting.cancel()
        await asyncio.wait({self._accepting})  # it lets go of the descriptor first
        self._socket.close()
        for connection in self._connections:
            _cut(connection, socket.SHUT_RD)
        tasks = list(self._connections.values())
        if tasks:
            await asyncio.wait(tasks, timeout=_SESSIONS_S)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._socket)
            except OSError as error:
                log.warning("a connection could not be accepted: %s", error.strerror or type(error).__name__)
                await asyncio.sleep(_BREATH_S)
                continue
            if len(self._connections) >= MAX_CONNECTIONS:
                log.warning("a connection was refused: there are %d already", MAX_CONNECTIONS)
                connection.close()
                continue
            self._connections[connection] = loop.create_task(self._serve(connection))

    async def _serve(self, connection: socket.socket) -> None:
        watching = _Watch(connection)
        try:
            session = self._open_session()
            watching.expect_greeting(session.peer)
            pipes = _pipes(connection)
            log.info("a client has connected (%d now)", len(self._connections))
            await stdio.serve(session.peer, pipes, session.aclose, watch=watching.process)
            # both directions first: a thread that reads or writes then lets go of its stream at once
            _cut(connection, socket.SHUT_RDWR)
            pipes.out.close()
            pipes.stdin.close()
        except Exception as error:
            log.error("a connection failed: %s", type(error).__name__)
            log.debug("details", exc_info=True)
        finally:
            watching.stop()
            connection.close()
            del self._connections[connection]


class _Watch:
    """Looks after one connection from the loop: that it says something, and that its client's process lives."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def expect_greeting(self, peer: TcpPeer) -> None:
        def look() -> None:
            if not peer.is_initialized:
                log.warning("a connection said nothing that makes it a client, and was closed")
                _cut(self._connection, socket.SHUT_RDWR)

        self._timer = asyncio.get_running_loop().call_later(GREETING_S, look)

    def process(self, pid: int, gone: Callable[[], None]) -> None:
        """The number means something only if the client runs on this machine, and not behind a tunnel or in a container:
        one that is not there to begin with is not waited for. The connection itself tells when such a client is gone."""
        try:
            if not is_loopback(self._connection.getpeername()[0]):
                return
            process = psutil.Process(pid)
        except (OSError, ValueError, psutil.Error):
            log.info("the client's process is none of this machine: only its connection is watched")
            return
        self._task = asyncio.get_running_loop().create_task(self._look_after(process, gone))

    async def _look_after(self, process: psutil.Process, gone: Callable[[], None]) -> None:
        while is_alive(process):
            await asyncio.sleep(INTERVAL_S)
        gone()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()


class _FromSocket(io.BufferedReader):
    """Lines and bodies from a socket. A line of HTTP ends it: only a browser's request would have one, and behind its header
    could stand a body that reads like a message."""

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        if _HTTP.search(line):
            log.warning("a web request was refused")
            raise ConnectionAbortedError
        return line


def _pipes(connection: socket.socket) -> stdio.Pipes:
    connection.setblocking(True)
    # an answer must not wait for the client to acknowledge the one before
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # or a machine that vanished would stay for ever
    out: Any = connection.makefile("wb", buffering=0)  # raw, but with all that is used of a stream
    return stdio.Pipes(_FromSocket(connection.makefile("rb", buffering=0)), out)


def _cut(connection: socket.socket, how: int) -> None:
    with contextlib.suppress(OSError):  # it is down already
        connection.shutdown(how)


def _listen(address: Address) -> socket.socket:
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, where = found[0]
        listener = socket.create_server(where, family=family, backlog=128)
    except socket.gaierror:
        raise EngineError(f"{address}: this host has no address here; name one of this machine, or none") from None
    except (OSError, UnicodeError) as error:
        raise EngineError(f"can't listen on {address}: {_why(error)}") from None
    listener.setblocking(False)
    return listener


def _why(error: OSError | UnicodeError) -> str:
    """In a few words, and what to do."""
    code = error.errno if isinstance(error, OSError) else None
    if code == errno.EADDRINUSE:
        return "the port is in use; choose another one, or 0 for any that is free"
    if code in (errno.EACCES, errno.EPERM):
        return "the port may not be used; choose one above 1023, or 0 for any that is free"
    if code == errno.EADDRNOTAVAIL:
        return "this machine does not have that address; name one that it has, or none"
    return f"{type(error).__name__}; choose another address"


async def serve(
    address: Address,
    open_session: Callable[[], Session],
    aclose: Callable[[], Coroutine[None, None, None]],
    *,
    force: Callable[[int], None],
) -> int:
    """Serve until SIGINT or SIGTERM, then end in order; the exit code. aclose: ends what sessions share.

    force: ends the process when that takes too long. Raises EngineError if it can't listen there.
    """
    ending = stdio.Ending(force)
    on_signals(lambda number: ending.end_from_thread(lambda: 0, f"{signal.Signals(number).name} came"))
    listener = Listener(address, open_session)
    where = listener.address
    if not is_loopback(where.host):
        log.warning("%s is open to other machines: text of the editor travels unencrypted and unauthenticated", where)
    # not through the log, whose level may be too high: a port that was chosen is told nowhere else
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"midfill: listening on {where}\n")
        sys.stderr.flush()
    code = await ending.wait()
    await listener.aclose()
    await stdio.close_in_time(aclose, stdio.CLOSE_S)
    return code
