"""Ends that only begin something: `self.`, `return x->`.

Owns what counts as one, and what is left without it.
"""

from __future__ import annotations

import re

from lsp_server.rules.place import Place

_NO_MEMBERS = frozenset({"markdown", "plaintext", "shellscript", "css", "html", "yaml", "json", "jsonc", "toml", "sql", "lua"})
# names joined by dots or arrows, with one of these at the end; `...`, `0..` and `1.` are none
_STUMP = re.compile(r"(?:[^\W\d]\w*(?:\(\))?(?:\?\.|\.|->|::))+\Z")
_SIGNS_END = frozenset(")]};:,\"'`>/._-#")
_WAITS = re.compile(r"(?:[=(\[{,+\-*/%&|<>!~^]|\b(?:return|and|or|not|in|is|if|else|await|yield|new|throw|raise|case))\Z")


def without_stump(place: Place, text: str) -> str:
    """The text without one at its end. What then still waits for something goes too, as far as its line."""
    if place.language in _NO_MEMBERS:
        return text
    if not place.line.strip() and text and not any(map(str.isalnum, text)) and text[-1] not in _SIGNS_END:
        return ""  # a statement of signs alone
    if not text.endswith((".", "->", "::")):
        return text
    if place.rest[:1].isalnum() or place.rest[:1] == "_":
        return text  # it goes on behind the cursor
    found = _STUMP.search(text)
    scanner = place.scanner()
    scanner.feed_all(text)
    if found is None or scanner.inside:
        return text
    kept = text[: found.start()].rstrip(" \t")
    line = kept.rsplit("\n", 1)[-1]
    if kept and _WAITS.search(line) is None and line.strip():
        return kept.rstrip()
    return kept[: len(kept) - len(line)].rstrip()
