"""How a language says that something was left out, at a place.

Owns the text that takes the place of statements, entries and texts, so that what is around it parses as before.
"""

from __future__ import annotations

import tree_sitter

from context.queries.trimming import TrimQueries

Replacement = tuple[int, int, bytes]

_OPEN, _CLOSE = frozenset(b"{[("), frozenset(b"}])")


class Marks:
    """data: the file."""

    def __init__(self, data: bytes, words: TrimQueries) -> None:
        self._data = data
        self._words = words
        self._newline = b"\r\n" if b"\r\n" in data[:4096] else b"\n"

    def whole(self, block: tree_sitter.Node) -> Replacement:
        """For all statements of a block."""
        data = self._data
        start, end = block.start_byte, block.end_byte
        is_inside = data[start : start + 1] == b"{" and data[end - 1 : end] == b"}" and end - start >= 2
        start, end = (start + 1, end - 1) if is_inside else (self._before(start), self._behind(end))
        if is_inside or (data[start - 1 : start] == b"{" and data[end : end + 1] == b"}"):
            if self._words.inline:
                return start, end, b" " + self._words.inline + b" "
            indent = self._newline + self._indent(start)
            return start, end, indent + b"    " + (self._words.statement or self._words.line) + indent
        if not block.named_children:
            return start, start, b""
        first, last = block.named_children[0], block.named_children[-1]
        if self._words.statement == b"..." and data[start - 1 : start] == b":" and b"\n" in data[start : first.start_byte]:
            return start, last.end_byte, b" ..."
        return self.run(first.start_byte, last.end_byte)

    def run(self, start: int, end: int) -> Replacement:
        """For statements in a row."""
        end = start + len(self._data[start:end].rstrip())
        mark = self._words.statement or self._words.line
        line_end = self._data.find(b"\n", end)
        behind = self._data[end : line_end if line_end >= 0 else len(self._data)].strip()
        before = self._data[self._data.rfind(b"\n", 0, start) + 1 : start]
        if (behind or before.strip()) and self._words.statement != b"...":
            if self._words.inline:
                return start, end, self._words.inline
            indent = before[: len(before) - len(before.lstrip())]
            mark = self._newline + indent + mark + (self._newline + indent if behind else b"")
        return start, end, mark

    def entries(self, node: tree_sitter.Node) -> Replacement:
        """For what stands between a value's brackets."""
        start, end = node.start_byte, node.end_byte
        data = self._data
        while start < end and data[start] not in _OPEN:
            start += 1
        while end > start and data[end - 1] not in _CLOSE:
            end -= 1
        if end - start < 2:
            return node.start_byte, node.start_byte, b""
        mark = self._words.entry or self._words.inline
        if not mark:
            indent = self._indent(start)
            mark = self._newline + indent + b"    " + self._words.line + self._newline + indent
        return start + 1, end - 1, mark if self._words.entry else b" " + mark + b" "

    def text(self, node: tree_sitter.Node) -> Replacement:
        """For a text: its first line stays, if nothing in it is code."""
        start, end = node.start_byte, node.end_byte
        if self._data[start : start + 1] == b"`" and self._data[end - 1 : end] == b"`":
            start, end = start + 1, end - 1
        body = self._data[start:end]
        lead = len(body) - len(body.lstrip())
        first = body[lead:].split(b"\n", 1)[0].rstrip()
        if b"{" in first or b"\\" in first or b"<" in first:
            first = b""
        keep = start + (lead + len(first) if first else 0)
        tail = len(body) - len(body.rstrip())
        return keep, max(end - tail, keep), b" ..." if first else b"..."

    def lines(self, text: str, place: int) -> bytes:
        """A text of several lines for a place: with its line ends and indentation."""
        return text.encode(errors="surrogateescape").replace(b"\n", self._newline + self._indent(place))

    def without_lines(self, start: int, end: int) -> Replacement:
        """Nothing in place of whole lines."""
        line_end = self._data.find(b"\n", end)
        line_start = self._data.rfind(b"\n", 0, start) + 1
        if line_end < 0 or self._data[end:line_end].strip() or self._data[line_start:start].strip():
            return start, end, b""
        return line_start, line_end + 1, b""

    def _before(self, place: int) -> int:
        """Where the blanks before a place begin."""
        while place > 0 and self._data[place - 1] in b" \t\r\n":
            place -= 1
        return place

    def _behind(self, place: int) -> int:
        """Where the blanks behind a place end."""
        while place < len(self._data) and self._data[place] in b" \t\r\n":
            place += 1
        return place

    def _indent(self, place: int) -> bytes:
        line = self._data[self._data.rfind(b"\n", 0, place) + 1 : place]
        return line[: len(line) - len(line.lstrip(b" \t"))]
