"""The file a model grows in, FILE.part, and its record, FILE.part.json.

Owns both. The record lists the pieces that are joined, each with the place where it ends and the digest of everything up to
there; it is written after the bytes it speaks of are safely on disk. So whatever ends a pull, the next one finds the longest
beginning that is beyond doubt and cuts off the rest. Refuses to know where pieces come from. One process at a time: the
caller holds the lock.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from inference.models import store
from inference.models.durable import write_text
from inference.models.model import Model, WheelPiece
from inference.models.source import Arrived
from inference.models.store import OnProgress, Progress

_FORMAT = 1
_READ_BYTES = 1 << 22
_MOST_RECORD_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Joined:
    """A piece in the part. end: bytes up to its end. sha256: of those bytes."""

    requirement: str
    end: int
    sha256: str


class Part:
    """The part of one model in one directory. After `resume`, `n_joined` pieces and `n_bytes` bytes of it are right."""

    def __init__(self, model: Model, directory: Path) -> None:
        self._model = model
        self._path = store.part_of(model, directory)
        self._record = directory / (self._path.name + ".json")
        self._joined: list[Joined] = []
        self._sha256 = hashlib.sha256()

    @property
    def n_joined(self) -> int:
        return len(self._joined)

    @property
    def n_bytes(self) -> int:
        return self._joined[-1].end if self._joined else 0

    def resume(self, on_progress: OnProgress) -> None:
        """Take over what an earlier pull left, as far as its bytes still have the recorded digests; cut off the rest."""
        recorded = self._read_record()
        self._joined, self._sha256 = [], hashlib.sha256()
        if recorded and self._path.exists():
            with open(self._path, "rb") as file:
                for joined in recorded:
                    sha256 = self._sha256.copy()
                    for block in _blocks(file, joined.end - self.n_bytes):
                        sha256.update(block)
                        on_progress(Progress("checking", file.tell(), recorded[-1].end))
                    if sha256.hexdigest() != joined.sha256:
                        break
                    self._sha256 = sha256
                    self._joined.append(joined)
        with open(self._path, "ab") as file:
            file.truncate(self.n_bytes)

    def append(self, piece: WheelPiece, blocks: Iterable[bytes]) -> None:
        """Join one piece. If anything goes wrong, the part is as it was before, and the error goes on its way."""
        sha256, end = self._sha256.copy(), self.n_bytes
        try:
            with open(self._path, "r+b") as file:
                file.seek(end)
                for block in blocks:
                    file.write(block)
                    sha256.update(block)
                    end += len(block)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            with suppress(OSError):  # what can't be cut off now is cut off by the next `resume`
                os.truncate(self._path, self.n_bytes)
            raise
        joined = Joined(piece.requirement, end, sha256.hexdigest())
        self._write_record([*self._joined, joined])
        self._joined.append(joined)
        self._sha256 = sha256

    def arrived(self) -> Arrived:
        """The whole file, once all pieces are joined."""
        return Arrived(self._path, self._sha256.hexdigest())

    def _read_record(self) -> list[Joined]:
        """What the record says, as far as it makes sense for this model; nothing if in doubt."""
        try:
            with open(self._record, encoding="utf-8") as file:
                record: Any = json.loads(file.read(_MOST_RECORD_BYTES))
            if record["format"] != _FORMAT or record["sha256"] != self._model.sha256:
                return []
            joined = [Joined(str(each["requirement"]), int(each["end"]), str(each["sha256"])) for each in record["joined"]]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return []
        good: list[Joined] = []
        for piece, each in zip(self._model.pieces, joined, strict=False):
            end = (good[-1].end if good else 0) + piece.n_bytes
            if each.requirement != piece.requirement or each.end != end:
                break
            good.append(each)
        return good

    def _write_record(self, joined: list[Joined]) -> None:
        record = {"format": _FORMAT, "sha256": self._model.sha256, "joined": [asdict(each) for each in joined]}
        write_text(self._record, json.dumps(record, indent=1))


def _blocks(file: Any, n_bytes: int) -> Iterator[bytes]:
    """The next n_bytes of a file, fewer if it ends."""
    while n_bytes > 0 and (block := file.read(min(n_bytes, _READ_BYTES))):
        n_bytes -= len(block)
        yield block
