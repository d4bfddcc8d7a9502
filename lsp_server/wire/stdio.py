"""The wire: the protocol's private descriptors, frames in and out, and leaving the process.

Owns two threads (one reads, one writes), so neither a busy handler nor a client that stops reading can hold up the other
direction, and the rule that the process always ends: when the client closes a pipe, when it is gone, and when native code
won't let go. Refuses to know what a message says.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import BinaryIO, NoReturn, Protocol

from lsp_server.wire.watch import watch_process

log = logging.getLogger(__name__)

MAX_BODY_BYTES = 256 * 1024 * 1024  # a longer Content-Length is garbage; reading it would allocate it all at once
_LENGTH = re.compile(rb"content-length\s*:\s*(\d{1,12})\s*$", re.IGNORECASE)
_LEAVE_S = 2.5  # from the reason to leave to the end of the process, whatever native code does
CLOSE_S = 1.0  # for the completion heart to end in order
_FLUSH_S = 0.5  # for answers already written
_QUEUE_END = b""
MAX_WAITING = 10_000  # frames; a client that lets more pile up reads no longer


@dataclass(frozen=True, slots=True)
class Pipes:
    """What the client writes to and reads from."""

    stdin: BinaryIO
    out: BinaryIO


def claim_stdio() -> Pipes:
    """Take descriptors 0 and 1 for the protocol: call it before any native library is loaded.

    Afterwards descriptor 1 and `sys.stdout` are standard error, descriptor 0 is empty: what libraries and child processes
    print or read can't touch the protocol.
    """
    sys.stdout.flush()
    pipes = Pipes(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0))
    withdraw_stdio()
    return pipes


def withdraw_stdio() -> None:
    """Nothing is read from standard input or written to standard output from here on."""
    sys.stdout.flush()
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(2, 1)
    os.dup2(null, 0)
    if null > 2:  # it took the place of a descriptor that was closed
        os.close(null)
    sys.stdout = sys.stderr


def read_frame(stream: BinaryIO) -> bytes | None:
    """The next body; None at the end of the stream. Anything that is not a header is passed over."""
    length = 0
    while True:
        line = stream.readline(65536)
        if not line:
            return None
        if line.strip():
            # At the line's end, not its beginning: a body shorter than announced leaves its rest in front of the next header.
            found = _LENGTH.search(line)
            if found:
                length = int(found.group(1))
            continue
        if not 0 < length <= MAX_BODY_BYTES:
            length = 0
            continue
        body = stream.read(length)
        return body if len(body) == length else None


class FrameReader:
    """A daemon thread that reads bodies and hands them to the loop in order, all that are there at once.

    Handling what has already arrived in one go lets a cancel that lies in the pipe reach its request before that has begun.
    on_end is called from the thread.
    """

    def __init__(self, stream: BinaryIO, on_body: Callable[[bytes, float], None], on_end: Callable[[], None]) -> None:
        self._stream = stream
        self._on_body = on_body
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._inbox: deque[tuple[bytes, float]] = deque()
        self._thread = threading.Thread(target=self._read, name="midfill-stdin", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Nothing is handed on any more, whatever still comes. Call it on the loop."""
        self._on_body = lambda _body, _received: None

    def _read(self) -> None:
        # A descriptor closed under us is an end like any other; RuntimeError: the loop is closed, nobody is left to tell.
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            while (body := read_frame(self._stream)) is not None:
                self._inbox.append((body, time.monotonic()))
                del body  # it may be a long document, and the next may be long in coming
                self._loop.call_soon_threadsafe(self._drain)
        self._on_end()

    def _drain(self) -> None:
        for _ in range(len(self._inbox)):  # not until it is empty: a client that never stops would keep the loop
            body, received = self._inbox.popleft()
            self._on_body(body, received)


