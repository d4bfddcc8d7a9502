"""Which engine was started last in the background: what the next server will most likely want.

Owns one file in the cache directory. What it says is a guess: whoever acts on it makes sure before anybody is served.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

_NAME = "last-engine.json"


def last_engine(cache_dir: Path) -> list[str] | None:
    """Its arguments; None: there was none, or the file is of no use."""
    try:
        told = json.loads((cache_dir / _NAME).read_bytes())
    except (OSError, ValueError):
        return None
    is_list = isinstance(told, list) and all(isinstance(word, str) for word in told)
    return told if is_list and told[:2] == ["engine", "--background"] else None


def keep(cache_dir: Path, arguments: Sequence[str]) -> None:
    """Without the directory, or room in it, nothing is kept."""
    if last_engine(cache_dir) == list(arguments):
        return
    with contextlib.suppress(OSError):
        handle, name = tempfile.mkstemp(dir=cache_dir, prefix=".")  # mode 0600
        try:
            with os.fdopen(handle, "w") as file:
                json.dump(list(arguments), file)
            os.replace(name, cache_dir / _NAME)
        except OSError:
            os.unlink(name)
