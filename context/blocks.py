"""Blocks and statements of a tree: where a block opens, where a statement ends.

Owns two questions about a stretch of text. They walk over that stretch, so that they cost what lies in it and on the way to it,
not the file. Around errors a block or statement may be missing.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import tree_sitter

from context.grammars import grammar
from context.queries import QUERIES
from context.syntax import SyntaxTree

_WRAPPERS = frozenset({"block", "function_body", "block_expression", "switch_body", "switch_block", "expression_statement"})
_NO_STATEMENTS = frozenset({"php_tag", "text_interpolation"})


@dataclass(frozen=True, slots=True)
class Block:
    """Bytes [start, end) of the text: what stands in a function's, a loop's or a branch's body, with its braces if it has any.
    opener: where that construct begins (`if`, `def`, `for`); between opener and start stands its head. A file is no block."""

    opener: int
    start: int
    end: int


def block_openers(tree: SyntaxTree, start: int = 0, end: int | None = None) -> tuple[Block, ...]:
    """The blocks that touch bytes [start, end) of the text (to its end), in order of their beginning, outer ones first."""
    kinds = block_kinds(tree.language)
    found: dict[Block, None] = {}
    for around, node, _ in _walk(tree, start, end):
        if node.kind_id not in kinds or not around:
            continue
        block = opener = node
        if around[-1].kind_id not in kinds:
            for opener in reversed(around):
                if opener.type not in _WRAPPERS:
                    break
                block = opener
        found.setdefault(Block(opener.start_byte, block.start_byte, block.end_byte))
    return tuple(found)


def statement_ends(tree: SyntaxTree, start: int = 0, end: int | None = None) -> tuple[int, ...]:
    """Where statements that end in bytes (start, end] of the text end, in order: right behind their last character. A compound
    statement ends with its last block. Comments are no statements."""
    last = len(tree.text) if end is None else end
    kinds = block_kinds(tree.language)
    ends = {
        node.end_byte
        for around, node, is_field in _walk(tree, start, end)
        if around
        and around[-1].kind_id in kinds
        and node.is_named
        and node.kind_id not in kinds
        and not (node.is_extra or node.is_error or is_field or node.type in _NO_STATEMENTS)
    }
    return tuple(sorted(place for place in ends if start < place <= last))


def _walk(tree: SyntaxTree, start: int, end: int | None) -> Iterator[tuple[list[tree_sitter.Node], tree_sitter.Node, bool]]:
    """The nodes that touch [start, end), parents first, each with those around it (outermost first; the list goes on changing)
    and whether it is a field of the one around it (a condition, a name: no statement)."""
    last = len(tree.text) if end is None else end
    cursor = tree.root.walk()
    around: list[tree_sitter.Node] = []
    while True:
        node = cursor.node
        if node is None:
            return
        yield around, node, cursor.field_name is not None
        if node.start_byte < last and cursor.goto_first_child_for_byte(max(start, 0)) is not None:
            around.append(node)
            continue
        while not (node.end_byte < last and cursor.goto_next_sibling()):
            if not cursor.goto_parent():
                return
            node = around.pop()


@functools.cache
def block_kinds(language: str) -> frozenset[int]:
    """Ids of the nodes whose named children are statements."""
    ids = (grammar(language).id_for_node_kind(kind, True) for kind in QUERIES[language].blocks) if language in QUERIES else ()
    return frozenset(kind for kind in ids if kind is not None)