class FrameWriter:
    """pygls's writer: queues frames for a daemon thread. After the first failure everything is dropped in silence.

    `write` may be called from any thread. on_broken is called from any.
    """

    def __init__(self, stream: BinaryIO, on_broken: Callable[[], None]) -> None:
        self._stream = stream
        self._on_broken = on_broken
        self._queue: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._is_open = True
        self._thread = threading.Thread(target=self._write, name="midfill-stdout", daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        if not self._is_open or not data:
            return
        if self._queue.qsize() >= MAX_WAITING:
            self._is_open = False
            self._on_broken()
            return
        self._queue.put(data)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._queue.put(_QUEUE_END)

    async def flushed(self, seconds: float) -> None:
        """Wait until all is written, not longer than `seconds`."""
        end = time.monotonic() + seconds
        while self._thread.is_alive() and time.monotonic() < end:
            await asyncio.sleep(0.005)

    def _write(self) -> None:
        try:
            while data := self._queue.get():
                view = memoryview(data)
                while view:  # an unbuffered stream may take less than it is given
                    view = view[self._stream.write(view) or 0 :]
                self._stream.flush()
        except (OSError, ValueError):
            self._is_open = False
            self._on_broken()


class Ending:
    """Why and with which code the connection ends; the first reason counts. Also arms the deadline of the process."""

    def __init__(self, force: Callable[[int], None] | None) -> None:
        self._force = force
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[int] = self._loop.create_future()

    def end(self, code: int, reason: str) -> None:
        """Call it on the loop."""
        if self._future.done():
            return
        log.info("leaving: %s", reason)
        self._future.set_result(code)
        self._arm()

    def end_from_thread(self, code: Callable[[], int], reason: str) -> None:
        """The same from any thread; code is asked for on the loop, after what was read before."""
        self._arm()  # at once: the loop may be stuck
        with contextlib.suppress(RuntimeError):  # the loop is closed: we are leaving already
            self._loop.call_soon_threadsafe(lambda: self.end(code(), reason))

    def _arm(self) -> None:
        if self._force is None:
            return
        timer = threading.Timer(_LEAVE_S, self._give_up, (self._force,))
        timer.daemon = True
        timer.start()

    def _give_up(self, force: Callable[[int], None]) -> None:
        force(self._future.result() if self._future.done() else 1)

    async def wait(self) -> int:
        return await asyncio.shield(self._future)


class Peer(Protocol):
    """What the wire needs of the protocol object."""

    @property
    def code_at_end(self) -> int:
        """Exit code if the client closes the connection now."""
        ...

    def connect(self, writer: FrameWriter, *, on_exit: Callable[[int], None], on_client: Callable[[int], None]) -> None:
        """on_exit: the client asked us to leave, with this code. on_client: the process we live for."""
        ...

    def feed(self, body: bytes, received: float) -> None: ...
    async def drain(self, seconds: float) -> None:
        """Answer what is unanswered."""
        ...


async def serve(
    peer: Peer,
    pipes: Pipes,
    aclose: Callable[[], Coroutine[None, None, None]] | None = None,
    *,
    force: Callable[[int], None] | None = None,
    watch: Callable[[int, Callable[[], None]], None] = watch_process,
) -> int:
    """Serve one client until it ends; the exit code. aclose: ends the completion heart, in bounded time.

    force: ends the process when an orderly end takes too long (`leave`); None where the process is not ours alone.
    watch: calls back when the client's process is gone.
    """
    asyncio.get_running_loop().set_exception_handler(_log_quietly)
    ending = Ending(force)
    writer = FrameWriter(pipes.out, lambda: ending.end_from_thread(lambda: 1, "the client no longer reads"))
    reader = FrameReader(
        pipes.stdin, peer.feed, lambda: ending.end_from_thread(lambda: peer.code_at_end, "the client closed the connection")
    )
    peer.connect(
        writer,
        on_exit=lambda code: ending.end(code, "the client asked for it"),
        on_client=lambda pid: watch(pid, lambda: ending.end_from_thread(lambda: 1, f"the client (process {pid}) is gone")),
    )
    reader.start()
    code = await ending.wait()
    reader.stop()
    await peer.drain(_FLUSH_S)
    if aclose is not None:
        await close_in_time(aclose, CLOSE_S)
    writer.close()
    await writer.flushed(_FLUSH_S)
    return code


async def close_in_time(close: Callable[[], Coroutine[None, None, None]], seconds: float) -> None:
    """Run close() for that long at most (`wait_for` would wait on for one that ignores being cancelled). What it raises is
    logged by type, since we are leaving anyway."""
    task = asyncio.ensure_future(close())
    await asyncio.wait({task}, timeout=seconds)
    if not task.done():
        log.info("the engine did not end within %s s: leaving it behind", seconds)
    elif not task.cancelled() and (error := task.exception()) is not None:
        log.warning("closing failed: %s", type(error).__name__)
        log.debug("details", exc_info=error)


def _log_quietly(_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """asyncio's own report prints arguments and exception texts, which may hold the user's code."""
    error = context.get("exception")
    log.error("an unexpected error in the background: %s", type(error).__name__ if error else "unknown")
    if isinstance(error, BaseException):
        log.debug("details", exc_info=error)


def run_to_exit(main: Coroutine[None, None, int]) -> NoReturn:
    """Run main on a new loop, then end the process with the code it returns. Never waits for threads."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        code = loop.run_until_complete(main)
    except KeyboardInterrupt:
        code = 130
    # The loop is left open on purpose: closing it waits for its threads, and one of them may be inside native code.
    leave(code)


def leave(code: int) -> NoReturn:
    """End the process now. Threads inside native code would hold up an ordinary exit."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)
