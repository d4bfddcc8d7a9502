"""What stands behind the cursor, and whether a text says it again.

Owns the comparison with the rest of the cursor's line and with the lines below. Refuses to cut; it says how much is the same.
"""

from __future__ import annotations

import re

from lsp_server.rules.place import Place, is_closer, width
from lsp_server.rules.scanner import scan

SHORTEST_LINE = 3  # characters; a shorter line (a closer) is told apart by what it closes
SHORTEST_REST = 8
SHORTEST_AGREED = 12  # characters of a line or two that are no chance, while more may come
_SHORTEST_NEAR = 20  # characters of two lines together that may differ a little
_NEAR = 0.05
_WORD = re.compile(r"\w+")
# what only begins something, and may go on otherwise: decorators, comments of several lines, openers
_BEGINS = re.compile(r"@|#\[|/\*|.*(?:[({\[:\\]|=>|->|\b(?:do|then|begin|try|else)|\bdo\s*\|[^|]*\|)\Z")


class Below:
    def __init__(self, place: Place) -> None:
        self._place = place
        self._lines = tuple(line.rstrip() for line in place.below)
        rest = place.rest.rstrip()
        self._rest = rest if len(rest) >= SHORTEST_REST and any(c.isalnum() for c in rest) else ""
        self._closes = scan(place.language, rest).unmatched if self._rest else []

    def completes_rest(self, text: str, end: int) -> bool:
        """Does text[:end] end with all of the rest of the cursor's line, closing what that closes?"""
        if not self._rest or not text.endswith(self._rest, 0, end):
            return False
        return "\n" not in text[:end] and scan(self._place.language, text[:end]).unmatched == self._closes

    def is_rest(self, line: str, number: int) -> bool:
        """Is a whole line of the text the one that the cursor stands in front of?"""
        place = self._place
        if not place.is_in_front or len(place.rest.strip()) < SHORTEST_LINE:
            return False
        whole = line if number else place.line + line
        return whole.rstrip() == (place.line + place.rest).rstrip()

    def n_repeated(self, lines: list[str], *, goes_on: bool = False) -> int:
        """How many of the last whole lines (blank ones aside) are the first lines below. lines: of the generation, the first of
        them without what stands before the cursor. goes_on: more may come; until then a short line, or one that only begins
        something, is the same by chance."""
        if not self._lines:
            return 0
        said = [self._whole(line, i) for i, line in enumerate(lines)]
        said = [line for line in said if line.strip()]
        if not said or not lines[-1].strip():
            return 0
        for n in range(min(len(said), len(self._lines)), 0, -1):
            if tuple(said[-n:]) == self._lines[:n] and self._is_meant(n, goes_on):
                return n
        last = lines[-1].strip()  # whatever stands in front of it
        if last == self._lines[0].strip() and self._is_meant(1, goes_on):
            if len(said) == 1:  # perhaps behind something on the cursor's line
                return int(len(last) >= SHORTEST_REST)
            if not goes_on and any(map(str.isalnum, last)) and not is_closer(self._place.language, last):
                return _n_of_block(said)  # what says no more than what stands right behind it
        if len(said) > 1 and len(self._lines) > 1 and _is_near("\n".join(said[-2:]), "\n".join(self._lines[:2])):
            return 2
        return 0

    def _is_meant(self, n: int, goes_on: bool) -> bool:
        """The first n lines below were said: is that no chance?"""
        text = "".join("".join(self._lines[:n]).split())
        if len(text) < SHORTEST_LINE or not goes_on:
            return len(text) >= SHORTEST_LINE
        if n == len(self._lines) and any(map(str.isalnum, text)):
            return True  # nothing more can tell
        return len(text) >= SHORTEST_AGREED and (n > 1 or _BEGINS.match(self._lines[0].strip()) is None)

    def _whole(self, line: str, number: int) -> str:
        """As it would stand in the document; a line that begins behind something is none of those below."""
        return line.rstrip() if number else (self._place.line + line).rstrip()


def _n_of_block(lines: list[str]) -> int:
    """The last line, and those that only begin the block it is in."""
    n = 1
    while n < len(lines) and width(lines[-n - 1]) < width(lines[-n]):
        n += 1
    return n


def _is_near(a: str, b: str) -> bool:
    """The same but for one character in twenty, none of a word or number: names that differ by a letter are meant."""
    most = int(_NEAR * max(len(a), len(b)))
    if min(len(a), len(b)) < _SHORTEST_NEAR or abs(len(a) - len(b)) > most:
        return False
    if _WORD.findall(a) != _WORD.findall(b):
        return False
    return _distance(a, b, most) <= most


def _distance(a: str, b: str, most: int) -> int:
    """Edit distance, as far as it is at most that."""
    row = list(range(len(b) + 1))
    for i, char in enumerate(a, 1):
        low, high = max(1, i - most), min(len(b), i + most)
        last, row[0] = row[0], i
        if low > 1:
            last, row[low - 1] = row[low - 1], most + 1
        for j in range(low, high + 1):
            last, row[j] = row[j], min(row[j] + 1 if j < i + most else most + 1, row[j - 1] + 1, last + (char != b[j - 1]))
        if min(row[low : high + 1], default=0) > most:
            return most + 1
    return row[-1]
