"""The text around a place without statements far from it: short enough to be parsed at once, and of the same structure.

Owns what is left out: whole statements of the blocks around the place, but for its neighbours. Goes by a tree that may be a few
edits old: what no edit touched is in its place. Costs the depth of the tree, not the length of the file.
"""

from __future__ import annotations

import tree_sitter

from context.blocks import block_kinds
from context.syntax import SyntaxTree
from context.text import Text

_SHORT = 1024  # bytes of a block that is left as it is
_FAR = 256  # bytes of blanks in front of a statement


def skeleton(tree: SyntaxTree, offset: int, most: int) -> tuple[bytes, bytes] | None:
    """The text before and behind a place, at most so many bytes together; None if one statement alone is longer."""
    text = tree.text
    if len(text) <= most:
        return text.slice(0, offset), text.slice(offset, len(text))
    line_end = text.line_end(text.line_of(offset))
    before, behind = [(0, 0)], [(len(text), len(text))]  # what is left out: ranges from outside in
    kinds = block_kinds(tree.language)
    for i, node in enumerate(tree.path(offset)):
        is_block = i == 0 or node.kind_id in kinds
        if not is_block or node.end_byte - node.start_byte <= _SHORT:
            continue
        kept = _kept(node, text, offset)
        if kept is None:
            continue
        first, start, end, last = kept
        lowest, highest = max(first, before[-1][1]), min(last, behind[-1][0])
        if lowest < start <= offset:
            before.append((lowest, start))
        if line_end <= (end := max(end, line_end)) < highest:
            behind.append((end, highest))
    head, at = [], 0
    for start, end in before:
        head.append(text.slice(at, start))
        at = end
    tail, at = [text.slice(offset, behind[-1][0])], behind[-1][1]
    for start, end in reversed(behind[:-1]):
        tail.append(text.slice(at, start))
        at = end
    made = b"".join((*head, text.slice(before[-1][1], offset))), b"".join((*tail, text.slice(at, len(text))))
    return made if len(made[0]) + len(made[1]) <= most else None


def _kept(node: tree_sitter.Node, text: Text, offset: int) -> tuple[int, int, int, int] | None:
    """Where a block's statements begin, from where to where they are kept (that of the place or behind it, and its neighbours),
    and where they end. None: it has none. Goes forward only: in a tree that was only moved along, a step back may end the
    process."""
    cursor = node.walk()
    if not cursor.goto_first_child():
        return None
    if cursor.node is not None and not cursor.node.is_named:
        cursor.goto_next_sibling()  # a brace
    first = _start(cursor)
    cursor.goto_parent()
    cursor.goto_last_child()
    is_named = cursor.node is not None and cursor.node.is_named
    last = _end(cursor) if is_named else _start(cursor)
    cursor.goto_parent()
    if cursor.goto_first_child_for_byte(offset) is None:
        cursor.goto_last_child()
    start = _start(cursor)
    cursor.goto_next_sibling()
    end = _end(cursor)
    cursor.goto_parent()
    blank = text.slice(text.floor(max(0, start - _FAR)), start)
    if cursor.goto_first_child_for_byte(start - 1 - (len(blank) - len(blank.rstrip()))) is not None:
        start = min(start, _start(cursor))
    places = first, max(first, min(start, offset)), min(max(end, offset), last), last
    return tuple(map(text.floor, places))  # type: ignore[return-value]


def _start(cursor: tree_sitter.TreeCursor) -> int:
    return 0 if cursor.node is None else cursor.node.start_byte


def _end(cursor: tree_sitter.TreeCursor) -> int:
    return 0 if cursor.node is None else cursor.node.end_byte
