"""Writing so that a power cut leaves the old or the new, never half of it."""

from __future__ import annotations

import os
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Replace a file in one step. OSError: it cannot be written; the old one is still there then."""
    fresh = path.with_name(path.name + ".new")
    with open(fresh, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)


def move(source: Path, target: Path) -> None:
    """Give a file, whose bytes are safely on disk, its name."""
    os.replace(source, target)
    _sync_directory(target.parent)


def _sync_directory(directory: Path) -> None:
    """Make a rename last through a power cut, where directories can be opened at all (not on Windows)."""
    try:
        handle = os.open(directory, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        return
    finally:
        os.close(handle)
