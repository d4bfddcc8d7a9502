"""The source `mirror`: a directory or an address, named in the settings, that holds model files by their names.

Owns the forms that such a name may have, and where below it a file is looked for: by midfill's name and by the publisher's,
in the top and in a directory named by the model's id.
"""

from __future__ import annotations

import hashlib
import os
import sys
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from inference.models import store
from inference.models.download import Download, NotThere, Wanted, shown
from inference.models.model import Model
from inference.models.source import Arrived, Free, free_bytes, require_space
from inference.models.store import OnProgress, Progress
from inference.types import EngineError

_READ_BYTES = 1 << 22


class Mirror:
    """Fits `source.Source`. place: a directory, or an address that begins with http://, https:// or file://."""

    name = "mirror"

    def __init__(self, place: str, free: Free = free_bytes, pause: Callable[[float], None] | None = None) -> None:
        self._place = place.strip()
        self._free = free
        self._pause = pause

    def fetch(self, model: Model, directory: Path, progress: OnProgress) -> Arrived:
        try:
            scheme = urllib.parse.urlsplit(self._place).scheme.lower() if "://" in self._place else ""
        except ValueError:
            raise EngineError("`models_mirror` is no address and no directory") from None
        if scheme in ("http", "https"):
            return self._download(model, directory, progress)
        if scheme not in ("", "file"):
            raise EngineError(f"{shown(self._place)} is neither a directory nor an address of http, https or file")
        return self._copy(model, directory, progress, _local(self._place) if scheme else store.absolute(self._place))

    def _download(self, model: Model, directory: Path, progress: OnProgress) -> Arrived:
        part = store.download_of(model, directory)
        download = Download(part, progress, self._pause) if self._pause else Download(part, progress)
        require_space(model, directory, model.bytes - (store.file_bytes(part) or 0), self._free)
        wanted = model.bytes if model.is_size_exact else None
        refusals: list[NotThere] = []
        for name in _names(model):
            address = _below(self._place, name)
            try:
                return Arrived(part, download.fetch(Wanted(address, wanted, model.bytes)))
            except NotThere as error:
                refusals += [error] if error.is_refused else []
        if refusals:
            raise refusals[0]
        raise EngineError(f"{shown(self._place)} has no {model.file_name}")

    def _copy(self, model: Model, directory: Path, progress: OnProgress, top: Path) -> Arrived:
        if not top.is_dir():
            raise EngineError(f"there is no directory {top}")
        source = next((top / name for name in _names(model) if (top / name).is_file()), None)
        if source is None:
            raise EngineError(f"{top} has no {model.file_name}")
        part = store.download_of(model, directory)
        try:
            n_bytes = source.stat().st_size
            file = open(source, "rb")  # noqa: SIM115 - closed below; errors of reading and of writing must be told apart
        except OSError as error:
            raise _unreadable(source, error) from None
        with file:
            if model.is_size_exact and n_bytes != model.bytes:
                raise EngineError(f"{source} has {n_bytes:,} bytes, not the {model.bytes:,} of the published file")
            if part.exists() and os.path.samefile(part, source):
                raise EngineError(f"{source} is where the copy would be written")
            require_space(model, directory, n_bytes - (store.file_bytes(part) or 0), self._free)
            return Arrived(part, _copied(file, source, part, n_bytes, progress))


def _copied(file: BinaryIO, source: Path, part: Path, n_bytes: int, progress: OnProgress) -> str:
    """Digest of what was written."""
    sha256 = hashlib.sha256()
    done = 0
    with open(part, "wb") as target:
        while block := _block(file, source):
            target.write(block)
            sha256.update(block)
            done += len(block)
            progress(Progress("downloading", done, n_bytes))
        target.flush()
        os.fsync(target.fileno())
    return sha256.hexdigest()


def _block(file: BinaryIO, source: Path) -> bytes:
    try:
        return file.read(_READ_BYTES)
    except OSError as error:
        raise _unreadable(source, error) from None


def _unreadable(source: Path, error: OSError) -> EngineError:
    return EngineError(f"{source} cannot be read ({(error.strerror or str(error)).lower()})")


def _names(model: Model) -> Iterator[str]:
    """Where the file may be below the mirror, most likely first."""
    for name in dict.fromkeys((model.file_name, model.hub_file)):
        if name:
            yield name
            yield f"{model.id}/{name}"


def _below(address: str, name: str) -> str:
    parts = urllib.parse.urlsplit(address)
    return parts._replace(path=parts.path.rstrip("/") + "/" + urllib.parse.quote(name)).geturl()


def _local(address: str) -> Path:
    """The directory of a file:// address. EngineError: it is on another machine."""
    parts = urllib.parse.urlsplit(address)
    if sys.platform != "win32" and parts.netloc not in ("", "localhost"):
        raise EngineError(f"{address} names another machine ({parts.netloc}); write file:///PATH")
    host = f"//{parts.netloc}" if parts.netloc not in ("", "localhost") else ""
    return Path(urllib.request.url2pathname(host + parts.path))
