"""Findings about directories: may midfill read and write them, are they private, is there room.

Owns these checks; writability is tried, not guessed, where the directory exists. Refuses to create directories.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from inference.prompt_cache.place import PlaceError, check_private, directory_in
from lsp_server.doctor.findings import Finding, ok, size, warning

# free bytes on the disk of a directory that exists
FreeBytes = Callable[[Path], int]

_PROBE_BYTES = 64 * 1024  # more than a file system keeps for names alone
_LITTLE = 32_000_000  # a cache wants some megabytes


def free_bytes(directory: Path) -> int:
    return shutil.disk_usage(directory).free


def existing(path: Path) -> Path:
    """The path itself, or the nearest directory above it that exists."""
    for each in (path, *path.parents):
        if os.path.lexists(each):
            return each
    return path


def why_not_writable(directory: Path) -> str:
    """"" if files can be written below it (or it could be created), else the reason in a few words."""
    top = existing(directory)
    if not top.is_dir():
        return f"{top} is not a directory"
    if top != directory:
        return "" if os.access(top, os.W_OK | os.X_OK) else f"{top} is not writable"
    try:
        # Asking the system isn't enough: it answers yes to root on a full or broken disk.
        with tempfile.TemporaryFile(dir=directory) as file:  # buffered: it goes on after a write that was cut short
            file.write(bytes(_PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return ""


def cache_directory(directory: Path, free: FreeBytes = free_bytes) -> Iterator[Finding]:
    """Measurements (and later the cache on disk) live here. midfill works without it."""
    without = "measurements can't be kept, so every start takes seconds longer"
    if reason := why_not_writable(directory):
        do = "make room on its disk" if "space" in reason or "quota" in reason else f"make {directory} writable for you"
        yield warning("cache", f"{directory} can't be written ({reason}): {without}", do)
        return
    if not directory.exists():
        yield ok("cache", f"{directory} (will be created)")
    elif _belongs_to_another(directory):
        yield warning("cache", f"{directory} belongs to another user", "remove it, or give it back with chown")
    elif os.name != "nt" and stat.S_IMODE(directory.stat().st_mode) & 0o077:
        mode = stat.S_IMODE(directory.stat().st_mode)
        yield warning("cache", f"others may read or write {directory} (mode {mode:04o})", f"`chmod 700 {directory}`")
    else:
        yield ok("cache", f"{directory}, private and writable")
    n_free = _free(directory, free)
    if n_free is not None and n_free < _LITTLE:
        yield warning("space", f"only {size(n_free)} are free for {directory}", "make room on its disk")


def saved_prompts(cache_dir: Path, *, is_on: bool) -> Iterator[Finding]:
    """Is the directory of saved prompts one that the engine uses? Nothing is told while there is none."""
    directory = directory_in(cache_dir)
    if not is_on or not os.path.lexists(directory):
        return
    try:
        check_private(directory)
    except PlaceError as error:
        what, _, do = str(error).rpartition("; ")
        yield warning("saved prompts", what, do.rstrip("."))
    except OSError as error:
        yield warning("saved prompts", f"{directory} can't be read ({(error.strerror or 'error').lower()})", "make it yours")
    else:
        if reason := why_not_writable(directory):
            text = f"{directory} can't be written ({reason}): every start computes its prompts anew"
            yield warning("saved prompts", text, f"make {directory} writable for you, or set prompt_cache = false")
        else:
            yield ok("saved prompts", f"{directory}, yours alone")


def models_directory(directory: Path, needed: int, free: FreeBytes = free_bytes) -> Iterator[Finding]:
    """needed: bytes that a pull of the model in the settings would still have to write; 0 = it is here.

    A model that is missing is a fault of its own (`lsp_server.doctor.model`); here is told whether it could be got.
    """
    top = existing(directory)
    if os.path.isdir(directory) and not os.access(directory, os.R_OK | os.X_OK):
        yield warning("models", f"{directory} can't be read", f"make {directory} readable for you, or set models_dir")
        return
    if reason := why_not_writable(directory):
        what = "the model can't be pulled" if needed else "no further model can be pulled"
        yield warning("models", f"{directory} can't be written ({reason}): {what}", "make it writable, or set models_dir")
        return
    n_free = _free(top, free)
    if needed and n_free is not None and n_free < needed:
        yield warning(
            "space",
            f"pulling the model needs {size(needed)} in {directory}, {size(n_free)} are free",
            "make room on its disk, or set models_dir to a directory on another",
        )
        return
    room = f", {size(n_free)} free" if n_free is not None else ""
    yield ok("models", f"{directory}{'' if directory.exists() else ' (will be created)'}{room}")


def _belongs_to_another(directory: Path) -> bool:
    return hasattr(os, "getuid") and directory.stat().st_uid != os.getuid()


def _free(directory: Path, free: FreeBytes) -> int | None:
    try:
        return free(existing(directory))
    except OSError:
        return None
