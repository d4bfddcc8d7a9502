"""The editor's side of a text: positions in UTF-16 units, edits, and what accepting an item makes of it.

Written from the specification and on strings, so that it shares nothing with the server that it checks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_BREAK = re.compile(r"\r\n|\r|\n")


def index(text: str, position: Mapping[str, int]) -> int:
    """Clamped as the specification says. ValueError inside a surrogate pair."""
    starts = [0, *(found.end() for found in _BREAK.finditer(text))]
    if position["line"] >= len(starts):
        return len(text)
    at = starts[position["line"]]
    units = position["character"]
    while units > 0 and at < len(text) and text[at] not in "\r\n":
        units -= 2 if ord(text[at]) > 0xFFFF else 1
        at += 1
    if units < 0:
        raise ValueError("inside a surrogate pair")
    return at


def replaced(text: str, where: Mapping[str, Any], new: str) -> str:
    """ValueError for a reversed range."""
    start, end = index(text, where["start"]), index(text, where["end"])
    if start > end:
        raise ValueError("a reversed range")
    return text[:start] + new + text[end:]


def changed(text: str, changes: list[Mapping[str, Any]]) -> str:
    """After a didChange; unchanged if one of its changes is impossible."""
    after = text
    try:
        for change in changes:
            after = replaced(after, change["range"], change["text"]) if change.get("range") else change["text"]
    except ValueError:
        return text
    return after


def accepted(text: str, item: Mapping[str, Any], cursor: Mapping[str, int]) -> str:
    """After the item was accepted; its range holds the cursor, on the cursor's line."""
    where = item.get("range") or {"start": cursor, "end": cursor}
    assert where["start"]["line"] == where["end"]["line"] == cursor["line"], "the range leaves the cursor's line"
    assert where["start"]["character"] <= cursor["character"] <= where["end"]["character"], "the cursor is not in the range"
    return replaced(text, where, item["insertText"])
