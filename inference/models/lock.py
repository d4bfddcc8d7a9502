"""A lock between processes on a file that says who holds it.

Owns the lock file, which stays behind; only who holds the lock may delete it, and who then has locked a deleted file does not
hold it. The operating system frees the lock when its holder ends, however it ends. Refuses to wait.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MOST_BYTES = 64
_TAKEN = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)


class Held(Exception):
    """Another process (or thread) has the lock. pid: its process, as far as it can be known."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(pid)
        self.pid = pid


@contextmanager
def hold(path: Path) -> Iterator[None]:
    """Hold the lock inside the block. Held: someone else has it. OSError: the file cannot be made.

    On a file system that knows no locks the block runs without one: rather that than never.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        _lock(handle)
        if not _is_at(handle, path):  # it was swept away between the two calls, and the lock locks nothing
            raise Held(None)
        os.ftruncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
        yield
        os.ftruncate(handle, 0)
    finally:
        os.close(handle)  # frees the lock too


def _lock(handle: int) -> None:
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(handle, 1 << 30, os.SEEK_SET)  # far behind the text, which others must be able to read
            try:
                msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            finally:
                os.lseek(handle, 0, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _TAKEN:
            raise Held(_holder(handle)) from None


def _is_at(handle: int, path: Path) -> bool:
    """Whether the open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except OSError:
        return False


def _holder(handle: int) -> int | None:
    text = os.read(handle, _MOST_BYTES).strip()
    return int(text) if text.isdigit() else None
