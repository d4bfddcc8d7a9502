"""Where engines that run are found: one private directory of this user, and the names in it.

Owns the choice of the directory, its privacy, and what each engine's files are called. An engine's name holds its model's
digest and the protocol's number, so that servers that could not use it never meet it. Refuses a directory that others could
reach into.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from inference import unix_socket
from inference.types import EngineError
from inference.wire import PROTOCOL

RUNTIME_VARIABLE = "MIDFILL_RUNTIME_DIR"

_DIGITS = 16  # of the model's digest: enough to tell apart what one user has
_LONGEST = 90  # bytes of a socket's path; the system's limit is 104 or 108, and a name that it has first is longer


def runtime_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """What MIDFILL_RUNTIME_DIR names, or `midfill` in XDG_RUNTIME_DIR, or one of this user's in the directory for temporary
    files. It need not exist. Relative names in the environment are passed over."""
    named = environment.get(RUNTIME_VARIABLE, "")
    if named and os.path.isabs(named):
        return Path(named)
    given = environment.get("XDG_RUNTIME_DIR", "")
    if given and os.path.isabs(given) and os.path.isdir(given):
        return Path(given) / "midfill"
    return _temporary() / f"midfill-{_user()}"


def make_private(directory: Path) -> None:
    """Make it, or check the one that is there. EngineError: others could reach into it, or it can't be made."""
    if sys.platform != "win32":
        try:
            unix_socket.make_directory(directory)
        except EngineError as error:
            sentence = f"{str(error).rstrip('.')} (engines are found there; {RUNTIME_VARIABLE} names another place)."
            raise EngineError(sentence) from None
        return
    try:  # below the user's own directory, whose access list it inherits
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sentence = f"The directory {directory} can't be made ({error.strerror}); name another with {RUNTIME_VARIABLE}."
        raise EngineError(sentence) from None


@dataclass(frozen=True, slots=True)
class Place:
    """The files of one engine. stem: its name without an ending."""

    directory: Path
    stem: str

    @property
    def socket(self) -> Path:
        """In the directory, or where that one's path is too long for a socket, in a short one of this user's."""
        path = self.directory / f"{self.stem}.sock"
        if len(os.fsencode(path)) <= _LONGEST:
            return path
        digest = hashlib.sha256(os.fsencode(self.directory)).hexdigest()[:8]
        for base in (_temporary(), Path("/tmp")):
            path = base / f"midfill-{_user()}-{digest}" / f"{self.stem}.sock"
            if len(os.fsencode(path)) <= _LONGEST:
                break
        return path

    @property
    def lock(self) -> Path:
        """Held by who starts or replaces the engine."""
        return self.directory / f"{self.stem}.lock"

    @property
    def record(self) -> Path:
        return self.directory / f"{self.stem}.json"

    @property
    def key(self) -> Path:
        return self.directory / f"{self.stem}.key"

    @property
    def log(self) -> Path:
        return self.directory / f"{self.stem}.log"


def place_of(model_digest: str, directory: Path | None = None) -> Place:
    """directory: None = this user's."""
    return Place(directory or runtime_dir(), f"{model_digest[:_DIGITS]}-{PROTOCOL}")


def places(directory: Path | None = None) -> Iterator[Place]:
    """Of all engines that have left a record. Nothing if the directory is not there. EngineError: none, or not private."""
    directory = directory or runtime_dir()
    if not os.path.lexists(directory):
        return
    make_private(directory)
    for path in sorted(directory.glob("*.json")):
        if not path.name.startswith("."):
            yield Place(directory, path.stem)


def _temporary() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or tempfile.gettempdir())
    return Path(tempfile.gettempdir()).resolve()


def _user() -> str:
    return str(os.geteuid()) if sys.platform != "win32" else "engines"
