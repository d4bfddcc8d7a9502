"""The log of an engine that runs in the background: a private file that does not grow for ever.

Owns the file, its mode and its size. What native code writes to standard error is in it as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import BinaryIO

MAX_BYTES = 1 << 20
LOOK_S = 60.0


def open_log(path: Path, max_bytes: int = MAX_BYTES) -> BinaryIO:
    """To be appended to, mode 0600; a long one becomes `NAME.1` first. OSError: not possible, or it is a link."""
    with contextlib.suppress(OSError):
        if path.stat().st_size > max_bytes:
            os.replace(path, path.with_name(f"{path.name}.1"))
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    return os.fdopen(os.open(path, flags, 0o600), "ab", buffering=0)


def turn_over(path: Path, max_bytes: int = MAX_BYTES) -> bool:
    """If the log that is this process's standard error has become too long: go on in a fresh one."""
    try:
        if os.fstat(2).st_size <= max_bytes:
            return False
        with open_log(path, max_bytes) as log:
            sys.stderr.flush()
            os.dup2(log.fileno(), 2)
            os.dup2(2, 1)
    except OSError:
        return False
    return True


async def keep_short(path: Path) -> None:
    """Look after it until cancelled."""
    while True:
        await asyncio.sleep(LOOK_S)
        await asyncio.to_thread(turn_over, path)
