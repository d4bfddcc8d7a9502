"""What this process looks at on the disk: opened, listed, or only asked about.

Owns the process's audit hook, which can't be taken away again, and the calls that no audit event tells of.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest import mock

_AUDITED = frozenset({"open", "os.listdir", "os.scandir", "os.chdir", "os.mkdir", "os.rename", "os.remove", "os.truncate"})
_UNAUDITED = ("stat", "lstat", "readlink", "access", "statvfs")
_looking: list[Disk] = []


class Disk:
    """As a context manager. seen: every path that was looked at meanwhile, as text."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._patches = ExitStack()

    def __enter__(self) -> Disk:
        _watch()
        for name in _UNAUDITED:
            self._patches.enter_context(mock.patch.object(os, name, self._noting(getattr(os, name))))
        _looking.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _looking.remove(self)
        self._patches.close()

    def note(self, path: object) -> None:
        if isinstance(path, (str, bytes, os.PathLike)):
            self.seen.append(os.fsdecode(path))

    def with_any(self, *parts: str) -> list[str]:
        """Paths that hold one of these texts."""
        return [path for path in self.seen if any(part in path for part in parts)]

    def _noting(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(path: Any, *args: Any, **kwargs: Any) -> Any:
            self.note(path)
            return call(path, *args, **kwargs)

        return noted


_is_watched: list[bool] = []


def _watch() -> None:
    if not _is_watched:
        _is_watched.append(True)
        sys.addaudithook(_hear)


def _hear(event: str, args: tuple[Any, ...]) -> None:
    if _looking and event in _AUDITED and args:
        for disk in _looking:
            disk.note(args[0])
