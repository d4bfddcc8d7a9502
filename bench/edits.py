"""Text changes as LSP counts them: positions in UTF-16 code units, one notification's changes applied in order.

Deliberately not the product's own text code: replaying keys with what is measured would hide that one's mistakes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Position:
    """Zero-based; character in UTF-16 code units."""

    line: int
    character: int


@dataclass(frozen=True, slots=True)
class Change:
    """Replace [start, end) by text. The changes of one key apply one after the other."""

    start: Position
    end: Position
    text: str


def units(text: str) -> int:
    """Length in UTF-16 code units."""
    return len(text) + sum(ch > "\uffff" for ch in text)


def position_at(text: str, offset: int) -> Position:
    start = text.rfind("\n", 0, offset) + 1
    return Position(text.count("\n", 0, start), units(text[start:offset]))


def offset_at(text: str, position: Position) -> int:
    """Inverse of `position_at`. Raises ValueError for a place that the text does not have."""
    start = 0
    for _ in range(position.line):
        start = text.index("\n", start) + 1
    offset, left = start, position.character
    while left > 0:
        if offset >= len(text) or text[offset] == "\n":
            raise ValueError("position behind the end of its line")
        left -= units(text[offset])
        offset += 1
    if left:
        raise ValueError("position inside a surrogate pair")
    return offset


def apply(text: str, changes: Iterable[Change]) -> str:
    """The text after one notification's changes, each applied to the text before it."""
    for change in changes:
        start, end = offset_at(text, change.start), offset_at(text, change.end)
        text = text[:start] + change.text + text[end:]
    return text
