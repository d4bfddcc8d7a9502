"""Where models lie on this machine, which of them are there, and whether they are what they should be.

Owns paths, presence and digests. Refuses the network (see `fetch`) and any change to the disk.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal

import platformdirs

from inference.models import gguf, registry
from inference.models.registry import MODELS, Model
from inference.types import EngineError

MODELS_DIR_VARIABLE = "MIDFILL_MODELS_DIR"

_READ_BYTES = 1 << 22


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a long task is. n_bytes of n_total_bytes; `note` is a short text for people, such as "part 2 of 6"."""

    phase: Literal["checking", "downloading"]
    n_bytes: int
    n_total_bytes: int
    note: str = ""


OnProgress = Callable[[Progress], None]


def unheard(_: Progress) -> None:
    """Nobody wants to know."""


class State(StrEnum):
    PRESENT = "on disk"  # of the right size; only `verify` looks at every byte
    PARTIAL = "partly pulled"
    WRONG_SIZE = "wrong size"
    ABSENT = "not on disk"


@dataclass(frozen=True, slots=True)
class Entry:
    """A known model and its place here. n_bytes: what is on disk of it, the part file included."""

    model: Model
    path: Path
    state: State
    n_bytes: int


def models_dir(setting: str = "") -> Path:
    """The directory of models: the setting, or else the variable MIDFILL_MODELS_DIR, or else the user's data directory.

    It need not exist.
    """
    chosen = setting or os.environ.get(MODELS_DIR_VARIABLE, "")
    if chosen:
        return absolute(chosen)
    return Path(platformdirs.user_data_dir("midfill", appauthor=False)) / "models"


def absolute(path: str) -> Path:
    """`path` with ~ replaced and made absolute, links not followed."""
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError:  # no home directory is known
        return Path(path).absolute()


def path_of(model: Model, directory: Path) -> Path:
    """Where the model lies once it is pulled."""
    return directory / model.file_name


def part_of(model: Model, directory: Path) -> Path:
    """Where the model grows while it is being pulled."""
    return directory / (model.file_name + ".part")


def entry(model: Model, directory: Path) -> Entry:
    """What is on disk of a model. Never fails: what cannot be looked at is not there."""
    path = path_of(model, directory)
    n_bytes = _file_bytes(path)
    if n_bytes == model.bytes:
        return Entry(model, path, State.PRESENT, n_bytes)
    n_part = _file_bytes(part_of(model, directory))
    if n_part:
        return Entry(model, path, State.PARTIAL, n_part)
    return Entry(model, path, State.WRONG_SIZE if n_bytes else State.ABSENT, n_bytes or 0)


def entries(directory: Path) -> tuple[Entry, ...]:
    """Every known model, on disk or not."""
    return tuple(entry(model, directory) for model in MODELS)


def installed(directory: Path) -> tuple[Entry, ...]:
    """The known models that are on disk."""
    return tuple(each for each in entries(directory) if each.state is State.PRESENT)


def resolve(id_or_path: str, directory: Path) -> Path:
    """The file of a known model or of any local GGUF given by its path. What is in the file is for `gguf.check` to say.

    An id wins over a file of that name in the working directory. EngineError: a known model that is not on disk; an
    unknown name; a path that leads to no file.
    """
    name = id_or_path.strip()
    if not name:
        raise EngineError(f"No model is named; choose one of {', '.join(model.id for model in MODELS)}, or give a path.")
    model = registry.known(name)
    if model is not None:
        return _require(model, directory)
    if not _looks_like_path(name):
        registry.find(name)
    path = absolute(name)
    gguf.require_file(path)
    return path


def verify(model: Model, directory: Path, on_progress: OnProgress = unheard) -> Path:
    """Reads the whole file and compares its digest. EngineError: missing, of another size, or other bytes."""
    path = _require(model, directory)
    found = digest(path, model.bytes, on_progress)
    if found != model.sha256:
        raise EngineError(
            f"{path} is not the published file: its SHA-256 is {found}, not {model.sha256}; "
            f"run `midfill models pull {model.id}` to replace it."
        )
    return path


def digest(path: Path, n_bytes: int, on_progress: OnProgress = unheard) -> str:
    """SHA-256 of a file of n_bytes, as hexadecimal text. EngineError: it cannot be read."""
    sha256 = hashlib.sha256()
    done = 0
    try:
        with open(path, "rb") as file:
            while block := file.read(_READ_BYTES):
                sha256.update(block)
                done += len(block)
                on_progress(Progress("checking", done, n_bytes))
    except OSError as error:
        raise EngineError(f"{path} cannot be read ({error.strerror or error}); check its permissions.") from None
    return sha256.hexdigest()


def _require(model: Model, directory: Path) -> Path:
    """The model's path, if a file of the right size is there."""
    here = entry(model, directory)
    if here.state is State.PRESENT:
        return here.path
    pull = f"`midfill models pull {model.id}`"
    if here.state is State.PARTIAL:
        raise EngineError(f"{model.id} is only partly pulled ({here.n_bytes:,} of {model.bytes:,} bytes); {pull} goes on.")
    if here.state is State.WRONG_SIZE:
        raise EngineError(f"{here.path} has {here.n_bytes:,} bytes, {model.id} has {model.bytes:,}; run {pull} to replace it.")
    raise EngineError(f"{model.id} is not on disk (looked in {directory}); run {pull}, about {_megabytes(model.bytes)}.")


def _looks_like_path(name: str) -> bool:
    return "/" in name or "\\" in name or name[0] in "~." or name.lower().endswith(".gguf") or os.path.lexists(name)


def _file_bytes(path: Path) -> int | None:
    """Size of a regular file; None if there is none that can be seen."""
    try:
        return path.stat().st_size if path.is_file() else None
    except (OSError, ValueError):
        return None


def _megabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.0f} MB"
