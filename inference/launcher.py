"""Makes sure that an engine runs: finds it, starts it, replaces it.

Owns the start as it is seen from outside: one at a time under a lock between processes, the new process's surroundings, and the
end of engines that are older, half dead, or not wanted any more. An engine that answers is never ended here but for a newer
midfill, or because somebody asked for it. Refuses to talk to an engine beyond its greeting (see `clients`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import psutil

from inference import engine_record, unix_socket
from inference.clients.http_session import Gone, Session
from inference.endpoint import Endpoint
from inference.engine_log import open_log
from inference.models.lock import Held, hold
from inference.runtime_dir import Place, make_private
from inference.spare import Spare, detached, end_group
from inference.types import EngineError
from inference.wire import EngineState, Hello, WireError, decode_hello

log = logging.getLogger(__name__)

READY = b"ready\n"  # what a started engine writes to its standard output once it listens; anything else is a sentence

HELLO_S = 8.0  # an engine's greeting costs it no time; one that takes longer is half dead
START_S = 60.0  # for a process to listen; its model is loaded afterwards
DRAIN_S = 20.0  # for what an older engine has still to finish
_END_S = 4.0  # for an engine to end in order
_LOOK_S = 0.05

Command = Callable[[Place], Sequence[str]]


class Silent(Exception):
    """Something listens there and does not answer."""


class Fate(Enum):
    """What becomes of an engine that runs and answers."""

    KEEP = "keep"
    REPLACE = "replace"  # another version: when it has finished what runs
    END = "end"


@dataclass(frozen=True, slots=True)
class Launcher:
    """command: starts an engine at a place. version: of this midfill. spare: a process that may be made the engine."""

    place: Place
    command: Command
    version: str
    spare: Spare | None = None

    async def endpoint(self) -> Endpoint:
        """Where an engine of this or a newer version listens, started if need be. Its model may still be loading.

        EngineError: it can't be started, or the place is not private; `Gone` among them: it has died, and may live next time.
        """
        try:
            with contextlib.suppress(Silent):
                found = await self._greeted()
                if found is not None and self._fate(found[1]) is Fate.KEEP:
                    return found[0]
            return await self._locked(self._fate)
        finally:
            if self.spare is not None:
                self.spare.close()

    async def restart(self) -> Endpoint:
        """End the one that runs, whatever it does, and start another."""
        return await self._locked(lambda hello: Fate.END)

    async def sweep(self) -> None:
        """Remove what an engine that died has left, unless somebody is about to replace it. Never fails."""
        with contextlib.suppress(Held, OSError, TimeoutError):
            async with asyncio.timeout(_END_S):
                while not await asyncio.to_thread(self._swept):
                    await asyncio.sleep(_LOOK_S)  # its connections end before it does

    def _swept(self) -> bool:
        if not self.place.directory.is_dir():
            return True
        with hold(self.place.lock):
            try:
                return engine_record.sweep(self.place)
            finally:
                self._unlock()

    def _fate(self, hello: Hello) -> Fate:
        return Fate.REPLACE if hello.news.state is EngineState.DRAINING or is_newer(self.version, hello.version) else Fate.KEEP

    async def _greeted(self) -> tuple[Endpoint, Hello] | None:
        """None: nobody is there. Silent. EngineError: it is somebody else's, or not private."""
        where = self._where()
        if where is None:
            return None
        try:
            async with asyncio.timeout(HELLO_S), Session(where) as session:
                return where, decode_hello(await session.ask("GET", "/midfill/hello"))
        except Gone:
            return None
        except TimeoutError:
            raise Silent from None
        except WireError as error:
            raise EngineError(str(error)) from None

    def _where(self) -> Endpoint | None:
        if unix_socket.is_possible():
            return Endpoint(socket=self.place.socket)
        record = engine_record.load(self.place)  # a port may belong to anybody by now: only while its process lives
        return record.endpoint() if record is not None and record.process() is not None else None

    async def _locked(self, fate: Callable[[Hello], Fate]) -> Endpoint:
        make_private(self.place.directory)
        end = asyncio.get_running_loop().time() + START_S + DRAIN_S
        while True:
            try:
                with hold(self.place.lock):
                    try:
                        return await self._made_sure(fate)
                    finally:
                        self._unlock()
            except Held as held:
                if asyncio.get_running_loop().time() > end:
                    raise EngineError(f"Process {held.pid} is starting an engine and does not get on; end it.") from None
                await asyncio.sleep(_LOOK_S)
            except OSError as error:
                why = (error.strerror or "error").lower()
                raise EngineError(f"{self.place.lock} can't be used ({why}); make room, or choose another place.") from None

    def _unlock(self) -> None:
        """Only who holds the lock may delete it. (Where an open file can't be deleted, it stays.)"""
        with contextlib.suppress(OSError):
            self.place.lock.unlink()

    async def _made_sure(self, fate: Callable[[Hello], Fate]) -> Endpoint:
        try:
            found = await self._greeted()
        except Silent:
            log.warning("the engine does not answer, and is ended")
            await self._end(None, Fate.END)
            found = None
        if found is not None:
            where, hello = found
            if (what := fate(hello)) is Fate.KEEP:
                return where
            log.info("engine %d (version %s) is ended for a new one", hello.pid, hello.version)
            await self._end(where, what)
        await asyncio.to_thread(engine_record.sweep, self.place)
        await _start(self.command(self.place), self.place, self.spare)
        found = await self._greeted()
        if found is None:
            raise Gone(f"The engine ended as soon as it was started; {self.place.log} says more.")
        return found[0]

    async def _end(self, where: Endpoint | None, fate: Fate) -> None:
        """where: it answers there."""
        record = engine_record.load(self.place)
        process = (record.process() if record is not None else None) or await asyncio.to_thread(_listener, self.place)
        if where is not None:
            if fate is Fate.REPLACE and await ask_to(where, "drain") and await _has_ended(process, self.place, DRAIN_S):
                return
            if await ask_to(where, "stop") and await _has_ended(process, self.place, _END_S):
                return
        if process is not None:
            with contextlib.suppress(psutil.Error):  # it checks once more that it is still the same
                process.kill()
        if not await _has_ended(process, self.place, _END_S):
            who = f"process {process.pid}" if process is not None else "the process"
            raise EngineError(f"An engine does not answer and can't be ended; end {who} that listens on {self.place.socket}.")


