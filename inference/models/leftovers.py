"""What pulls leave beside the models: part files, their records, work directories, locks.

Owns their names and their removal. Only names that a pull of a known model makes count: other files that end alike are others'.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from inference.models import store
from inference.models.model import Model

WORK = ".work-"


def parts(model: Model, directory: Path) -> tuple[Path, ...]:
    """Files and directories that a pull goes on from, as far as they exist."""
    growing = (store.part_of(model, directory), store.download_of(model, directory))
    files = [path.with_name(path.name + end) for path in growing for end in ("", ".json", ".json.new")]
    found = [path for path in (*files, store.hub_of(model, directory)) if path.exists()]
    return tuple(found)


def works(model: Model, directory: Path) -> tuple[Path, ...]:
    """Work directories of pulls that were killed. The caller holds the lock: then none of them is in use."""
    return tuple(sorted(directory.glob(model.file_name + WORK + "*")))


def lock_of(model: Model, directory: Path) -> Path:
    return directory / (model.file_name + ".lock")


def remove(path: Path) -> None:
    """Delete a file or a directory of ours; a link is deleted, not what it leads to. OSError: it cannot be deleted."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
