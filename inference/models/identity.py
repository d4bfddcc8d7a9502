"""Which model a file is: its digest, and its vocabulary as a file of its own.

Owns the cut of a GGUF that keeps all metadata and no tensor, and the digests of both. Refuses files that `gguf` refuses.

The model's digest is of the header and of samples of the weights, because all bytes of a large model take a minute to read: it
tells files apart that were made differently, and is no proof against somebody who forges one. The vocabulary's is of all bytes
of the cut, so that what another machine has fetched can be checked in full.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from pathlib import Path

from inference.models.gguf import read_header
from inference.models.gguf_cursor import SCALARS, Cursor, Cut, Damaged
from inference.types import EngineError

MAX_VOCABULARY = 256 << 20  # bytes of a cut; those of large models have some 20 MB

_STRING, _ARRAY = 8, 9
_ALIGNMENT = 32
_N_SAMPLES, _SAMPLE = 64, 1 << 14
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")
# The weights lie in several files: a cut stands for itself, and must not ask for them.
_DROPPED = b"split."


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model's file and what it is known by. Digests: hexadecimal SHA-256."""

    path: Path
    digest: str
    vocab_digest: str


def identify(path: Path) -> ModelFile:
    """Reads the header and samples: some 0.1 s. EngineError: the file can't be read or is no GGUF."""
    cut = cut_vocabulary(path)
    return ModelFile(path, _digest(path, cut), vocabulary_digest(cut))


def vocabulary_digest(cut: bytes) -> str:
    return hashlib.sha256(cut).hexdigest()


def cut_vocabulary(path: Path) -> bytes:
    """A GGUF with the metadata of the one at `path` and no tensor; the same bytes for the same metadata. EngineError."""
    header = read_header(path)  # all lengths are in order behind this
    try:
        with open(path, "rb") as file:
            pairs = _pairs(Cursor(file, header.n_bytes))
            ranges = [(start, end) for name, start, end in pairs if not name.startswith(_DROPPED)]
            if sum(end - start for start, end in ranges) > MAX_VOCABULARY:
                raise EngineError(f"{path} has a header of more than {MAX_VOCABULARY >> 20} MB; get a usual file.")
            parts = [_read(file.fileno(), start, end) for start, end in _joined(ranges)]
    except (Cut, Damaged, OSError):
        raise EngineError(f"{path} can't be read, or changed while it was read; try again.") from None
    begin = b"GGUF" + _U32.pack(header.version) + _U64.pack(0) + _U64.pack(len(ranges))
    whole = b"".join([begin, *parts])
    return whole + bytes(-len(whole) % _ALIGNMENT)


def _pairs(cursor: Cursor) -> list[tuple[bytes, int, int]]:
    """Name, beginning and end of each value in the file, its name and type included."""
    cursor.skip(16)  # magic, version, number of tensors
    found = []
    for _ in range(cursor.u64()):
        start = cursor.position
        name = cursor.take(cursor.u64())
        _skip(cursor, cursor.u32())
        found.append((name, start, cursor.position))
    return found


def _skip(cursor: Cursor, kind: int) -> None:
    if kind == _STRING:
        cursor.skip(cursor.u64())
    elif kind != _ARRAY:
        cursor.skip(SCALARS[kind].size)
    else:
        of, count = cursor.u32(), cursor.u64()
        if of == _STRING:
            cursor.skip_strings(count)
        else:
            cursor.skip(count * SCALARS[of].size)


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Neighbours as one."""
    joined: list[tuple[int, int]] = []
    for start, end in ranges:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def _read(descriptor: int, start: int, end: int) -> bytes:
    data = b""
    with open(descriptor, "rb", closefd=False, buffering=0) as file:
        file.seek(start)
        while len(data) < end - start:
            more = file.read(end - start - len(data))
            if not more:
                raise Cut
            data += more
    return data


def _digest(path: Path, cut: bytes) -> str:
    """Of the size, the metadata, and samples spread evenly over the file, its end among them."""
    sha256 = hashlib.sha256(cut)
    try:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            sha256.update(_U64.pack(size))
            for i in range(_N_SAMPLES):
                file.seek(max(0, size - _SAMPLE) * i // (_N_SAMPLES - 1))
                sha256.update(file.read(_SAMPLE))
    except OSError as error:
        raise EngineError(f"{path} cannot be read ({(error.strerror or 'error').lower()}); check its permissions.") from None
    return sha256.hexdigest()
