"""What encloses the cursor and begins outside the window: the heads of its class, its function, its loop.

Owns which lines these are. They belong to the core: however small a window is, the model knows in which function it is. Walks
from the root down to one place, so that it costs the depth of the tree. Pure.
"""

from __future__ import annotations

from context.blocks import block_openers
from context.prompt_form import to_prompt
from context.syntax import SyntaxTree
from context.text import Text
from context.tokens import TokenTable
from context.zones.focus import place_inside
from context.zones.wrapping import wrapping

MOST_LINES = 8  # of one head
MOST_BYTES = 1200


def heads(tree: SyntaxTree | None, text: Text, cursor: int, window_start: int, n_max: int, table: TokenTable) -> bytes:
    """The heads in prompt form, outermost first, each from its line's start, and behind the last one a line that says that
    something was left out. At most n_max tokens: outer ones go first. b"" if there are none, or no tree of this text."""
    if tree is None or window_start <= 0 or n_max <= 0 or len(tree.text) != len(text):
        return b""
    comment = wrapping("comments", tree.language)
    if comment is None or not comment.mark:
        return b""
    found: list[bytes] = []
    inside = place_inside(tree.language, text, cursor)
    for block in block_openers(tree, inside.offset, inside.offset):
        if not block.start <= inside.offset <= block.end or block.opener >= window_start:
            continue
        if inside.column is not None and block.opener - text.line_start(text.line_of(block.opener)) >= inside.column:
            continue  # left by its indentation
        head = _head(text, block.opener, min(block.start, window_start))
        if head and head not in found:
            found.append(head)
    while found:
        inner = found[-1].rsplit(b"\n", 2)[-2] if found[-1].count(b"\n") else found[-1]
        indent = inner[: len(inner) - len(inner.lstrip())]
        made = b"".join(found) + indent + f"    {comment.mark} ...\n".encode()
        if len(made) <= MOST_BYTES and len(table.encode(made)) <= n_max:
            return made
        found.pop(0)
    return b""


def _head(text: Text, opener: int, body: int) -> bytes:
    """Whole lines from the opener's to the one on which the body begins, that one only if a head stands on it."""
    first, last = text.line_of(opener), text.line_of(body)
    start, end = text.line_start(first), text.line_start(last)
    if end <= start or text.slice(end, body).strip():
        end = text.line_start(last + 1) if last + 1 < text.n_lines else len(text)
    if text.line_of(end) - first > MOST_LINES or end - start > MOST_BYTES:
        return b""
    return to_prompt(text.slice(start, end), start == 0)
