"""When the filling of stores pauses: while any server of this user has a request open in that workspace.

Owns a small file that all of them map: each server has a place in it for the time until which its request counts as open, so
that one that dies holds nobody up for long. Setting and asking cost no system call. Never fails: without the file nobody
pauses.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path

HOLD_S = 2.0  # how long a request counts as open without being renewed
RENEW_S = 1.0
_MOST_S = 5.0  # a time further ahead is nobody's
_PLACES = struct.Struct("64d")
_PLACE = struct.Struct("d")


class OpenRequests:
    """For servers and for the process that pauses. Times are those of the system's monotonic clock, one for all processes."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic, place: int | None = None) -> None:
        self._clock = clock
        self._at = (os.getpid() if place is None else place) % 64 * _PLACE.size
        self._map: mmap.mmap | None = None
        with contextlib.suppress(OSError, ValueError):
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
            handle = os.open(path, flags, 0o600)
            try:
                if os.fstat(handle).st_size < _PLACES.size:
                    os.ftruncate(handle, _PLACES.size)
                self._map = mmap.mmap(handle, _PLACES.size)
            finally:
                os.close(handle)

    def hold(self) -> None:
        """A request of this process is open. Say it again within HOLD_S."""
        self._set(self._clock() + HOLD_S)

    def release(self) -> None:
        self._set(0.0)

    @property
    def is_any_open(self) -> bool:
        if self._map is None:
            return False
        now = self._clock()
        return any(now < until <= now + _MOST_S for until in _PLACES.unpack_from(self._map))

    def close(self) -> None:
        if self._map is not None:
            self.release()
            self._map.close()
            self._map = None

    def _set(self, until: float) -> None:
        if self._map is not None:
            _PLACE.pack_into(self._map, self._at, until)
