"""Leaves of a text: pieces of bytes that split no character and no CRLF pair.

Owns how bytes are cut into leaves and where line breaks are in one. Refuses to know its place in a text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

LEAF = 1024  # most bytes of a leaf, in texts of up to _MANY leaves
_SPARE = 8  # a cut moves back by up to 3 bytes to spare a character; the leaf after it grows by as much
_MANY = 4096
_LARGEST = 64  # LEAFs in one leaf, however long the text

_BREAK = re.compile(rb"\r\n|\r|\n")


class Leaf:
    """Bytes and their line breaks (LF, CRLF, CR)."""

    __slots__ = ("_ends", "data", "n_breaks", "n_bytes")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.n_bytes = len(data)
        self.n_breaks = data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")
        self._ends: tuple[int, ...] | None = None

    @property
    def ends(self) -> tuple[int, ...]:
        """Offsets in the leaf right after each line break. Made on first use; two threads would store equal values."""
        ends = self._ends
        if ends is None:
            ends = self._ends = tuple(m.end() for m in _BREAK.finditer(self.data))
        return ends


def leaf_size(n_bytes: int) -> int:
    """Most bytes of a leaf in a text of n_bytes. An edit copies a few leaves and some numbers for every 64 of the others: in a
    long text the leaves are longer, so that both stay small."""
    size = LEAF
    while size * _MANY < n_bytes and size < _LARGEST * LEAF:
        size *= 2
    return size


def is_inside(byte: int) -> bool:
    """Does a character go on with this byte?"""
    return byte & 0xC0 == 0x80


def cut(parts: list[memoryview], longest: int) -> Iterator[Leaf]:
    """The parts joined, in leaves of about equal size, at most `longest` bytes. Every byte is copied once, into its leaf."""
    starts = list(accumulate(map(len, parts), initial=0))
    size = starts[-1]
    n = -(-size // (longest - _SPARE))
    at = 0
    for k in range(1, n + 1):
        end = size * k // n
        while end < size and is_inside(_byte(parts, starts, end)):
            end -= 1
        if end < size and _byte(parts, starts, end) == 0x0A and _byte(parts, starts, end - 1) == 0x0D:
            end -= 1
        yield Leaf(_range(parts, starts, at, end))
        at = end


def _byte(parts: list[memoryview], starts: list[int], offset: int) -> int:
    i = bisect_right(starts, offset) - 1
    return parts[i][offset - starts[i]]


def _range(parts: list[memoryview], starts: list[int], start: int, end: int) -> bytes:
    taken = []
    i = bisect_right(starts, start) - 1
    while i < len(parts) and starts[i] < end:
        taken.append(parts[i][max(start - starts[i], 0) : end - starts[i]])
        i += 1
    return b"".join(taken)
