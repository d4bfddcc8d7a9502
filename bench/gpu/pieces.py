"""Files in pieces: cut so that each can travel, joined again and compared with their digests.

Owns the manifest. Refuses to join what is incomplete or changed.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any, BinaryIO

from bench.errors import BenchError

MOST_BYTES = 64 << 20
MANIFEST = "pieces.json"
_BLOCK = 1 << 20


def cut(files: list[Path], folder: Path, most_bytes: int = MOST_BYTES) -> list[Path]:
    """Write all files as pieces of at most that size into the folder, with a manifest; the pieces in order."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces: list[Path] = []
    manifest: dict[str, dict[str, object]] = {}
    for file in files:
        digest, names = hashlib.sha256(), list[str]()
        with file.open("rb") as source:
            while True:
                name = f"{file.name}.{len(names):03}"
                n_bytes = _copy(source, folder / name, most_bytes, digest)
                if not n_bytes and names:
                    (folder / name).unlink()
                    break
                names.append(name)
                pieces.append(folder / name)
                if n_bytes < most_bytes:
                    break
        manifest[file.name] = {"pieces": names, "sha256": digest.hexdigest()}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return pieces


def _copy(source: BinaryIO, target: Path, most_bytes: int, digest: Any) -> int:
    n_bytes = 0
    with target.open("wb") as out:
        while n_bytes < most_bytes:
            block = source.read(min(_BLOCK, most_bytes - n_bytes))
            if not block:
                break
            out.write(block)
            digest.update(block)
            n_bytes += len(block)
    return n_bytes


def join(folder: Path, target: Path) -> list[Path]:
    """The files whole again. BenchError: a piece is missing, or something changed on the way."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BenchError(f"{folder / MANIFEST} can't be read ({error}); run `python -m bench.gpu.prepare` again") from None
    target.mkdir(parents=True, exist_ok=True)
    joined = []
    for name, entry in manifest.items():
        whole = target / name
        with whole.open("wb") as out:
            for piece in entry["pieces"]:
                if not (folder / piece).is_file():
                    raise BenchError(f"{folder / piece} is missing; bring all pieces")
                with (folder / piece).open("rb") as source:
                    shutil.copyfileobj(source, out, _BLOCK)
        if hashlib.sha256(whole.read_bytes()).hexdigest() != entry["sha256"]:
            raise BenchError(f"{name} has changed on the way; bring its pieces again")
        joined.append(whole)
    return joined
