"""Where a block ends: by its indentation, by the bracket, word or string that encloses the cursor, by the next definition.

Owns the lines of a stream and how deep they are. Refuses what stands below as text (`below`), and trees (`context.gate`).
"""

from __future__ import annotations

import re

from lsp_server.rules.indentation import n_extra
from lsp_server.rules.manners import manner_of
from lsp_server.rules.place import Place, width
from lsp_server.rules.scanner import OPENERS, PAIRS, scan

Verdict = tuple[str, int]  # the rule, and how many characters stay

# Words that begin a definition: with a blank line in front, another unit.
_DEFINES = frozenset({
    "def", "class", "async", "function", "func", "fn", "fun", "pub", "public", "private", "protected", "internal", "static",
    "final", "abstract", "impl", "struct", "enum", "union", "interface", "trait", "type", "module", "namespace", "export",
    "describe", "it", "test", "template", "extension", "object", "override", "local", "sub",
})  # fmt: skip


_LOOSE = frozenset({"shellscript", "markdown", "plaintext", "html", "css", "sql", "yaml", ""})  # a closer may stand alone


class Scope:
    """line_was_inside: the line that is being said began inside a string or comment. line_is_comment: the line that ended last
    was nothing else."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._manner = manner_of(place.language)
        self._scanner = place.scanner()
        self._floor = len(self._scanner.open)  # brackets open at the cursor that still are
        self._was_in = self._scanner.in_long
        self._is_block = not place.single_line
        self._opener = place.opener if place.line.strip() else ""
        self._opener_width = width(place.line)  # or of the blank line that the cursor is on
        self._base: int | None = None  # columns of the block's first line
        self._is_inline = False  # something follows the opener on its line
        self._ends = False  # with this line
        self._has_deeper = False
        self._n_blank = 0
        self._n_lines = 0
        self._start = 0  # of the line
        self._first: int | None = None  # what is not blank on it
        self._word_width: int | None = None  # of the line, while its first word is being said
        self.line_was_inside = self._was_in
        self.line_is_comment = False

    def feed(self, char: str, at: int, text: str) -> Verdict | None:
        """One more character of the text; which rule ends it, if one does."""
        verdict: Verdict | None = None
        if self._word_width is not None and not (char.isalnum() or char == "_"):
            verdict = self._judge_word(text, at)
        scanner = self._scanner
        was_code, closer, n_open, n_unmatched = not scanner.inside, scanner.closer, len(scanner.open), len(scanner.unmatched)
        scanner.feed(char)
        if char == "\n":
            return verdict or self._end_line(at, text)
        if self._first is None and not char.isspace():
            self._first = at
            verdict = verdict or self._begin_line(char, at, text, n_open)
        if char in PAIRS and was_code:
            is_known = len(scanner.open) < self._floor
            self._floor = min(self._floor, len(scanner.open))
            is_nothing = len(scanner.unmatched) > n_unmatched
            if is_nothing and self._closes_nothing(char):
                verdict = verdict or ("closers", at)
            elif is_known or (is_nothing and self._place.language not in _LOOSE):
                verdict = verdict or self._close(char, at, text, n_open if is_known else 0)
        if self._was_in and not scanner.in_long:
            self._was_in = False
            verdict = verdict or self._leave(at, closer)
        return verdict

    @property
    def _before(self) -> int:
        """The end of what stands before the line."""
        return max(0, self._start - 1)

    def _begin_line(self, char: str, at: int, text: str, n_open: int) -> Verdict | None:
        """Its first character that isn't blank."""
        if not self._is_block or self.line_was_inside:
            return None
        ahead = self._place.line if self._n_lines == 0 else ""
        if ahead.strip():
            self._is_inline = True
            return None
        columns = width(ahead + text[self._start : at])
        if self._n_lines == 0:
            columns -= n_extra(self._place, at)
        if self._base is None:
            leaves = columns <= self._opener_width if self._opener else self._n_lines > 0 and columns < self._opener_width
            if not leaves:
                self._base = columns
                return None
        elif columns > self._base:
            self._has_deeper = True
            return None
        elif n_open > self._floor:  # inside a bracket that it has opened itself
            return None
        if char in PAIRS:
            return None  # `_close` knows better
        may_end = bool(self._manner.ends) or columns == self._base
        if may_end and (char.isalpha() or char == "_"):
            self._word_width = columns
            return None
        return self._judge_start(char, columns, text)

    def _judge_word(self, text: str, at: int) -> Verdict | None:
        """The first word of a line that is no deeper than the block."""
        columns, self._word_width = self._word_width, None
        assert self._first is not None and columns is not None
        word = text[self._first : at]
        if word in self._manner.ends and (self._base is None or columns < self._base):
            if any(line.split()[:1] == [word] for line in self._place.below[:1]):
                return "closers", self._before
            self._ends = True
            return None
        return self._judge_start(word, columns, text)

    def _judge_start(self, start: str, columns: int, text: str) -> Verdict | None:
        """How a line that is no deeper than the block begins: by a word, or by one other character."""
        if self._base is None or columns < self._base:
            return "scope", self._before
        if not self._n_blank or start in self._manner.goes_on:
            return None
        defines = start in _DEFINES or start == "@"
        is_next = self._has_deeper and (defines or self._base == 0)
        if is_next or (self._base == 0 and self._n_blank > 1 and self._n_lines > self._n_blank):
            return "unit", len(text[: self._start].rstrip())
        return None

    def _close(self, char: str, at: int, text: str, n_open: int) -> Verdict | None:
        """A closer of what was opened before the cursor (n_open brackets were open), or of nothing that is known (0)."""
        if not self._is_block:
            return None
        if self._place.rest.strip():
            self._ends = True  # what of it stands behind on the line is settled there
            return None
        begins_line = not text[self._start : at].strip() and not (self._n_lines == 0 and self._place.line.strip())
        stands_behind = self._place.after.lstrip()[:1] == char
        if stands_behind:
            return "closers", self._before if begins_line else at
        if begins_line and n_open <= len(scan(self._place.language, self._place.after).unmatched):
            return "closers", self._before
        self._ends = True
        return None

    def _closes_nothing(self, char: str) -> bool:
        """Is there surely no such bracket open before it? One that was opened far above may be out of sight; but behind a brace
        that is open, or none of whose kind was closed, stand whole statements."""
        if self._place.language in _LOOSE:
            return False
        if self._scanner.open or self._place.is_start:
            return True
        sees_statement = re.search(r"^(?:def|class|import|from|@|func|fn|function)\b", self._place.before, re.M) is not None
        return sees_statement and char != "}" and "}" not in self._scanner.unmatched

    def _leave(self, at: int, closer: str) -> Verdict | None:
        """The string or comment that the cursor is in has ended."""
        if closer and self._place.after.lstrip().startswith(closer):
            return "closers", at + 1 - len(closer)
        self._ends = True
        return None

    def _end_line(self, at: int, text: str) -> Verdict | None:
        line = text[self._start : at].strip()
        self.line_is_comment = self.line_was_inside or (bool(line) and line.startswith(self._manner.line_comments or ("\0",)))
        ends_inline = self._is_inline and self._n_lines == 0 and bool(self._opener) and self._opener not in OPENERS
        if self._is_block and (self._ends or ends_inline):
            return ("scope" if self._ends else "line"), at
        self._n_blank = 0 if line else self._n_blank + 1
        self._n_lines += 1
        self._start, self._first = at + 1, None
        self.line_was_inside = self._scanner.in_long
        return None
