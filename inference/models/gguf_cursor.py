"""A forward-only reader of little-endian numbers and strings in a GGUF file.

Owns the place in the file and one block of it. Refuses meaning: what the numbers say is the business of `gguf`.
"""

from __future__ import annotations

import os
import struct
from typing import BinaryIO

# Number types of the format → how they are laid out.
SCALARS = {
    kind: struct.Struct("<" + code)
    for kind, code in {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}.items()
}
U32, U64 = SCALARS[4], SCALARS[10]

_BLOCK = 1 << 20  # bytes read at a time
_MOST_ENDS = 64

# Which file as it was, from where, how many strings → where they end. A header is read several times while a model is opened.
_ends: dict[tuple[int, int, int, int, int, int], int] = {}


class Cut(Exception):
    """The file ends where the header goes on."""


class Damaged(Exception):
    """The header says something that no writer of the format would."""


class Cursor:
    """Reads forward through a file of n_bytes, in blocks. Raises Cut instead of going beyond the end."""

    def __init__(self, file: BinaryIO, n_bytes: int) -> None:
        self._file = file
        self._n_bytes = n_bytes
        self._start = 0  # file offset of the block's first byte
        self._block = b""
        self._at = 0  # place in the block; beyond its end after a long jump

    @property
    def position(self) -> int:
        return self._start + self._at

    def require(self, n: int) -> None:
        """At least n bytes are left in the file."""
        if self.position + n > self._n_bytes:
            raise Cut

    def skip(self, n: int) -> None:
        self.require(n)
        self._at += n

    def take(self, n: int) -> bytes:
        self._fill(n)
        data = self._block[self._at : self._at + n]
        self._at += n
        return data

    def scalar(self, kind: struct.Struct) -> int | float:
        self._fill(kind.size)
        value: int | float = kind.unpack_from(self._block, self._at)[0]
        self._at += kind.size
        return value

    def u32(self) -> int:
        return int(self.scalar(U32))

    def u64(self) -> int:
        return int(self.scalar(U64))

    def skip_strings(self, count: int) -> None:
        """Skip `count` strings. Vocabularies have some 300,000: a tight loop, about 60 ms for those, once for each file."""
        self.require(count * 8)
        info = os.fstat(self._file.fileno())
        key = info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, self.position, count
        if (known := _ends.get(key)) is not None:
            self.skip(known - self.position)
            return
        length = U64.unpack_from
        block, at, end = self._block, self._at, len(self._block) - 8
        for _ in range(count):
            if at > end:
                self._at = at
                self._fill(8)
                block, at, end = self._block, self._at, len(self._block) - 8
            at += 8 + length(block, at)[0]
        self._at = at
        self.require(0)
        if len(_ends) >= _MOST_ENDS:
            _ends.clear()
        _ends[key] = self.position

    def _fill(self, n: int) -> None:
        """The next n bytes are in the block; n is small (_MAX_KEY at most)."""
        self.require(n)
        if self._at + n <= len(self._block):
            return
        self._start, self._at = self.position, 0
        self._file.seek(self._start)
        self._block = self._file.read(max(n, _BLOCK))
        if len(self._block) < n:  # the file became shorter meanwhile
            raise Cut
