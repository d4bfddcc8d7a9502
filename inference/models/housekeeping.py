"""Adding files by path, removing models, and sweeping up what pulls left.

Owns every deletion. Only what midfill itself wrote is deleted: files that were added or that other programs keep stay where
they are, and only the note of them goes.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from inference.models import elsewhere, gguf, leftovers, lock, records, registry, store
from inference.models.model import Model
from inference.models.records import Record
from inference.models.store import OnProgress, unheard
from inference.types import EngineError


@dataclass(frozen=True, slots=True)
class Swept:
    """What was deleted, or would be. kept: what could not be, each with the reason."""

    paths: tuple[Path, ...]
    n_bytes: int
    kept: tuple[str, ...] = ()


def add(file: str, directory: Path, *, model_id: str = "", on_progress: OnProgress = unheard) -> Record:
    """Note a GGUF file under an id: the one given, or one made from its name. The file stays where it is.

    EngineError: it is no whole model, the id cannot be one or is taken, or nothing can be noted.
    """
    path = store.absolute(file)
    if model_id:
        _require_id(model_id)  # before a large file is read
    header = gguf.check(path)
    known = next((model for model in registry.MODELS if model.is_size_exact and model.bytes == header.n_bytes), None)
    sha256 = None
    if known is not None:  # worth reading in full: it may be that one
        sha256 = store.digest(path, header.n_bytes, on_progress)
        known = known if sha256 == known.sha256 else None
    chosen = model_id or (known.id if known else _id_of(path))
    _require_free_id(chosen, path, known, directory)
    record = Record(chosen, path, header.n_bytes, sha256, "added")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        records.save(record, directory)
    except OSError as error:
        raise _unusable(error, directory) from None
    return record


def _id_of(path: Path) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", path.stem.lower()).strip("-._")[:100]


def _require_id(model_id: str) -> None:
    if not records.is_id(model_id):
        raise EngineError(f"{model_id!r} cannot be an id; give one of small letters, digits, dots and hyphens with --id.")


def _require_free_id(model_id: str, path: Path, known: Model | None, directory: Path) -> None:
    _require_id(model_id)
    model = registry.known(model_id)
    if model is not None and (known is None or known.id != model_id):
        raise EngineError(f"{model_id} is a known model, and {path} is not its file; give the file another id with --id.")
    if model is not None and store.file_bytes(store.path_of(model, directory)) is not None:
        raise EngineError(f"{model_id} is on disk already ({store.path_of(model, directory)}).")
    taken = records.load(model_id, directory)
    if taken is not None and taken.path != path and store.is_in_place(taken):
        raise EngineError(f"{model_id} stands for {taken.path} already; give this file another id with --id.")


def remove(model_id: str, directory: Path) -> Swept:
    """Forget a model: its file and parts are deleted if midfill pulled it, only the note of it if the file is another's.

    EngineError: it is not there, is being pulled, or cannot be deleted.
    """
    model, record = registry.known(model_id), records.load(model_id, directory)
    if model is None and record is None:
        if model_id.startswith(elsewhere.PREFIXES):
            raise EngineError(f"{model_id} belongs to another program; remove it with that.")
        raise registry.unknown(model_id, tuple(each.id for each in store.added(directory)))
    own: tuple[Path, ...] = ()
    if model is not None:
        target = store.path_of(model, directory)
        own = (*((target,) if target.exists() or target.is_symlink() else ()), *leftovers.parts(model, directory))
    if not own and record is None:
        raise EngineError(f"{model_id} is not on disk (looked in {directory}).")
    kept = (f"{record.path} stays: it is not midfill's ({record.origin})",) if record and record.path not in own else ()
    try:
        if model is None:
            records.discard(model_id, directory)
            return Swept((), 0, kept)
        with lock.hold(leftovers.lock_of(model, directory)):
            swept = _delete((*own, *leftovers.works(model, directory)), is_dry=False)
            records.discard(model_id, directory)
    except lock.Held:
        raise EngineError(f"{model_id} is being pulled right now; end that first.") from None
    except OSError as error:
        raise _unusable(error, directory) from None
    return Swept(swept.paths, swept.n_bytes, (*kept, *swept.kept))


def sweep(directory: Path, *, is_dry: bool = False) -> Swept:
    """Delete what no pull that runs now needs: parts, work directories, locks, and notes of files that are gone.

    is_dry: only tell what would be deleted.
    """
    swept = [_sweep_model(model, directory, is_dry) for model in registry.MODELS if directory.is_dir()]
    noted = records.load_all(directory)
    gone = tuple(records.file_of(each.id, directory) for each in noted if store.file_bytes(each.path) is None)
    swept.append(_delete(gone, is_dry))
    return Swept(
        tuple(path for each in swept for path in each.paths),
        sum(each.n_bytes for each in swept),
        tuple(reason for each in swept for reason in each.kept),
    )


def _sweep_model(model: Model, directory: Path, is_dry: bool) -> Swept:
    lock_file = leftovers.lock_of(model, directory)
    found = (*leftovers.parts(model, directory), *leftovers.works(model, directory))
    had_lock = lock_file.exists()
    if not found and not had_lock:
        return Swept((), 0)
    if is_dry and not had_lock:  # nobody pulls, and to find that out for sure would leave a lock behind
        return _delete(found, is_dry)
    try:
        with lock.hold(lock_file):
            # The lock itself last: whoever opened it meanwhile finds it gone from its place and does not think that it holds.
            # Windows does not delete what is open.
            return _delete(found if sys.platform == "win32" else (*found, lock_file), is_dry)
    except lock.Held:
        return Swept((), 0, (f"{model.id} is being pulled right now: what it needs stays",))
    except OSError as error:
        return Swept((), 0, (f"{lock_file}: {(error.strerror or str(error)).lower()}",))


def _delete(paths: tuple[Path, ...], is_dry: bool) -> Swept:
    done: list[Path] = []
    kept: list[str] = []
    n_bytes = 0
    for path in paths:
        size = 0 if path.is_symlink() or path.suffix == ".lock" else store.tree_bytes(path)
        try:
            if not is_dry:
                leftovers.remove(path)
        except OSError as error:
            kept.append(f"{path}: {(error.strerror or str(error)).lower()}")
            continue
        if path.suffix != ".lock":  # an empty file, of no interest to anybody
            done.append(path)
        n_bytes += size
    return Swept(tuple(done), n_bytes, tuple(kept))


def _unusable(error: OSError, directory: Path) -> EngineError:
    where = error.filename or directory
    return EngineError(f"{where} cannot be used ({(error.strerror or str(error)).lower()}); check its permissions.")
