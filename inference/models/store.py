"""Where models lie on this machine, which of them are there, and whether they are what they should be.

Owns paths, presence and digests. Refuses the network (see `fetch`) and any change to the disk (see `housekeeping`).
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

from inference.models import elsewhere, gguf, records, registry
from inference.models.model import Model
from inference.models.records import Record
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
    MOVED = "moved or changed"  # noted at a place where that file no longer is
    ABSENT = "not on disk"


@dataclass(frozen=True, slots=True)
class Entry:
    """A known model and its place here. n_bytes: what is on disk of it, part files included.

    owner: whose file it is, if it lies elsewhere; "" = midfill's.
    """

    model: Model
    path: Path
    state: State
    n_bytes: int
    owner: str = ""


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
    """Where the model grows while it is being joined from pieces."""
    return directory / (model.file_name + ".part")


def download_of(model: Model, directory: Path) -> Path:
    """Where the model grows while it comes in one piece."""
    return directory / (model.file_name + ".download")


def hub_of(model: Model, directory: Path) -> Path:
    """The directory that the model grows in while it comes from the model hub."""
    return directory / (model.file_name + ".hub")


def entry(model: Model, directory: Path) -> Entry:
    """What is on disk of a model. Never fails: what cannot be looked at is not there."""
    path = path_of(model, directory)
    record = records.load(model.id, directory)
    is_elsewhere = record is not None and record.path != path
    n_bytes = file_bytes(path)
    if n_bytes is not None and (n_bytes == record.n_bytes if record and not is_elsewhere else model.could_be(n_bytes)):
        return Entry(model, path, State.PRESENT, n_bytes)
    if record is not None and is_elsewhere and is_in_place(record):
        return Entry(model, record.path, State.PRESENT, record.n_bytes, record.origin)
    n_part = sum(tree_bytes(part(model, directory)) for part in (part_of, download_of, hub_of))
    if n_part:
        return Entry(model, path, State.PARTIAL, n_part)
    if record is not None and is_elsewhere:
        return Entry(model, record.path, State.MOVED, file_bytes(record.path) or 0, record.origin)
    return Entry(model, path, State.WRONG_SIZE if n_bytes else State.ABSENT, n_bytes or 0)


def entries(directory: Path) -> tuple[Entry, ...]:
    """Every known model, on disk or not."""
    return tuple(entry(model, directory) for model in registry.MODELS)


def installed(directory: Path) -> tuple[Entry, ...]:
    """The known models that are on disk."""
    return tuple(each for each in entries(directory) if each.state is State.PRESENT)


def added(directory: Path) -> tuple[Record, ...]:
    """Files that were added under an id of their own, in place or not."""
    return tuple(record for record in records.load_all(directory) if registry.known(record.id) is None)


def is_in_place(record: Record) -> bool:
    """Whether a file of the noted size is still there."""
    return file_bytes(record.path) == record.n_bytes


def resolve(name: str, directory: Path) -> Path:
    """The file of a known model's id, of an added one's, of another program's model, or of a path.

    What is in the file is for `gguf.check` to say. An id wins over a file of that name in the working directory. EngineError: a
    model that is not on disk, or no longer where it was; an unknown name; a path that leads to no file.
    """
    name = name.strip()
    if not name:
        raise EngineError("No model is named; choose one of `midfill models list`, or give the path of a GGUF file.")
    model = registry.known(name)
    if model is not None:
        return _require(model, directory)
    record = records.load(name, directory)
    if record is not None:
        return require_record(record)
    if name.startswith(elsewhere.PREFIXES):
        found = elsewhere.named(name)
        if found is None:
            raise EngineError(f"There is no {name} on this machine; `midfill models list` shows what other programs have.")
        return found.path
    if not _looks_like_path(name):
        raise registry.unknown(name, tuple(each.id for each in added(directory)))
    path = absolute(name)
    gguf.require_file(path)
    return path


def verify(model: Model, directory: Path, on_progress: OnProgress = unheard) -> Path:
    """Reads the whole file and compares its digest: with the published one, or the one noted when it was pulled.

    EngineError: missing, of another size, other bytes, or no digest to compare with.
    """
    path = _require(model, directory)
    record = records.load(model.id, directory)
    wanted = model.sha256 or (record.sha256 if record else None)
    if wanted is None:
        raise EngineError(
            f"No digest of {model.id} is known, neither published nor noted; `midfill models pull {model.id}` notes it."
        )
    found = digest(path, model.bytes, on_progress)
    if found != wanted:
        what = "the published file" if model.sha256 else "the file that was pulled"
        raise EngineError(
            f"{path} is not {what}: its SHA-256 is {found}, not {wanted}; run `midfill models pull {model.id}` to replace it."
        )
    return path


def verify_added(record: Record, on_progress: OnProgress = unheard) -> Path:
    """The same for a file that was added; without a noted digest, that its header and its size are in order."""
    path = require_record(record)
    gguf.check(path)
    if record.sha256 is not None and digest(path, record.n_bytes, on_progress) != record.sha256:
        raise EngineError(f"{path} is no longer the file that was added as {record.id}; add it again if it may be another.")
    return path


def require_record(record: Record) -> Path:
    """The file of a record. EngineError: it is no longer there, or of another size."""
    if is_in_place(record):
        return record.path
    what = "is no longer there" if file_bytes(record.path) is None else "has changed since it was noted"
    again = f"`midfill models add PATH --id {record.id}`" if registry.known(record.id) is None else f"pull {record.id} again"
    raise EngineError(f"{record.id} stands for {record.path}, which {what}; tell the new place with {again}.")


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
    pull = f"`midfill models pull {model.id}`"
    if here.state is State.PRESENT:
        return here.path
    if here.state is State.PARTIAL:
        raise EngineError(f"{model.id} is only partly pulled ({here.n_bytes:,} of {model.bytes:,} bytes); {pull} goes on.")
    if here.state is State.WRONG_SIZE:
        raise EngineError(f"{here.path} has {here.n_bytes:,} bytes, {model.id} has {model.bytes:,}; run {pull} to replace it.")
    if here.state is State.MOVED:
        raise EngineError(f"{model.id} was found at {here.path} ({here.owner}), where it no longer is; run {pull} to get it.")
    raise EngineError(f"{model.id} is not on disk (looked in {directory}); run {pull}, about {_megabytes(model.bytes)}.")


def _looks_like_path(name: str) -> bool:
    return "/" in name or "\\" in name or name[0] in "~." or name.lower().endswith(".gguf") or os.path.lexists(name)


def file_bytes(path: Path) -> int | None:
    """Size of a regular file; None if there is none that can be seen."""
    try:
        return path.stat().st_size if path.is_file() else None
    except (OSError, ValueError):
        return None


def tree_bytes(path: Path) -> int:
    """Size of a file, or of all files below a directory, which may be changing; 0 for what cannot be seen."""
    if not path.is_dir():
        return file_bytes(path) or 0
    return sum(file_bytes(Path(folder, name)) or 0 for folder, _, names in os.walk(path) for name in names)


def _megabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.0f} MB"
