"""What trimming says: a file in pieces, some as written, some replaced.

Owns the shapes. Offsets are bytes of the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

GRADES = "ABC"


class Cut(NamedTuple):
    """Bytes [start, end) become `text`. grade: what they belong to."""

    start: int
    end: int
    text: bytes
    grade: str


@dataclass(frozen=True, slots=True)
class TrimPiece:
    """Bytes [start, end) of the file, and what stands for them.

    grade: A stays whole, B is a body that was cut, C a helper, a constant, a comment or an import. line: of its first byte in
    the file, from 1. is_cut: text is not what stands there.
    """

    start: int
    end: int
    grade: str
    text: bytes
    line: int
    is_cut: bool


@dataclass(frozen=True, slots=True)
class Trimmed:
    """A skeleton. pieces: in order, without gaps, all of the file. notes: sentences for people."""

    pieces: tuple[TrimPiece, ...]
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> bytes:
        return b"".join(piece.text for piece in self.pieces)

    @property
    def n_cut(self) -> int:
        """Bytes of the file that were left out or replaced."""
        return sum(piece.end - piece.start for piece in self.pieces if piece.is_cut)

    def numbered(self) -> bytes:
        """The skeleton with the file's own line numbers in front of its lines, for tasks that speak of lines. What was put in
        place of several lines has the number of the first of them."""
        made: list[bytes] = []
        numbers: list[int] = []
        is_open = False
        for piece in self.pieces:
            number = piece.line
            for line in piece.text.splitlines(keepends=True):
                if is_open:
                    made[-1] += line
                else:
                    made.append(line)
                    numbers.append(number)
                is_open = not line.endswith((b"\n", b"\r"))
                number += 0 if piece.is_cut else 1
        width = len(str(max(numbers, default=1)))
        return b"".join(b"%*d " % (width, number) + line for number, line in zip(numbers, made, strict=True))
