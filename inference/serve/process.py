"""One engine as a process: from listening to its end.

Owns the order of both: it is found only when it listens, and found no more before anything of it ends. Owns how long it stays
when nobody is connected. Refuses to know who started it, and signals.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, replace

from inference import engine_record
from inference.drafts.chunks import Chunks
from inference.endpoint import make_key
from inference.engine_host import ModelHost
from inference.engine_record import EngineRecord
from inference.runtime_dir import Place, make_private
from inference.serve import listen
from inference.serve.app import PARTS, make_application
from inference.serve.limits import Limits
from inference.serve.listen import Listening
from inference.wire import EngineState, News

log = logging.getLogger(__name__)

FIRST_S = 30.0  # for the first server to connect
_FAILED_S = 1.0  # for those who wait to be told why
_BUSY_S = 1.0  # until it is looked again whether something runs
LOOPBACK = "127.0.0.1"
_THIS_MACHINE = {"0.0.0.0": LOOPBACK, "[::]": "[::1]"}


@dataclass(frozen=True, slots=True)
class Where:
    """host: listen on TCP there, with key; None: as `place` says, on a Unix socket or on a port of the loopback."""

    place: Place
    host: str | None = None
    port: int = 0
    key: str = ""
    key_file: str = ""
    is_loopback: bool = False


class Linger:
    """seconds: without a lease until `over` is called; None: never. is_busy: something runs though nobody holds a lease."""

    def __init__(self, seconds: float | None, is_busy: Callable[[], bool], over: Callable[[], None]) -> None:
        self._seconds = seconds
        self._is_busy = is_busy
        self._over = over
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        if self._seconds is not None:
            self._wait(max(self._seconds, FIRST_S))

    def on_leases(self, n: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not n and self._seconds is not None:
            self._wait(self._seconds)

    def _wait(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._due)

    def _due(self) -> None:
        if self._is_busy():
            self._wait(_BUSY_S)
        else:
            self._over()


class Process:
    """Runs one host. `end` may be called at any time on the loop; `run` then returns. on_end: told why, as it begins to end.
    chunks: texts to draft from, which the host's engine knows."""

    def __init__(
        self,
        record: EngineRecord,
        where: Where,
        linger_s: float | None,
        on_end: Callable[[str], None] = lambda why: None,
        limits: Limits | None = None,
        chunks: Chunks | None = None,
    ) -> None:
        self._chunks = chunks
        self._record = record
        self._where = where
        self._linger_s = linger_s
        self._on_end = on_end
        self._limits = limits
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._linger: Linger | None = None

    def end(self, why: str) -> None:
        if not self._over.done():
            log.info("ending: %s", why)
            self._over.set_result(why)
            self._on_end(why)

    def on_leases(self, n: int) -> None:
        """For the host."""
        if self._linger is not None:
            self._linger.on_leases(n)

    async def run(self, host: ModelHost, on_listening: Callable[[EngineRecord], None]) -> None:
        """Listen, load if that has not begun, serve until the end. EngineError: it can't listen there."""
        where = self._where
        make_private(where.place.directory)
        key = self._key()
        app = make_application(
            host,
            version=self._record.version,
            on_drained=lambda: self.end("another version takes over, and nothing runs any more"),
            on_stop=lambda: self.end("it was asked to"),
            key=key,
            limits=self._limits,
            chunks=self._chunks,
        )
        running = app[PARTS].running
        self._linger = Linger(self._linger_s, lambda: len(running) > 0, lambda: self.end("nobody is connected"))
        loop = asyncio.get_running_loop()

        def look(news: News) -> None:
            if news.state is EngineState.FAILED:
                loop.call_later(_FAILED_S, self.end, "the model can't be loaded")

        host.watch(look)
        look(host.news())
        if key is None:
            listening = await listen.on_socket(app, where.place.socket)
        else:
            listening = await listen.on_tcp(app, LOOPBACK if where.host is None else where.host, where.port)
        try:
            engine_record.save(where.place, self._found(listening))
            on_listening(self._found(listening))
            log.info("listening on %s", listening.address)
            self._linger.begin()
            host.start()
            await self._over
        finally:
            self._linger.on_leases(1)  # no timer any more
            engine_record.withdraw(where.place, os.getpid())
            await listening.aclose()
            await host.aclose()

    def _key(self) -> str | None:
        if self._where.host is not None:
            return self._where.key
        if not self._where.is_loopback:
            return None
        self._where.place.key.unlink(missing_ok=True)  # of one that died
        return make_key(self._where.place.key)

    def _found(self, listening: Listening) -> EngineRecord:
        where = self._where
        if where.host is None and not where.is_loopback:
            return replace(self._record, socket=listening.address)
        key_file = where.key_file if where.host is not None else str(where.place.key)
        return replace(self._record, url=f"http://{_reachable(listening.address)}", key_file=key_file)


def _reachable(address: str) -> str:
    """All addresses are listened on: this machine's own is the one to ask."""
    host, _, port = address.rpartition(":")
    return f"{_THIS_MACHINE.get(host, host)}:{port}"
