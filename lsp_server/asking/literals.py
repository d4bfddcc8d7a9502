"""Is a place in code, in a string or in a comment?

Owns the answer for a cursor. A current tree without an error there tells it. While one types there is none: then the tree tells
what the line begins in, since no edit was there, and a rough lexer reads on to the cursor; without any tree it reads the
text from its beginning where that is near, else the line alone. What is written into a string to be evaluated is code. `over`
tells what a tree knows of a place, for who reads on from there.
"""

from __future__ import annotations

import re

from context.syntax import SyntaxTree
from context.text import Text
from lsp_server.rules.manners import manner_of
from lsp_server.rules.scanner import Scanner

CODE, STRING, COMMENT = "code", "string", "comment"

_NEAR = 4096  # bytes that are read without a tree, and of a line
_STRINGS = frozenset({"line_str_text", "heredoc_body", "heredoc_content", "quoted_attribute_value"})
_CHARACTERS = frozenset({"char_literal", "character_literal"})
_DELIMITER = re.compile(rb"\A[A-Za-z@$#]{0,3}(\"{3}|'{3}|[\"'`])")
_COMMENT_BEGINS = (b"/*", b"<!--", b"--[[")
_COMMENT_ENDS = (b"*/", b"-->", b"]]")
# `${`, `#{` and `\(` in any string, `{` in Python's f"": not closed up to the cursor
_EVALUATED = re.compile(r"(?:[$#]\{[^{}]*|\\\([^()]*)\Z")
_FORMATTED = re.compile(r"(?:\b[fF][rR]?|\b[rR][fF]|[$])(\"|')(?:(?!\1).)*(?<!\{)\{[^{}]*\Z")


def inside(language: str, text: Text, offset: int, tree: SyntaxTree | None) -> str:
    """CODE, STRING or COMMENT. tree: of the text, perhaps moved along with the last edits; None if there is none."""
    line_start = text.line_start(text.line_of(offset))
    if tree is not None and tree.is_current:
        told = _told(tree, text, offset)
        if told and (told != CODE or not tree.has_error):  # a string without an end is an error, perhaps somewhere else
            return told
    if offset - line_start > _NEAR:
        return CODE
    line = text.slice(line_start, offset)
    if tree is not None and line_start > 0:
        what, close = _spanning(tree, text, line_start)
        if what != CODE:
            end = line.find(close) if close else -1
            if end < 0:
                return what
            line = line[end + len(close) :]
    elif tree is None and offset <= _NEAR:
        line = text.slice(0, offset)
    read = line.decode(errors="replace").replace("\r\n", "\n")
    scanner = Scanner(manner_of(language))
    for char in read:
        scanner.feed(char)
    what = scanner.inside or CODE
    last = read.rpartition("\n")[2]
    return CODE if what == STRING and (_EVALUATED.search(last) or _FORMATTED.search(last)) else what


def over(tree: SyntaxTree, text: Text, offset: int) -> tuple[str, str]:
    """What goes on over a place, CODE, STRING or COMMENT ("" where the tree has an error there), and how that begins ("" where
    nobody knows). The outermost, so that what is evaluated inside of a string is of the string. tree: of the text, perhaps
    moved along with the last edits. Costs the depth of the tree."""
    if not 0 < offset <= len(text):
        return CODE, ""
    for node in tree.path(offset - 1):
        if node.is_error:
            return "", ""
        kind = _kind(node.type) if node.is_named else ""
        if kind in (STRING, COMMENT) and node.start_byte < offset < node.end_byte:
            return kind, _opener(_head(text, node.start_byte, node.end_byte), kind)
    return CODE, ""


def _opener(head: bytes, kind: str) -> str:
    if kind == COMMENT:
        return next((opener.decode() for opener in _COMMENT_BEGINS if head.startswith(opener)), "")
    found = _DELIMITER.match(head)
    return found[1].decode() if found else ""


def _head(text: Text, start: int, end: int) -> bytes:
    return text.slice(start, text.floor(min(start + 8, end)))


def _kind(kind: str) -> str:
    """What a node of the tree is; "" if it says nothing of that."""
    if "comment" in kind:
        return COMMENT
    if ("interpolat" in kind and "string" not in kind) or "substitution" in kind:
        return CODE
    is_string = "string" in kind or kind in _STRINGS or kind in _CHARACTERS
    return STRING if is_string and kind != "concatenated_string" else ""


def _told(tree: SyntaxTree, text: Text, offset: int) -> str:
    """What the nodes say that hold the byte before the cursor; "" where the tree has an error there."""
    what = CODE
    for node in tree.path(offset - 1) if offset else ():
        if node.is_error or node.is_missing:
            return ""
        kind = _kind(node.type) if node.is_named else ""
        if not kind or not node.start_byte < offset <= node.end_byte:
            continue
        is_behind = offset == node.end_byte and _is_closed(text, node.start_byte, offset, kind)
        what = what if is_behind else kind
    return what


def _is_closed(text: Text, start: int, end: int, kind: str) -> bool:
    """Does what ends right before the cursor have an end of its own? A line's comment goes on as long as one types."""
    tail = text.slice(text.floor(max(start, end - 3)), end)
    if kind == COMMENT:
        return tail.endswith((*_COMMENT_ENDS, b"\n", b"\r")) and end - start > 3
    return kind == STRING or tail.endswith((b"}", b")"))


def _spanning(tree: SyntaxTree, text: Text, line_start: int) -> tuple[str, bytes]:
    """What goes on from the line before, and the bytes that end it, b"" where they are not known."""
    what, close = CODE, b""
    for node in tree.path(line_start - 1):
        kind = _kind(node.type) if node.is_named else ""
        if not kind or not node.start_byte < line_start < node.end_byte:
            continue
        head = _head(text, node.start_byte, node.end_byte)
        if kind == COMMENT:
            close = b"-->" if head.startswith(b"<!--") else b"]]" if head.startswith(b"--[") else b"*/"
        elif found := _DELIMITER.match(head):
            close = found[1]
        elif what != kind:
            close = b""
        what = kind
    return what, close
