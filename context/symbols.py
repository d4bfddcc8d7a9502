"""Symbols of a file, from its bytes alone: what it defines, what it imports, which names it uses.

Owns the door to them. Refuses to look at other files, to rank, and to fail on broken code.
"""

from __future__ import annotations

from context.extraction import Extraction
from context.grammars import NoGrammar
from context.queries import compiled
from context.symbol_types import KINDS, MAX_DOC, MAX_SIGNATURE, Definition, FileSymbols, Import, Use
from context.syntax import NoTree, SyntaxTree, parse

__all__ = [
    "KINDS",
    "MAX_DOC",
    "MAX_SIGNATURE",
    "Definition",
    "FileSymbols",
    "Import",
    "Use",
    "symbols_of",
    "symbols_of_tree",
]


def symbols_of(language: str, data: bytes) -> FileSymbols:
    """Symbols of a file's bytes in a language (LSP's id). Never raises; what has no tree has no symbols: an unknown language, a
    missing grammar, a huge or minified file."""
    tree = parse(language, data)
    if isinstance(tree, NoTree):
        return FileSymbols(language, (), (), (), len(data), False)
    return symbols_of_tree(tree, data)


def symbols_of_tree(tree: SyntaxTree, data: bytes) -> FileSymbols:
    """Symbols of a tree that is there already. data: the file's bytes, as many as its text has."""
    try:
        queries = compiled(tree.language)
    except NoGrammar:
        return FileSymbols(tree.language, (), (), (), len(data), tree.has_error)
    found = Extraction(queries, tree.root, data)
    return FileSymbols(tree.language, found.definitions, found.imports, found.uses, len(data), tree.has_error)
