"""Where the stores of the workspaces lie, what they are called, and that nobody else reaches them.

Owns the directory below the cache directory, the names, and the removal of stores that nobody has used for long. A name holds
the number of the schema, so that versions of midfill that could not share a store never meet in one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from inference import unix_socket
from inference.models.lock import Held, hold
from inference.types import EngineError

SCHEMA = 1
KEPT_DAYS = 90.0
_ENDINGS = (".sqlite", ".sqlite-wal", ".sqlite-shm", ".broken", ".at", ".suspect", ".open")


class Trouble(Exception):
    """The store can't be used. Its text is a sentence for people that says what to do."""


@dataclass(frozen=True, slots=True)
class Place:
    """The files of one store. stem: their name without an ending."""

    directory: Path
    stem: str

    @property
    def database(self) -> Path:
        return self.directory / f"{self.stem}.sqlite"

    @property
    def lock(self) -> Path:
        """Held by the process that fills the store, and by nobody else."""
        return self.directory / f"{self.stem}.lock"

    @property
    def broken(self) -> Path:
        """What was set aside last."""
        return self.directory / f"{self.stem}.broken"

    @property
    def at(self) -> Path:
        """Names the file that is being parsed, so that one that ends the process is known afterwards."""
        return self.directory / f"{self.stem}.at"

    @property
    def suspect(self) -> Path:
        """Made by who has read something that can't be: the process that fills the store looks it through."""
        return self.directory / f"{self.stem}.suspect"

    @property
    def open_requests(self) -> Path:
        """Which servers have a request open; see `quiet`."""
        return self.directory / f"{self.stem}.open"


def place_of(cache_dir: Path, root: str) -> Place:
    """root: absolute, with links resolved."""
    digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
    word = re.sub(r"[^A-Za-z0-9_-]+", "-", root.rstrip("/").rsplit("/", 1)[-1])[:32].strip("-") or "root"
    return Place(cache_dir / "index", f"{word}-{digest}-{SCHEMA}")


def make_private(directory: Path) -> None:
    """Make it, mode 0700, or check the one that is there. Trouble: others could reach into it, or it can't be made."""
    if sys.platform == "win32":  # below the user's own directory, whose access list it inherits
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Trouble(f"the workspace index is off: {directory} can't be made ({error.strerror})") from None
        return
    try:
        unix_socket.make_directory(directory)
    except EngineError as error:
        raise Trouble(
            f"the workspace index is off: {str(error).removesuffix('; choose another place for the socket.')}"
        ) from None


def sweep(directory: Path, now_s: float | None = None) -> None:
    """Remove the stores that nobody has opened for KEPT_DAYS and nobody fills now. Never fails."""
    now_s = time.time() if now_s is None else now_s
    with contextlib.suppress(OSError):
        for database in sorted(directory.glob("*.sqlite")):
            with contextlib.suppress(OSError, Held):
                if now_s - database.stat().st_mtime < KEPT_DAYS * 86_400:
                    continue
                place = Place(directory, database.stem)
                with hold(place.lock):
                    for ending in _ENDINGS:
                        (directory / f"{place.stem}{ending}").unlink(missing_ok=True)
                    place.lock.unlink(missing_ok=True)
