"""Where an application is listened on: a Unix socket of this user, or TCP with a key.

Owns the socket from beginning to end. Refuses TCP without a key: other users of the machine reach every port of it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

from aiohttp import web

from inference import unix_socket
from inference.serve.app import PARTS
from inference.serve.door import Doorkeeper
from inference.types import EngineError

_HANDLERS_S = 2.0  # for handlers to end in order


class Listening:
    """Listens until `aclose`. address: the socket's path, or host and port as they really are."""

    def __init__(self, runner: web.AppRunner, server: asyncio.Server, address: str, forget: Callable[[], None]) -> None:
        self._runner = runner
        self._server = server
        self._forget = forget
        self.address = address

    async def aclose(self) -> None:
        """Nobody new comes in, what runs is cancelled, leases end, and answers that are nearly done are sent. Bounded."""
        self._server.close()
        self._forget()
        await self._runner.cleanup()


async def on_socket(app: web.Application, path: Path) -> Listening:
    """EngineError: the place is not private, somebody listens there already, or this system has no such sockets."""
    if not unix_socket.is_possible():
        raise EngineError("This system has no Unix sockets; listen on TCP with a key.")
    listener = unix_socket.listen(path)
    inode = os.lstat(path).st_ino
    try:
        runner, door = await _open(app)
        server = await asyncio.get_running_loop().create_unix_server(door, sock=listener, backlog=unix_socket.BACKLOG)
    except BaseException:
        unix_socket.remove(path, inode)
        listener.close()
        raise
    return Listening(runner, server, str(path), lambda: unix_socket.remove(path, inode))


async def on_tcp(app: web.Application, host: str, port: int) -> Listening:
    """host: a number or a name of this machine; port: 0 = any that is free. EngineError: not possible, or there is no key."""
    if not app[PARTS].has_key:
        raise EngineError("TCP needs a key, or every user of the machine could ask; give a file with --api-key-file.")
    listener = _bound(host, port)
    try:
        runner, door = await _open(app)
        server = await asyncio.get_running_loop().create_server(door, sock=listener, backlog=unix_socket.BACKLOG)
    except BaseException:
        listener.close()
        raise
    name, number = listener.getsockname()[:2]
    return Listening(runner, server, f"[{name}]:{number}" if ":" in name else f"{name}:{number}", lambda: None)


async def _open(app: web.Application) -> tuple[web.AppRunner, Doorkeeper]:
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=_HANDLERS_S)
    await runner.setup()
    assert runner.server is not None
    door = Doorkeeper(runner.server, app[PARTS].limits)
    app[PARTS].doors.append(door)
    return runner, door


def _bound(host: str, port: int) -> socket.socket:
    where = f"{host or 'all addresses'}, port {port}"
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.create_server(address[:2], family=family, backlog=unix_socket.BACKLOG)
    except socket.gaierror:
        raise EngineError(f"Can't listen on {where}: this machine has no such address; name another one.") from None
    except OSError as error:
        hint = "in use; choose another one, or 0 for any" if error.errno == errno.EADDRINUSE else "not to be had; change it"
        raise EngineError(f"Can't listen on {where}: it is {hint}.") from None
    listener.setblocking(False)
    return listener