async def ask_to(where: Endpoint, what: str) -> bool:
    """Ask an engine to "drain" or to "stop"; whether it has said that it will."""
    try:
        async with asyncio.timeout(HELLO_S), Session(where) as session:
            await session.ask("POST", f"/midfill/{what}", b"{}")
    except (EngineError, TimeoutError):
        return False
    return True


async def _has_ended(process: psutil.Process | None, place: Place, seconds: float) -> bool:
    """process: None = it left no record; then whether anybody still listens."""

    def is_there() -> bool:
        if process is not None:
            return engine_record.process_of(process.pid, process.create_time()) is not None
        return unix_socket.is_possible() and unix_socket.is_answered(place.socket)

    with contextlib.suppress(TimeoutError, psutil.Error):
        async with asyncio.timeout(seconds):
            while await asyncio.to_thread(is_there):
                await asyncio.sleep(_LOOK_S)
    return not is_there()


def _listener(place: Place) -> psutil.Process | None:
    """The process of this user that listens there, as the system tells; None: nobody, or it can't be known."""
    if not unix_socket.is_possible():
        return None
    with contextlib.suppress(OSError, psutil.Error), socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        probe.connect(str(place.socket))
        found = unix_socket.peer(probe)
        if found is not None and found[1] == os.geteuid():
            return psutil.Process(found[0])
    return None


async def _start(command: Sequence[str], place: Place, spare: Spare | None) -> None:
    """Start it detached, and wait until it listens. EngineError: why it does not."""
    spawning = asyncio.ensure_future(asyncio.to_thread(_spawn, command, place, spare))
    try:
        child = await asyncio.shield(spawning)
    except asyncio.CancelledError:
        spawning.add_done_callback(_let_go)
        raise
    except OSError as error:
        raise EngineError(f"The engine can't be started ({(error.strerror or 'error').lower()}: {command[0]}).") from None
    try:
        async with asyncio.timeout(START_S):
            said = await asyncio.to_thread(_said, child)
    except BaseException as error:  # cancelled, too: nobody would know of it
        end_group(child)
        if isinstance(error, TimeoutError):
            raise Gone(f"The engine did not begin to listen within {START_S:.0f} s; {place.log} says more.") from None
        raise
    if said != READY:
        if sentence := said.decode("utf-8", "replace").strip():
            raise EngineError(sentence)
        raise Gone(f"The engine ended before it could listen; {place.log} says why.")


def _spawn(command: Sequence[str], place: Place, spare: Spare | None) -> subprocess.Popen[bytes]:
    with open_log(place.log) as errors:
        child = spare.take(command, place.log) if spare is not None else None
        if child is not None:
            return child
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, **detached())


def _said(child: subprocess.Popen[bytes]) -> bytes:
    """Its first line; nothing if it ended without one. The child itself ends at once: the engine is its child."""
    assert child.stdout is not None
    with child.stdout:
        line = child.stdout.readline(4096)
    if sys.platform != "win32":
        child.wait()
    return line


def _let_go(spawning: asyncio.Future[subprocess.Popen[bytes]]) -> None:
    if not spawning.cancelled() and spawning.exception() is None:
        end_group(spawning.result())


def is_newer(one: str, other: str) -> bool:
    """By the numbers in front. What has none is never newer."""
    return _numbers(one) > _numbers(other)


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(\.\d+)*", version)
    numbers = [int(part) for part in found[0].split(".")] if found else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
