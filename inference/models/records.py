"""What is noted of a model's file: where it lies if that is not its own place, and the digest of what came.

Owns the records, ID.json in the directory of models, one per id. A record that makes no sense counts as none. Refuses to touch
the files that it speaks of.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference.models.durable import write_text

_FORMAT = 1
_MARK = "midfill-model"
_MOST_BYTES = 1 << 16
_MOST_RECORDS = 10_000
_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class Record:
    """A file that stands for an id. n_bytes: its size when it was noted. sha256: of all its bytes; None = never read in full.

    origin: who put it there, for people: "pulled", "added", "Ollama", …
    """

    id: str
    path: Path
    n_bytes: int
    sha256: str | None
    origin: str


def is_id(text: str) -> bool:
    """Whether a text can be an id: small letters, digits, `.`, `_` and `-`, at most 100."""
    return _ID.fullmatch(text) is not None


def file_of(model_id: str, directory: Path) -> Path:
    return directory / f"{model_id}.json"


def load(model_id: str, directory: Path) -> Record | None:
    """The record of an id; None if there is none, or none that makes sense. Never fails."""
    if not is_id(model_id):
        return None
    try:
        with open(file_of(model_id, directory), encoding="utf-8") as file:
            kept: Any = json.loads(file.read(_MOST_BYTES))
        if kept["kind"] != _MARK or kept["format"] != _FORMAT or kept["id"] != model_id:
            return None
        sha256 = kept["sha256"]
        if sha256 is not None and not re.fullmatch(r"[0-9a-f]{64}", sha256):
            return None
        n_bytes, path = kept["bytes"], Path(kept["path"])
        if not isinstance(n_bytes, int) or not path.is_absolute():
            return None
        return Record(model_id, path, n_bytes, sha256, str(kept["origin"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def load_all(directory: Path) -> tuple[Record, ...]:
    """Every record, by id."""
    try:
        names = sorted(entry.name for entry in os.scandir(directory) if entry.name.endswith(".json"))
    except OSError:
        return ()
    found = (load(name.removesuffix(".json"), directory) for name in names[:_MOST_RECORDS])
    return tuple(record for record in found if record is not None)


def save(record: Record, directory: Path) -> None:
    """Note it, in one step. OSError: the directory cannot be written."""
    kept = {
        "kind": _MARK,
        "format": _FORMAT,
        "id": record.id,
        "path": str(record.path),
        "bytes": record.n_bytes,
        "sha256": record.sha256,
        "origin": record.origin,
    }
    write_text(file_of(record.id, directory), json.dumps(kept, indent=1))


def discard(model_id: str, directory: Path) -> None:
    """Forget it; the file that it speaks of stays."""
    file_of(model_id, directory).unlink(missing_ok=True)
