"""Syntax trees of texts: parsing, and edits of a copy that is then parsed again.

Owns trees and the reasons why a text has none: no grammar, too long, minified, too hard. Broken code has a tree with errors.
A tree never changes: it is edited as a copy. Refuses threads and clocks: what an attempt may cost is a number of parser steps,
and whoever calls may end it earlier. Walks go by cursor, never by recursion or by parents.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import tree_sitter

from context.grammars import NoGrammar, grammar
from context.text import Edit, Text

MAX_BYTES = 3 << 20  # a longer text gets no tree
MAX_MEAN_LINE = 400  # bytes; a text of longer lines is taken for minified
MAX_PATH = 400  # nodes
_SHORT = 64 << 10  # bytes; a text as short as that is never taken for minified
# The parser tells of its progress about once in 200 bytes of ordinary code, every 30 µs. Ten times that is error recovery that
# leads nowhere.
_FEWEST_STEPS = 5_000
_BYTES_PER_STEP = 20

_NOT_UTF8 = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True, slots=True)
class NoTree:
    """Why a text has no tree: one sentence for people. ended: the caller wanted no more."""

    reason: str
    ended: bool = False


class InputEdit(NamedTuple):
    """Bytes, and the same places as rows and columns (bytes)."""

    start_byte: int
    old_end_byte: int
    new_end_byte: int
    start_point: tuple[int, int]
    old_end_point: tuple[int, int]
    new_end_point: tuple[int, int]


class SyntaxTree:
    """A tree, and the text and language that it is of.

    is_current: the tree is that of the text. Otherwise it was one of the text before some edits and has been moved along with
    them: nodes that no edit touched are right and in their places.
    is_exact: it was made of its text alone. A tree that was made of the one before is nearly always equal to that; over
    thousands of random edits one in a hundred differed around an error, and one in many thousands without any, in languages
    with a scanner of their own (Python, Ruby, Bash, Kotlin).
    n_steps: calls of `goes_on` while it was made; n_read_bytes: bytes that the parser looked at.
    """

    __slots__ = ("_is_aligned", "_tree", "is_current", "is_exact", "language", "n_read_bytes", "n_steps", "text")

    def __init__(
        self, language: str, text: Text, tree: tree_sitter.Tree, *, is_aligned: bool, is_current: bool, is_exact: bool
    ) -> None:
        """Use `parse`. is_aligned: the parser's lines (LF only) are the text's."""
        self.language = language
        self.text = text
        self.is_current = is_current
        self.is_exact = is_exact
        self.n_steps = self.n_read_bytes = 0
        self._tree = tree
        self._is_aligned = is_aligned

    def __repr__(self) -> str:
        return f"SyntaxTree({self.language}, {len(self.text)} bytes)"  # never the content: it could reach a log

    @property
    def root(self) -> tree_sitter.Node:
        return self._tree.root_node

    @property
    def has_error(self) -> bool:
        return self._tree.root_node.has_error

    def edited(self, edits: Sequence[Edit], text: Text) -> SyntaxTree:
        """The tree moved along with edits, each of the text after those before it; text: after all of them. Costs the depth of
        the tree for each. Not current until it is parsed again."""
        if not edits:
            return self
        tree, before, is_aligned = self._tree.copy(), self.text, self._is_aligned
        for i, edit in enumerate(edits):
            after = text if i == len(edits) - 1 else before.edit(edit.start, edit.end, edit.new)
            is_aligned = is_aligned and not _has_lone_cr(after, edit.start, edit.start + len(edit.new))
            tree.edit(*input_edit(before, after, edit))
            before = after
        return SyntaxTree(self.language, text, tree, is_aligned=is_aligned, is_current=False, is_exact=False)

    def parsed(self, goes_on: Callable[[], bool] | None = None) -> SyntaxTree | NoTree:
        """The current tree of its text, made from what this one knows already."""
        if self.is_current:
            return self
        return _parse(self.language, self.text, goes_on, self._tree if self._is_aligned else None)

    def exact(self, goes_on: Callable[[], bool] | None = None) -> SyntaxTree | NoTree:
        """The exact tree of its text, which is parsed as a whole unless this is it."""
        return self if self.is_exact else _parse(self.language, self.text, goes_on, None)

    def path(self, offset: int) -> tuple[tree_sitter.Node, ...]:
        """What encloses a place, the root first: at each level the child that holds the byte at the offset. Of what is nested
        deeper than MAX_PATH, the outermost."""
        cursor = self._tree.walk()
        nodes = [self._tree.root_node]
        while len(nodes) < MAX_PATH and cursor.goto_first_child_for_byte(offset) is not None:
            node = cursor.node
            if node is None or node.start_byte > offset:
                break
            nodes.append(node)
        return tuple(nodes)

    def shape(self) -> Iterator[tuple[object, ...]]:
        """Every node in order, parents first: kind, bytes, rows and columns, whether it is an error or missing in the text."""
        for node in nodes(self._tree.root_node):
            yield node.kind_id, node.byte_range, node.start_point, node.end_point, node.is_error, node.is_missing


def parse(language: str, data: Text | bytes, goes_on: Callable[[], bool] | None = None) -> SyntaxTree | NoTree:
    """The tree of a text, or why there is none. data: bytes that are not UTF-8 count as question marks.

    goes_on: asked about every 30 µs, False ends the attempt. Other Python threads get their turn only then.
    """
    return _parse(language, data if isinstance(data, Text) else text_of(data), goes_on, None)


def _parse(language: str, text: Text, goes_on: Callable[[], bool] | None, old: tree_sitter.Tree | None) -> SyntaxTree | NoTree:
    reason = _refusal(text)
    if reason:
        return NoTree(reason)
    try:
        parser = tree_sitter.Parser(grammar(language))
    except NoGrammar as error:
        return NoTree(str(error))
    n_steps = n_read = 0
    most = _FEWEST_STEPS + len(text) // _BYTES_PER_STEP
    ended = False

    def read(offset: int, _point: object) -> bytes:
        nonlocal n_read
        piece = text.tail(min(offset, len(text)))
        n_read += len(piece)
        return piece

    def stops(_offset: int, _has_error: bool) -> bool:
        nonlocal n_steps, ended
        n_steps += 1
        ended = goes_on is not None and not goes_on()
        return ended or n_steps > most

    try:
        tree = parser.parse(read, progress_callback=stops) if old is None else parser.parse(read, old, progress_callback=stops)
    except ValueError:  # what the parser says when it was stopped
        return NoTree("the text has changed meanwhile" if ended else "the text is too hard to parse", ended)
    made = SyntaxTree(
        language, text, tree, is_aligned=old is not None or _is_aligned(text), is_current=True, is_exact=old is None
    )
    made.n_steps, made.n_read_bytes = n_steps, n_read
    return made


def nodes(root: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    """A node and all below it, parents first."""
    cursor = root.walk()
    while True:
        node = cursor.node
        if node is not None:
            yield node
        if cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return


def text_of(data: bytes) -> Text:
    """A text of any bytes; each one that is not UTF-8 becomes a question mark, so that offsets stay."""
    try:
        return Text.of(data)
    except ValueError:
        return Text.of(_NOT_UTF8.sub("?", data.decode(errors="surrogateescape")))


def _refusal(text: Text) -> str:
    if len(text) > MAX_BYTES:
        return f"the text is longer than {MAX_BYTES >> 20} MB"
    if len(text) > _SHORT and len(text) > MAX_MEAN_LINE * text.n_lines:
        return "the text looks minified"
    return ""


def input_edit(before: Text, after: Text, edit: Edit) -> InputEdit:
    """An edit as the parser wants it told; after: the text with the edit."""
    new_end = edit.start + len(edit.new)
    points = _point(before, edit.start), _point(before, edit.end), _point(after, new_end)
    return InputEdit(edit.start, edit.end, new_end, *points)


def _point(text: Text, offset: int) -> tuple[int, int]:
    """Row and column in bytes, as the parser counts them where there is no CR without LF."""
    line = text.line_of(offset)
    return line, offset - text.line_start(line)


def _is_aligned(text: Text) -> bool:
    return sum(piece.count(b"\n") for piece in text.pieces(0, len(text))) == text.n_lines - 1


def _has_lone_cr(text: Text, start: int, end: int) -> bool:
    """Is there a CR without LF in [start, end) or right beside it? In other places an edit makes none."""
    # floor never splits a CRLF, so a CR at the part's end is alone
    part = text.slice(text.floor(start - 1), text.floor(end + 5))
    return any(a == 0x0D and b != 0x0A for a, b in pairwise(part + b"\0"))
