"""How a language writes comments and strings, and how its blocks end: as much as rules over a stream need.

Owns the table. What is not in it is taken for prose with brackets. Refuses grammar: that is `context.gate`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Manner:
    """line_comments: what begins a comment that ends with its line. block_comments: beginnings and ends. quotes: characters
    around strings that end with their line at the latest; long_quotes: around those that don't. ends: words that close a
    block. goes_on: words at the opener's level that begin another branch. by_indent: blocks are told by indentation alone.
    file_heads: beginnings of lines that stand only at the top of a file."""

    line_comments: tuple[str, ...] = ()
    block_comments: tuple[tuple[str, str], ...] = ()
    quotes: str = "\"'"
    long_quotes: tuple[str, ...] = ()
    ends: frozenset[str] = frozenset()
    goes_on: frozenset[str] = frozenset()
    by_indent: bool = False
    file_heads: tuple[str, ...] = ()


_SLASHES = ("//",)
_STARS = (("/*", "*/"),)
_C_BRANCHES = frozenset({"else", "case", "default", "catch", "finally"})
_C = Manner(_SLASHES, _STARS, goes_on=_C_BRANCHES)
_SCRIPT = Manner(_SLASHES, _STARS, long_quotes=("`",), goes_on=_C_BRANCHES)
_JVM = Manner(_SLASHES, _STARS, long_quotes=('"""',), goes_on=_C_BRANCHES, file_heads=("package ",))
_PROSE = Manner(quotes="")

MANNERS = {
    "python": Manner(
        ("#",),
        long_quotes=('"""', "'''"),
        goes_on=frozenset({"else", "elif", "except", "finally", "case"}),
        by_indent=True,
        file_heads=("# -*- coding", "# coding:", "from __future__ import"),
    ),
    "typescript": _SCRIPT,
    "typescriptreact": _SCRIPT,
    "javascript": _SCRIPT,
    "javascriptreact": _SCRIPT,
    "go": Manner(_SLASHES, _STARS, long_quotes=("`",), goes_on=_C_BRANCHES, file_heads=("package ",)),
    "rust": Manner(_SLASHES, _STARS, quotes='"', goes_on=frozenset({"else"})),
    "java": _JVM,
    "c": _C,
    "cpp": _C,
    "csharp": Manner(_SLASHES, _STARS, long_quotes=('"""',), goes_on=_C_BRANCHES),
    "ruby": Manner(("#",), ends=frozenset({"end"}), goes_on=frozenset({"else", "elsif", "when", "rescue", "ensure", "in"})),
    "php": Manner(("//", "#"), _STARS, goes_on=_C_BRANCHES | {"elseif"}, file_heads=("<?php",)),
    "kotlin": _JVM,
    "scala": _JVM,
    "swift": Manner(_SLASHES, _STARS, quotes='"', long_quotes=('"""',), goes_on=_C_BRANCHES),
    "zig": Manner(_SLASHES, goes_on=frozenset({"else"})),
    "lua": Manner(("--",), (("--[[", "]]"),), ends=frozenset({"end", "until"}), goes_on=frozenset({"else", "elseif"})),
    "shellscript": Manner(
        ("#",), ends=frozenset({"fi", "done", "esac"}), goes_on=frozenset({"else", "elif"}), file_heads=("#!/",)
    ),
    "css": Manner(block_comments=_STARS),
    "sql": Manner(("--",), _STARS),
    "html": Manner(block_comments=(("<!--", "-->"),), quotes="", file_heads=("<!DOCTYPE", "<!doctype")),
    "markdown": _PROSE,
    "plaintext": _PROSE,
    "json": Manner(quotes='"'),
    "jsonc": Manner(_SLASHES, _STARS, quotes='"'),
    "yaml": Manner(("#",), by_indent=True),
    "toml": Manner(("#",), long_quotes=('"""', "'''")),
}
_OTHER = Manner((*_SLASHES, "#"), _STARS)


def manner_of(language: str) -> Manner:
    """For an unknown language what most have in common."""
    return MANNERS.get(language, _OTHER)
