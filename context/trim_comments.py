"""Comments and doc strings in one line.

Owns which of their lines stay: the first that says something, and every one that says "not"; and which comments are one.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from context.comments import first_line
from context.trim_marks import Marks
from context.trim_types import Cut

# a bare None is Python's value and denies nothing
_NEGATION = re.compile(
    r"\b(?i:not|never|cannot|no|nor|neither|nothing|nobody|unless|without|except|avoid|forbid(?:s|den)?|deprecated|instead)\b"
    r"|\b(?:none|[Nn]one of)\b|n['’]t\b"
)
_LEGAL = re.compile(r"copyright|licen[sc]e|SPDX-|all rights reserved", re.I)
_DIRECTIVE = re.compile(
    r"^\s*(?:#!|#\s*(?:-\*-|type:|pragma|noqa|frozen_string)|//go:|// \+build|//\s*@ts-|///\s*<reference|/[/*]\s*eslint)"
)
Span = tuple[int, int]

_LINE_END = re.compile(r"\r\n|\r|\n")
_OPENER = re.compile(r"\A\s*(?:[A-Za-z]{0,3}(?:\"{3}|'{3})|/\*+!?|<!--|--\[=*\[|\(\*)")
_CLOSER = re.compile(r"(?:\"{3}|'{3}|\*+/|-->|\]=*\]|\*\))\s*\Z")

_ENCLOSED = (b"/*", b"<!--", b"--[")


class CommentCuts:
    """Comments of one file, and what of them is left out. data: the file."""

    def __init__(self, data: bytes, marks: Marks) -> None:
        self._data = data
        self._marks = marks
        self._runs: list[list[Span]] = []

    def is_behind_code(self, start: int) -> bool:
        return bool(self._data[self._data.rfind(b"\n", 0, start) + 1 : start].strip())

    def add(self, start: int, end: int) -> None:
        """A comment, in order. Comments of whole lines right under each other are one; what stands behind code stays."""
        if self.is_behind_code(start):
            return
        end = start + len(self._data[start:end].rstrip())  # some grammars count the line's end as part of it
        if self._runs and not self._is_enclosed(start) and not self._is_enclosed(self._runs[-1][-1][0]):
            between = self._data[self._runs[-1][-1][1] : start]
            if not between.strip() and between.count(b"\n") <= 1:
                self._runs[-1].append((start, end))
                return
        self._runs.append([(start, end)])

    def cuts(self, helpers: Collection[int]) -> list[Cut]:
        """helpers: places of definitions that need no description."""
        made = []
        for run in self._runs:
            start, end = run[0][0], run[-1][1]
            behind = self._data[end : end + 200]
            blanks = behind[: len(behind) - len(behind.lstrip())]
            is_brief = blanks.count(b"\n") == 1 and end + len(blanks) in helpers
            made += self.shorten(start, end, is_brief=is_brief)[1]
        return made

    def shorten(self, start: int, end: int, *, is_brief: bool) -> tuple[bool, list[Cut]]:
        """Does something of it stay, and what is left out."""
        text = self._data[start:end].decode(errors="surrogateescape")
        made = shortened(text, is_brief=is_brief)
        if made is None:
            return False, [Cut(*self._marks.without_lines(start, end), "C")]
        return True, [Cut(start, end, self._marks.lines(made, start), "C")] if made != text else []

    def _is_enclosed(self, start: int) -> bool:
        return self._data.startswith(_ENCLOSED, start)


def shortened(text: str, *, is_brief: bool = False) -> str | None:
    """A comment (all lines of a run of comments, or one over several lines) or a doc string in fewer lines; None: nothing of it
    is needed. Lines that stay are whole. is_brief: what is described needs no description, so only what says "not" stays.
    """
    lines = _LINE_END.split(text)
    first = 0 if is_brief else _first_saying(lines)
    kept = {} if is_brief else {first: lines[first]}
    if not (first == 0 and _LEGAL.search(text)):
        kept |= {i: line for i, line in enumerate(lines) if _DIRECTIVE.match(line)}
        kept |= {i: line for i, line in enumerate(lines) if _NEGATION.search(line)}
    if not kept:
        return None
    if len(kept) == len(lines):
        return text
    opener, closer = _OPENER.match(text), _CLOSER.search(text)
    if opener is None or closer is None:
        return "\n".join(line if i == min(kept) == 0 else line.lstrip() for i, line in sorted(kept.items()))
    return _enclosed(lines, kept, opener[0], closer[0].rstrip())


def _first_saying(lines: list[str]) -> int:
    return next((i for i, line in enumerate(lines) if first_line(_CLOSER.sub("", _OPENER.sub("", line)))), 0)


def _enclosed(lines: list[str], kept: dict[int, str], opener: str, closer: str) -> str:
    """Lines of a comment with a beginning and an end of its own."""
    last = len(lines) - 1
    told = []
    for i, line in sorted(kept.items()):
        if i == 0:
            line = line[len(opener) :]
        if i == last:
            line = _CLOSER.sub("", line)
        told.append(line.strip().removeprefix("*").strip() if opener.lstrip().startswith("/*") else line.strip())
    told = [line for line in told if line] or [""]
    is_text = opener.endswith(('"', "'"))
    # a doc string may not end with its own quote
    tail = "" if is_text and not told[-1].endswith((closer[0], "\\")) else " "
    bullet = " * " if opener.lstrip().startswith("/*") and len(told) > 1 else ""
    first = opener + ("" if is_text else " ") + told[0]
    return "\n".join([first, *(bullet + line for line in told[1:])]) + (f"\n {closer}" if bullet else tail + closer)
