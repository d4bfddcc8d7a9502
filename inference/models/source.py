"""Where a model's file can come from: what every source does, and what it hands over.

Owns that contract and the question whether there is room. Refuses to know any source.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from inference.models import store
from inference.models.model import Model
from inference.models.store import OnProgress
from inference.types import EngineError

FULL = (errno.ENOSPC, errno.EDQUOT)

Free = Callable[[Path], int]  # a directory that exists → bytes that can still be written below it


@dataclass(frozen=True, slots=True)
class Arrived:
    """A whole file in the directory of models, safely on disk, without its name yet. sha256: of all its bytes, as read."""

    path: Path
    sha256: str


class Source(Protocol):
    """A place that models come from."""

    @property
    def name(self) -> str:
        """As in the settings and in messages."""
        ...

    def fetch(self, model: Model, directory: Path, progress: OnProgress) -> Arrived:
        """Bring the whole file. What an interrupted call left is gone on with.

        EngineError: this source cannot; one sentence. NoSpace, or OSError about `directory`: nor can any other.
        """
        ...


class NoSpace(EngineError):
    """There is no room for the model, wherever it comes from."""


def free_bytes(directory: Path) -> int:
    """Bytes that can still be written below `directory`, which must exist."""
    return shutil.disk_usage(directory).free


def require_space(model: Model, directory: Path, needed: int, free: Free) -> None:
    """NoSpace: fewer than `needed` bytes are free."""
    available = free(directory)
    if available < needed:
        raise NoSpace(
            f"There is not enough space in {directory}: pulling {model.id} needs {needed:,} bytes more, "
            f"{available:,} are free; make room, or choose another directory with the variable {store.MODELS_DIR_VARIABLE}."
        )
