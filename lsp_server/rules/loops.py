"""Loops that a model falls into: the same piece again and again, also with numbers that count on.

Owns what counts as a loop, and where its first copy ends. Looks at the end of a text only, so that it can follow a stream.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

_GRAM = 8  # characters; what is repeated is found by the last of them
_OCCURRENCES = 6
LONGEST_PERIOD = 240  # characters of one copy
COPIES = 3
# A row of zeros or of `None` is code; forty characters of one piece hardly ever are. Rulers and tables need more.
SHORTEST_LOOP = 42
_SHORTEST_OF_FEW = 64  # with a period of at most three characters
_SHORTEST_RULER = 100  # with a period of at most three characters, none of them a letter or digit
COUNTING_COPIES = 5  # five lines that differ by numbers that grow
_SHORTEST_COUNT = 60
_MOST_LINES = 8
_SEVERAL_LINES = 20  # characters
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Loop:
    """text[start:start + period] is the first copy, and it begins at a line's end or at a word's border if there is one."""

    start: int
    period: int

    @property
    def first_end(self) -> int:
        return self.start + self.period

    def line_ends(self, text: str) -> list[int]:
        """Where else a copy of several lines may be taken to end: behind another of its lines."""
        return [i for i in range(self.first_end + 1, self.first_end + self.period) if text[i : i + 1] == "\n"][:_MOST_LINES]


def _needed(text: str, end: int, period: int) -> int:
    if period > 3:
        return max(COPIES * period, SHORTEST_LOOP)
    return _SHORTEST_OF_FEW if any(c.isalnum() for c in text[end - period : end]) else _SHORTEST_RULER


def loop_at(text: str, end: int) -> Loop | None:
    """The loop that text[:end] ends with, if it is long enough to be one."""
    return _find(text, end, _needed)


def tail_loop(text: str) -> Loop | None:
    """The same for a text that was cut: three copies at its end are enough, if they say something; of several lines two, and
    the beginning of a third."""
    return _find(text, len(text), _needed_of_cut)


def _needed_of_cut(text: str, end: int, period: int) -> int:
    piece = text[end - period : end]
    if "\n" in piece and period >= _SEVERAL_LINES:
        return 2 * period + 1
    return max(COPIES * period, 2 * _GRAM if any(c.isalnum() for c in piece) else _SHORTEST_RULER // 2)


def _find(text: str, end: int, needed: Callable[[str, int, int], int]) -> Loop | None:
    at = end - _GRAM
    if at <= 0:
        return None
    gram, lowest, begin = text[at:end], max(0, at - LONGEST_PERIOD), at
    smaller: list[int] = []
    for _ in range(_OCCURRENCES):
        begin = text.rfind(gram, lowest, begin + _GRAM - 1)
        if begin < 0:
            return None
        period = at - begin
        if any(period % p == 0 for p in smaller):
            continue
        if period < _GRAM:
            smaller.append(period)
        need = needed(text, end, period)
        if need <= end and text[end - need : end - period] == text[end - need + period : end]:
            start = end - need
            while start > 0 and text[start - 1] == text[start - 1 + period]:
                start -= 1
            return Loop(_aligned(text, start, start + min(period, end - period - start)), period)
    return None


def _aligned(text: str, start: int, latest: int) -> int:
    """Where the first copy is best begun: what comes before the loop may end like a copy."""
    line_end = text.find("\n", start, latest)
    if start == 0 or text[start - 1] == "\n":
        return start
    if line_end >= 0:
        return line_end
    inside = start > 0 and _is_word(text[start - 1])
    return next((i for i in range(start, latest) if not inside or not _is_word(text[i])), start)


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


class Counting:
    """A text with its numbers made equal, that grows; tells when it loops although its numbers change.

    Positions of the text are kept, so that the first copy can be found in it.
    """

    __slots__ = ("_at", "_shape")

    def __init__(self) -> None:
        self._shape = ""
        self._at: list[int] = []  # of each character of the shape: where it stands in the text

    def feed(self, char: str, at: int) -> None:
        if char.isdigit():
            if self._shape.endswith("0") and self._at and self._at[-1] >= 0:
                return
            char = "0"
        self._shape += char
        self._at.append(at)

    def loop(self, text: str, end: int) -> Loop | None:
        """The loop that text[:end] ends with, numbers aside, if one of them grows (or falls) from copy to copy."""
        found = _find(self._shape, len(self._shape), lambda t, e, p: max(COUNTING_COPIES * p, _SHORTEST_COUNT))
        if found is None or "0" not in self._shape[found.start : found.first_end]:
            return None
        n_copies = (len(self._shape) - found.start) // found.period
        borders = [self._at[found.start + i * found.period] for i in range(n_copies)] + [end]
        rows = [[int(n[:18]) for n in _DIGITS.findall(text[a:b])] for a, b in pairwise(borders)]
        rows = rows[: n_copies - 1]  # the last copy's number may be half said
        n_numbers = min(map(len, rows), default=0)
        for k in range(n_numbers):
            steps = {b[k] - a[k] for a, b in pairwise(rows)}
            if len(steps) == 1 and steps != {0}:
                return Loop(borders[0], borders[1] - borders[0])
        return None


def without_twin(text: str, end: int) -> int:
    """A shorter end, if the last lines in front of it are the same as those before them."""
    lines = text[:end].split("\n")
    for n in range(1, _MOST_LINES + 1):
        last, before = lines[-n:], lines[-2 * n : -n]
        if len(before) == n and last == before and len("".join(last).strip()) >= _SEVERAL_LINES:
            return without_twin(text, end - sum(len(line) + 1 for line in last))
    return end


def equal_lines(lines: list[str]) -> bool:
    """Are the last three lines that aren't blank the same?"""
    last = [line.rstrip() for line in lines if line.strip()][-COPIES:]
    return len(last) == COPIES and last[0] == last[1] == last[2] and any(c.isalnum() for c in last[0])
