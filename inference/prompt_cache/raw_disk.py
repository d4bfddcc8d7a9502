"""How diskcache keeps our values: raw bytes and numbers, nothing else.

Its own class pickles whatever it doesn't know, and unpickles whatever a row says is a pickle: who can write a row runs code.
This one does neither, in any mode. Files are made for their user only, and read only from where they must lie.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from diskcache import UNKNOWN, Disk

_RAW, _BINARY = 1, 2  # modes that are used; text and pickle are not
_NAME = re.compile(r"[0-9a-f]{2}[/\\][0-9a-f]{2}[/\\][0-9a-f]{28}\.val")
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # a named pipe would be waited for
_N_TRIES = 10


class RefusedValueError(Exception):
    """A row that is not one of ours."""


class RawDisk(Disk):  # type: ignore[misc]  # the package has no types
    """Keys: bytes. Values: whole numbers, bytes, or a tuple of bytes, which always becomes a file."""

    def put(self, key: Any) -> tuple[Any, bool]:
        if type(key) is not bytes:
            raise TypeError("keys are bytes")
        return sqlite3.Binary(key), True

    def get(self, key: Any, raw: Any) -> bytes:
        """Of a key that is not ours: nothing."""
        return bytes(key) if raw and isinstance(key, bytes) else b""

    def store(self, value: Any, read: bool, key: Any = UNKNOWN) -> tuple[int, int, str | None, Any]:
        if read:
            raise TypeError("streams are not kept")
        if type(value) is int:
            return 0, _RAW, None, value
        if type(value) is bytes:
            return 0, _RAW, None, sqlite3.Binary(value)
        if type(value) is tuple:
            filename, full_path = self.filename(key, value)
            return self._write_parts(Path(full_path), value), _BINARY, filename, None
        raise TypeError("values are numbers and bytes")

    def fetch(self, mode: Any, filename: Any, value: Any, read: bool) -> bytes | int:
        """RefusedValueError: no value of ours. OSError: its file can't be read."""
        if mode == _RAW and isinstance(value, bytes | int) and not read:
            return value
        if mode == _BINARY and not read:
            return self._read_file(filename)
        raise RefusedValueError("a value that was not stored here")

    def remove(self, file_path: Any) -> None:
        if isinstance(file_path, str) and _NAME.fullmatch(file_path):
            super().remove(file_path)

    def _write_parts(self, path: Path, parts: Iterable[bytes]) -> int:
        with open(_create(path), "wb", buffering=0) as file:
            try:
                return sum(_write_all(file, part) for part in parts)
            except BaseException:
                path.unlink(missing_ok=True)
                raise

    def _read_file(self, filename: Any) -> bytes:
        if not isinstance(filename, str) or not _NAME.fullmatch(filename):
            raise RefusedValueError("a file's name that was not given here")
        path = Path(self._directory) / filename
        for directory in (path.parent.parent, path.parent):
            if not stat.S_ISDIR(os.lstat(directory).st_mode):
                raise RefusedValueError("a link in place of a directory")
        try:
            descriptor = os.open(path, os.O_RDONLY | _NO_FOLLOW | _NO_WAIT)
        except OSError as error:
            if path.is_symlink():
                raise RefusedValueError("a link in place of a file") from None
            raise error
        with open(descriptor, "rb", buffering=0) as file:
            info = os.fstat(file.fileno())
            if not stat.S_ISREG(info.st_mode):
                raise RefusedValueError("no file")
            return file.read()


def _create(path: Path) -> int:
    """A descriptor of a new file. Another process may remove its directory, empty still, before the file is in it."""
    for left in reversed(range(_N_TRIES)):
        try:
            for directory in (path.parent.parent, path.parent):
                directory.mkdir(mode=0o700, exist_ok=True)
            return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, 0o600)
        except FileNotFoundError:
            if not left:
                raise
    raise AssertionError("the last try returns or raises")


def _write_all(file: Any, part: bytes) -> int:
    """A write may take less than all of it."""
    view = memoryview(part)
    while len(view):
        view = view[file.write(view) :]
    return len(part)
