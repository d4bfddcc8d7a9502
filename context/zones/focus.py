"""What somebody is working on at a place: the function or class around the cursor, and the names that matter there.

Owns the *focus*, a stretch of the file inside of which moving changes nothing: names in it are near, wherever in it the
cursor is. And the wider one whose names decide how much is shown of what was found: that is the class around it. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from context.ranking import FAR_BYTES, NameUse
from context.symbol_types import Definition, FileSymbols
from context.text import Text

_INDENTED = frozenset({"python"})  # a block ends with its last statement; whether one is still in it the indentation tells
_HOLDS = frozenset({"function", "method", "class", "interface", "module"})
_CLASSES = frozenset({"class", "interface"})
_MOST_BYTES = 8192  # of a focus: of a longer function or class the part around the cursor, on a coarse grid
_GRID = 2048
_LOOK_BACK = 2048


@dataclass(frozen=True, slots=True)
class Inside:
    """A place to ask a tree about. column: where the line's own text begins; None: the tree alone decides."""

    offset: int
    column: int | None


@dataclass(frozen=True, slots=True)
class Focus:
    """Bytes [start, end). name: of the innermost definition there, with what encloses it; "" outside of all."""

    start: int
    end: int
    name: str = ""


def place_inside(language: str, text: Text, cursor: int) -> Inside:
    """Where a tree knows what encloses the cursor. In a language of indentation that is the last character before it."""
    if language not in _INDENTED:
        return Inside(cursor, None)
    line_start = text.line_start(text.line_of(cursor))
    before = text.slice(text.floor(max(cursor - _LOOK_BACK, 0)), cursor)
    last = cursor - len(before) + len(before.rstrip())
    line = text.slice(line_start, min(text.line_end(text.line_of(cursor)), text.floor(line_start + 256)))
    column = len(line) - len(line.lstrip(b" \t"))
    return Inside(max(last - 1, 0), column if line.strip() else max(column, cursor - line_start))


def focus_of(symbols: FileSymbols, text: Text, cursor: int) -> Focus:
    """The innermost function around the cursor, else the class; outside of both the stretch up to the next of them."""
    inside = place_inside(symbols.language, text, cursor)
    around: list[Definition] = []
    last_before, next_after = 0, len(text)
    for each in symbols.definitions:
        if each.kind not in _HOLDS:
            continue
        if each.start <= inside.offset < each.end or (each.start <= cursor < each.end):
            column = each.start - text.line_start(text.line_of(min(each.start, len(text))))
            if inside.column is None or cursor < each.body_start or column < inside.column:
                around.append(each)
                continue
        if each.end <= cursor:
            last_before = max(last_before, each.end)
        elif each.start > cursor:
            next_after = min(next_after, each.start)
    if not around:
        return _bounded(last_before, next_after, cursor, "")
    inner = max(around, key=lambda each: (each.start, -each.end))
    return _bounded(inner.start, max(inner.end, cursor), cursor, ".".join((*inner.scope, inner.name)))


def _bounded(start: int, end: int, cursor: int, name: str) -> Focus:
    if end - start <= _MOST_BYTES:
        return Focus(start, end, name)
    middle = start + (cursor - start) // _GRID * _GRID
    return Focus(max(start, middle - _GRID), min(end, middle + 2 * _GRID), name)


def names_in(symbols: FileSymbols, focus: Focus) -> tuple[NameUse, ...]:
    """The names that a file uses, each with the distance of its nearest use from the focus: 0 in it. By name."""
    found: dict[str, NameUse] = {}
    for use in symbols.uses:
        end = use.start + len(use.name.encode("utf-8", "replace"))
        distance = max(focus.start - end, use.start - focus.end, 0)
        before = found.get(use.name, NameUse(use.name, 0, 0, distance))
        found[use.name] = NameUse(use.name, before.count + 1, before.n_calls + use.is_call, min(before.distance, distance))
    return tuple(found[name] for name in sorted(found) if found[name].distance <= FAR_BYTES)


def names_around(symbols: FileSymbols, focus: Focus) -> frozenset[str]:
    """The names that are used in the innermost class around the focus; outside of classes, in the focus."""
    classes = [each for each in symbols.definitions if each.kind in _CLASSES and each.start <= focus.start < each.end]
    if classes:
        inner = max(classes, key=lambda each: (each.start, -each.end))
        focus = _bounded(inner.start, max(inner.end, focus.end), focus.start, focus.name)
    return frozenset(use.name for use in symbols.uses if focus.start <= use.start < focus.end)


def enclosing(symbols: FileSymbols, focus: Focus) -> Definition | None:
    """The definition that is the focus; None outside of all."""
    parts = tuple(focus.name.split(".")) if focus.name else ()
    return next((each for each in symbols.definitions if (*each.scope, each.name) == parts), None)


def definition_at(definitions: Sequence[Definition], offset: int) -> Definition | None:
    """The innermost function or class that holds a byte."""
    around = [each for each in definitions if each.kind in _HOLDS and each.start <= offset < each.end]
    return max(around, key=lambda each: (each.start, -each.end), default=None)
