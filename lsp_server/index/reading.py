"""One file of the workspace: read, judged, parsed.

Owns the only reading of the user's code from the disk, and the guard around the parser: what is being parsed stands in a file,
so that if it ends the process, or hangs and is ended, the next process knows. Refuses links, pipes and devices.
"""

from __future__ import annotations

import contextlib
import faulthandler
import hashlib
import os
import stat
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from context.languages import language_of
from context.symbols import FileSymbols, symbols_of
from lsp_server.index import kinds
from lsp_server.index.projects import facts_of
from lsp_server.index.rows import Fresh, Stamp, State

PARSE_S = 20.0  # a parser that takes longer hangs
_LENGTH = struct.Struct("<I")

Parse = Callable[[str, bytes], FileSymbols]


@dataclass(frozen=True, slots=True)
class Bytes:
    data: bytes
    stamp: Stamp


class Guard:
    """path: of the file that names what is being parsed."""

    def __init__(self, path: Path, limit_s: float = PARSE_S) -> None:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        self._file = os.fdopen(os.open(path, flags, 0o600), "r+b", buffering=0)
        self._limit_s = limit_s
        self._armed: float | None = None  # when the clock was started
        self._nowhere = open(os.devnull, "wb", buffering=0)  # noqa: SIM115 - as long as the process

    def found(self) -> str:
        """What the process before was parsing when it ended, "" if nothing."""
        self._file.seek(0)
        data = self._file.read(_LENGTH.size + 65_536)
        if len(data) < _LENGTH.size:
            return ""
        (length,) = _LENGTH.unpack_from(data)
        name = data[_LENGTH.size : _LENGTH.size + length]
        return name.decode("utf-8", "replace") if length == len(name) else ""

    def clear(self) -> None:
        self._note("")

    @contextmanager
    def around(self, path: str) -> Iterator[None]:
        """The process ends if this takes longer than the limit (or half of it), whatever native code does. Call `rest` soon
        afterwards: the clock goes on, since stopping and starting it for every file costs more than parsing one."""
        self._note(path)
        now = time.monotonic()
        if self._armed is None or now - self._armed > self._limit_s / 2:
            self._armed = now
            # its thread needs no interpreter's lock
            faulthandler.dump_traceback_later(self._limit_s, exit=True, file=self._nowhere)
        yield
        self._note("")

    def rest(self) -> None:
        """Nothing is parsed for a while."""
        if self._armed is not None:
            self._armed = None
            faulthandler.cancel_dump_traceback_later()

    def close(self) -> None:
        self.rest()
        self._file.close()
        self._nowhere.close()

    def _note(self, path: str) -> None:
        name = path.encode()
        self._file.seek(0)
        self._file.write(_LENGTH.pack(len(name)) + name)


def read(path: str, max_bytes: int) -> Bytes | None:
    """The whole file, and when it was read. None: it is not there, no regular file, too long, or can't be read."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, flags)
    except (OSError, ValueError):
        return None
    with os.fdopen(handle, "rb", buffering=0) as file:
        try:
            before = os.fstat(handle)
            if not stat.S_ISREG(before.st_mode) or before.st_size > max_bytes:
                return None
            looked_ns = time.time_ns()
            data = file.read()
            after = os.fstat(handle)
        except OSError:
            return None
    if data is None or len(data) > max_bytes:
        return None
    if (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size) or len(data) != after.st_size:
        looked_ns = 0  # somebody is writing it: look again
    return Bytes(data, Stamp(before.st_mtime_ns, before.st_size, looked_ns))


def digest_of(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def judge(path: str, got: Bytes, known: bytes, guard: Guard, parse: Parse = symbols_of) -> Fresh:
    """What the store is to know of a file. known: the digest that it has."""
    digest = digest_of(got.data)
    if digest == known:
        return Fresh(path, got.stamp, None)
    language, facts = language_of(path, got.data[: kinds.HEAD_BYTES]), facts_of(path, got.data)
    if verdict := kinds.by_content(got.data) or ("" if language else kinds.UNKNOWN):
        return Fresh(path, got.stamp, digest, language, State.SKIPPED, verdict, facts=facts)
    symbols: FileSymbols | None = None
    reason = ""
    with guard.around(path):
        try:
            symbols = parse(language, got.data)
        except Exception as error:  # one file must not stop the others
            reason = type(error).__name__
    if symbols is None:
        return Fresh(path, got.stamp, digest, language, State.FAILED, reason, facts=facts)
    return Fresh(path, got.stamp, digest, language, symbols=symbols, facts=facts)


def stamp_of(path: str) -> Stamp | None:
    """Of a file that is not to be read again until it changes."""
    with contextlib.suppress(OSError, ValueError):
        status = os.lstat(path)
        return Stamp(status.st_mtime_ns, status.st_size, 1 << 62)
    return None
