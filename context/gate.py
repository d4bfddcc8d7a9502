"""The parser's word on a text that would be put in at a place: its first new error, and what it calls.

Owns what counts as new: an error that begins in the text and ends before it does. What was broken before is not judged. What is
parsed are the place's surroundings (`skeleton`), which keeps a look short however long the file is; it is bounded in parser
steps, and where that does not do, nothing is said. Refuses to decide what becomes of the text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import tree_sitter

from context.skeleton import skeleton
from context.syntax import NoTree, SyntaxTree, parse
from context.text import Text

MOST_STEPS = 200  # of the parser, 30 µs each in ordinary code; a look at ordinary code takes some forty
MOST_BYTES = 8192  # of the surroundings, which are parsed as a whole
_MOST_NODES = 4000  # looked at in one text
_MOST_CALLS = 16
_CALLS = {
    "python": {"call": "function"},
    "typescript": {"call_expression": "function", "new_expression": "constructor"},
    "javascript": {"call_expression": "function", "new_expression": "constructor"},
    "go": {"call_expression": "function"},
    "rust": {"call_expression": "function"},
}
_CALLS["typescriptreact"] = _CALLS["typescript"]
_CALLS["javascriptreact"] = _CALLS["javascript"]


@dataclass(frozen=True, slots=True)
class Look:
    """error_at: bytes of the text before its first new error; None: there is none, or it can't be told, and why says so. calls:
    names that it calls as they are, not as members of something; each once."""

    error_at: int | None = None
    why: str = ""
    calls: tuple[str, ...] = ()


class Gate:
    """tree: of the document, perhaps moved along with the last edits; None if there is none: then a short document is looked at
    as a whole. offset: where texts are put in."""

    def __init__(self, language: str, text: Text, offset: int, tree: SyntaxTree | None) -> None:
        self._language = language
        self._around: tuple[bytes, bytes] | None = None
        self._why = ""
        if tree is not None and tree.text is text:
            self._around = skeleton(tree, offset, MOST_BYTES)
            self._why = "the statements around are too long"
        elif len(text) <= MOST_BYTES:
            self._around = text.slice(0, offset), text.slice(offset, len(text))
        else:
            self._why = "there is no syntax tree yet"

    def look(self, inserted: bytes, n_replaced: int) -> Look:
        """The parser's word on the document with `inserted` in place of n_replaced bytes behind the place, all on its line.
        ValueError: `inserted` is not UTF-8."""
        if self._around is None:
            return Look(None, self._why)
        before, behind = self._around
        text = Text.of(before + inserted + behind[n_replaced:])
        made = parse(self._language, text, _steps(MOST_STEPS))
        if isinstance(made, NoTree):
            return Look(None, "the parser took too long" if made.ended else made.reason)
        n_blank = len(inserted) - len(inserted.rstrip())
        start, end = len(before), len(before) + len(inserted) - n_blank
        found = _Walk(made.root, self._language, text, start, end)
        if found.was_broken:
            return Look(None, "the code around was broken before", found.calls)
        return Look(None if found.error is None else max(0, found.error - start), found.why, found.calls)


def _steps(most: int) -> Callable[[], bool]:
    """So many are allowed."""
    n = 0

    def goes_on() -> bool:
        nonlocal n
        n += 1
        return n <= most

    return goes_on


class _Walk:
    """The nodes that touch bytes [start, end). error: where the first one begins that is new. was_broken: an error from an
    earlier line reaches into it."""

    def __init__(self, root: tree_sitter.Node, language: str, text: Text, start: int, end: int) -> None:
        self._calls = _CALLS.get(language, {})
        self._text = text
        self._line_start = text.line_start(text.line_of(start))
        self._start, self._end = start, end
        self.error: int | None = None
        self.was_broken = False
        self.why = ""
        self._names: dict[str, None] = {}
        self._go(root)
        self.calls = tuple(self._names)

    def _go(self, root: tree_sitter.Node) -> None:
        cursor = root.walk()
        for _ in range(_MOST_NODES):
            node = cursor.node
            if node is None:
                return
            touches = node.start_byte < self._end and node.end_byte >= self._start
            if touches:
                self._look(node)
                if cursor.goto_first_child_for_byte(self._start) is not None:
                    continue
            while not (node.start_byte < self._end and cursor.goto_next_sibling()):
                if not cursor.goto_parent() or cursor.node is None:
                    return
                node = cursor.node
        self.why = "there is too much to look at"

    def _look(self, node: tree_sitter.Node) -> None:
        start, end = node.start_byte, node.end_byte
        if node.is_error and start < self._line_start and end > self._start:
            self.was_broken = True
        is_new = (node.is_error or node.is_missing) and start >= self._start and end < self._end
        if is_new and (start > self._start or not node.is_missing) and (self.error is None or start < self.error):
            self.error = start
        field = self._calls.get(node.type)
        if field is None or start < self._start or len(self._names) >= _MOST_CALLS:
            return
        called = node.child_by_field_name(field)
        if called is not None and called.type == "identifier" and called.end_byte <= self._end:
            self._names[self._text.slice(called.start_byte, called.end_byte).decode()] = None
