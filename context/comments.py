"""Comments that describe what stands under them.

Owns which comment belongs to a definition, and its first line without marks.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from context.symbol_types import MAX_DOC

_MARKS = re.compile(r"^\s*(?:/\*+!?|\*+/?|//+[!/<]*|#+!?|--+(?:\[=*\[)?|<!--+|;+|%+)\s?|\s*(?:\*+/|--+>|\]=*\])\s*$")
_NOT_PROSE = re.compile(r"^(?:[-=*#~_]{3,}|@\w+\b.*|eslint-|noqa|type:|pylint:|!/)")
_QUOTES = re.compile(r"""\A[A-Za-z]{0,3}(\"{3}|'{3}|\"|')(.*?)\1?\Z""", re.S)
_TAG = re.compile(r"</?(?:summary|para|remarks)>")  # C#'s comments are XML
# What may stand between a comment and what it describes, beside blanks: attributes and decorators.
_BETWEEN = re.compile(rb"[ \t\r]*(?:(?:@|#\[|\[|template\b)[^\n]*)?")


def first_line(text: str) -> str:
    """The first line with something to say, without the marks of a comment; at most MAX_DOC characters."""
    for line in text.splitlines():
        told, before = line, ""
        while told != before:
            told, before = _MARKS.sub("", told), told
        told = _TAG.sub("", told).strip()
        if told and not _NOT_PROSE.match(told):
            return told[:MAX_DOC]
    return ""


def doc_string(literal: str) -> str:
    """The first line of a string literal."""
    found = _QUOTES.match(literal)
    text = (found[2] if found else literal).strip()
    return text.splitlines()[0].strip()[:MAX_DOC] if text else ""


class Comments:
    """Comments of a file, as byte ranges in order; data: the file."""

    def __init__(self, data: bytes, ranges: Sequence[tuple[int, int]]) -> None:
        self._data = data
        # some grammars count the line's end as part of a comment
        self._ranges = [(start, start + len(data[start:end].rstrip())) for start, end in ranges]
        self._starts = [start for start, _ in self._ranges]

    def above(self, place: int) -> str:
        """First line of the comment right above a place; "" if there is none, or if something stands before it on its line. A
        comment behind code describes that code."""
        data = self._data
        line_start = self._line_start(place)
        i = bisect_right(self._starts, place) - 1
        if i < 0 or data[line_start:place].strip() or not self._joins(self._ranges[i][1], line_start):
            return ""
        while i > 0 and self._joins(self._ranges[i - 1][1], self._line_start(self._ranges[i][0]), is_tight=True):
            i -= 1
        start = self._starts[i]
        if data[self._line_start(start) : start].strip():
            return ""  # it stands behind code
        last = bisect_right(self._starts, place)
        parts = (data[s:e].decode(errors="replace") for s, e in self._ranges[i:last])
        return next((line for part in parts if (line := first_line(part))), "")

    def _line_start(self, place: int) -> int:
        return self._data.rfind(b"\n", 0, place) + 1

    def _joins(self, end: int, line_start: int, *, is_tight: bool = False) -> bool:
        """Does a comment that ends there go with the line? At most 20 lines of attributes may stand between."""
        between = self._data[end : max(line_start - 1, end)].split(b"\n", 21)
        if between[0].strip() or len(between) > 20:
            return False
        return all(_BETWEEN.fullmatch(line) and line.strip() for line in between[1:]) and not (is_tight and len(between) > 1)
