"""How much of a piece stands somewhere else already.

Owns the normal form of lines and their shingles: rolling hashes over up to three lines. A small model copies what it sees
twice, so near-duplicates of the text at the cursor stay out of a prompt. Pure; linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from zlib import crc32

_BLANKS = re.compile(r"\s+")
_SAYS = re.compile(r"\w")
_COMMENT = re.compile(r"^(?:#+|//+|--+|/?\*+)\s*")
_BASE, _PRIME = 1_000_003, (1 << 61) - 1
MOST = 3  # lines of a shingle


def normalized(lines: Iterable[str]) -> list[str]:
    """Lines without blanks at their ends, comment marks and what has no word in it."""
    found = []
    for line in lines:
        plain = _BLANKS.sub(" ", _COMMENT.sub("", line.strip()))
        if _SAYS.search(plain):
            found.append(plain.rstrip("{:;, "))
    return found


def shingles(lines: Sequence[str], size: int) -> frozenset[int]:
    """Hashes of all runs of `size` normalized lines, each made from the one before it."""
    if size < 1 or len(lines) < size:
        return frozenset()
    hashes = [crc32(line.encode("utf-8", "replace")) + len(line) for line in lines]
    out = pow(_BASE, size - 1, _PRIME)
    value = 0
    for each in hashes[:size]:
        value = (value * _BASE + each) % _PRIME
    found = {value}
    for leaves, comes in zip(hashes, hashes[size:], strict=False):
        value = ((value - leaves * out) * _BASE + comes) % _PRIME
        found.add(value)
    return frozenset(found)


class Shingled:
    """A text whose shingles of each size are made when they are first needed."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = normalized(lines)
        self._by_size: dict[int, frozenset[int]] = {}

    def of_size(self, size: int) -> frozenset[int]:
        if size not in self._by_size:
            self._by_size[size] = shingles(self._lines, size)
        return self._by_size[size]

    @property
    def n_lines(self) -> int:
        return len(self._lines)

    def share_in(self, other: Shingled) -> float:
        """How much of this one stands in the other: 0 to 1. A text without words stands nowhere."""
        size = 1 if self.n_lines < 6 else 2 if self.n_lines < 16 else MOST
        mine = self.of_size(size)
        return len(mine & other.of_size(size)) / len(mine) if mine else 0.0
