"""What a definition of another place looks like in a prompt.

Owns the parts of a piece: the signature as it is written (grade A), its documentation (D), a body (B), the other members of a
class (grade C). How much of documentation and bodies there is, `context.trim` says. Pure: a file's text and what is known of
its symbols in, candidates out. Refuses to rank and to count tokens. Offsets are bytes of the file; secrets have been taken out
of the lines before (`context.secrets`), which leaves lines what they are.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate

from context.secrets import redact
from context.symbol_types import Definition
from context.symbols import symbols_of
from context.trim import skeleton
from context.zones.types import Candidate, Part, digest_of

MAX_LINES = 1500  # of a definition; what stands behind them is not looked at
MAX_LINE = 400  # characters
MAX_BODY = 24  # lines; of a body that is longer even so the first ones
MAX_SIGNATURE_LINES = 12
MAX_MEMBERS = 24
MAX_DOC = 110  # characters
_CLASSES = frozenset({"class", "interface", "enum", "type"})
_MAKERS = frozenset({"__init__", "__new__", "constructor", "new", "init", "initialize", "__construct", "New"})
_VALUES = frozenset({"constant", "variable", "field"})
_WORD = re.compile(r"\w")
_QUOTES = ('"""', "'''")


class FileText:
    """A file as pieces are cut from it. data: its bytes. lines: without secrets, as many as `data` has. language: LSP's id."""

    def __init__(self, data: bytes, language: str = "", *, has_secrets: bool = True) -> None:
        self.data = data
        self.language = language
        text = data.decode("utf-8", "replace")
        self.lines = [line.rstrip("\r") for line in (redact(text) if has_secrets else text).split("\n")]
        self._starts = [0, *accumulate(len(line) + 1 for line in data.split(b"\n"))]

    def line_of(self, offset: int) -> int:
        return min(max(bisect_right(self._starts, offset) - 1, 0), len(self.lines) - 1)

    def start_of(self, line: int) -> int:
        return self._starts[line]

    def holds(self, definition: Definition) -> bool:
        """Is the definition still where it is said to be?"""
        name = definition.name.encode("utf-8", "replace")
        return definition.name_start >= 0 and self.data.startswith(name, definition.name_start)


def candidate(
    definition: Definition,
    members: Sequence[Definition],
    text: FileText | None,
    *,
    path: str,
    points: int,
    why: str,
    names: frozenset[str],
    source: str = "",
    zone: str = "reference",
    kind: str = "definition",
    shown: tuple[tuple[str, int], ...] = (),
) -> Candidate:
    """The piece of a definition. members: what is defined in it. text: None: only what is known of it by itself. names: used
    at the place that asks. shown: names of members that count here, with their points."""
    if text is None or not text.holds(definition):
        parts = _told(definition)
    else:
        owners = (each for each in members if (*each.scope, each.name) == definition.scope)
        owner = next((each for each in owners if each.kind in _CLASSES and text.holds(each)), None)
        parts = _shortened(definition, owner, text, names)
    name = ".".join((*definition.scope, definition.name))
    of_text = ""
    if text is not None and text.holds(definition):
        first, _, last = _rows(definition, text)
        of_text = digest_of("\n".join(text.lines[first : last + 1]))
    return Candidate(zone, kind, path, name, parts, points, why, source, definition.start, of_text, shown)


def _told(definition: Definition) -> tuple[Part, ...]:
    doc = _short(definition.doc)
    return _parts((("A", [redact(definition.signature)]), ("D", [f"    {doc}"] if doc else [])))


def _parts(graded: Iterable[tuple[str, Sequence[str]]]) -> tuple[Part, ...]:
    return tuple(Part(grade, tuple(lines)) for grade, lines in graded if lines)


def _short(doc: str) -> str:
    """The first sentence of it, or as much as fits."""
    told = redact(doc)
    end = told.find(". ", 0, MAX_DOC)
    if end > 0:
        return told[: end + 1]
    return told if len(told) <= MAX_DOC else told[: told.rfind(" ", 0, MAX_DOC)] + " ..."


def _shortened(definition: Definition, owner: Definition | None, text: FileText, names: frozenset[str]) -> tuple[Part, ...]:
    """The parts of what `context.trim` leaves of a definition; of a method, of its class, with the line that names that."""
    lines = _rows_of(definition, owner, text)
    kept = frozenset({definition.name}) if owner is not None else names | {definition.name}
    made = skeleton("\n".join(lines).encode("utf-8", "replace"), text.language, keep=kept).text
    short, known = FileText(made, has_secrets=False), symbols_of(text.language, made).definitions
    inside = (owner.name,) if owner is not None else ()
    found = next((each for each in known if (each.name, each.scope) == (definition.name, inside)), None)
    if found is None:  # it does not parse on its own
        n = len(_indent(text.lines[_rows(definition, text)[0]]))
        parts = [
            Part(part.grade, tuple(line[n : n + MAX_LINE] for line in part.lines)) for part in _plain_parts(definition, text)
        ]
        return tuple(parts) if owner is None else (Part("A", (lines[0],)), *(_indented(part) for part in parts))
    if owner is not None:
        above = next((each for each in known if (each.name, each.scope) == (owner.name, ())), None)
        row = short.lines[short.line_of(above.name_start)] if above is not None else lines[0]
        return (Part("A", (row,)), *_plain_parts(found, short))
    return _class_parts(found, known, short, names) if definition.kind in _CLASSES else _plain_parts(found, short)


def _rows_of(definition: Definition, owner: Definition | None, text: FileText) -> list[str]:
    """The lines of a definition as a text of its own: in its class's first lines and end, if it has one. None is long."""
    first, _, last = _rows(definition, text)
    lines = text.lines[first : min(last + 1, first + MAX_LINES)]
    if owner is not None:
        start, body, end = _rows(owner, text)
        closer = text.lines[end]
        lines = [
            *text.lines[start : min(body, first)],
            *lines,
            *([] if _WORD.search(closer) and closer.strip() != "end" else [closer]),
        ]
    return _dedented(line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]} ..." for line in lines)


def _indented(part: Part) -> Part:
    return Part(part.grade, tuple(f"    {line}" if line else line for line in part.lines), part.names)


def _plain_parts(definition: Definition, text: FileText) -> tuple[Part, ...]:
    first, body_first, last = _rows(definition, text)
    if definition.kind in _VALUES:
        return (Part("A", tuple(text.lines[first : min(last, first + 5) + 1])),)
    head = text.lines[first:body_first]
    if not head or len(head) > MAX_SIGNATURE_LINES:
        head = [f"{_indent(text.lines[first])}{redact(definition.signature)}"]
    doc, body = _doc_and_body(text.lines[body_first : min(last + 1, body_first + MAX_BODY)], definition)
    return _parts((("A", head), ("D", doc), ("B", body)))


def _class_parts(
    definition: Definition, members: Sequence[Definition], text: FileText, names: frozenset[str]
) -> tuple[Part, ...]:
    first, body_first, last = _rows(definition, text)
    inside = (*definition.scope, definition.name)
    mine = [each for each in members if each.scope == inside and text.holds(each)]
    head = text.lines[first:body_first]
    if not head or len(head) > MAX_SIGNATURE_LINES:
        head = [f"{_indent(text.lines[first])}{redact(definition.signature)}"]
    doc, body = _doc_and_body(text.lines[body_first : min(last + 1, body_first + MAX_BODY)], definition)
    if not mine:  # an enum, an interface, a record: its body is what it is
        return _parts((("A", head), ("D", doc), ("B", body)))
    parts = [*_parts((("A", head), ("D", doc)))]
    others: list[str] = []
    other_names: list[str] = []
    n_values = 0
    shown = -1  # up to here the file was shown: a field that a constructor assigns stands there
    for each in mine:
        row = text.line_of(each.start)
        if row <= shown:
            continue
        if each.kind in _VALUES:
            n_values += 1
            if n_values > MAX_MEMBERS and each.name not in names:
                continue
            grade = "A" if each.name in names else "B"
            parts.append(Part(grade, (text.lines[row],)))
        elif each.name in names or each.name in _MAKERS:
            shown = text.line_of(max(each.end - 1, each.start))
            told = _plain_parts(each, text)
            is_said = each.name in names  # a constructor is seldom called by its name, and its signature is often long
            parts += told if is_said else (replace(part, grade="E") if part.grade == "A" else part for part in told)
        elif not each.name.startswith("_") and len(other_names) < MAX_MEMBERS:
            others += _signature_rows(each, text)
            other_names.append(each.name)
    if others:
        parts.append(Part("C", tuple(others), tuple(other_names)))
    return tuple(parts)


def _signature_rows(definition: Definition, text: FileText) -> list[str]:
    first, body_first, _ = _rows(definition, text)
    head = text.lines[first:body_first]
    return head if 0 < len(head) <= 4 else [f"{_indent(text.lines[first])}{redact(definition.signature)}"]


def _rows(definition: Definition, text: FileText) -> tuple[int, int, int]:
    """First line, first line of the body, last line. A body that begins on the signature's last line (a brace) begins behind
    it."""
    first, last = text.line_of(definition.start), text.line_of(max(definition.end - 1, definition.start))
    if definition.body_start >= definition.end:
        return first, last + 1, last
    body_first = text.line_of(definition.body_start)
    opens = text.data[definition.body_start : definition.body_start + 1]
    if (opens in (b"{", b"(") or body_first == first) and body_first < last:
        body_first += 1
    elif body_first == last == first:
        body_first = last + 1
    while body_first - 1 > first and text.lines[body_first - 1].strip().startswith(("#", "//", "/*", "*")):
        body_first -= 1  # a comment in front of the first statement
    return first, body_first, last


def _doc_and_body(body: list[str], definition: Definition) -> tuple[list[str], list[str]]:
    """The doc string that a body begins with, and the rest."""
    quote = next((quote for quote in _QUOTES if body[0].strip().lstrip("rRuU").startswith(quote)), "") if body else ""
    if not quote or not definition.doc:
        return [], body
    n = 1
    if body[0].count(quote) < 2:
        while n < len(body) and quote not in body[n]:
            n += 1
        n += 1
    return body[:n], body[n:]


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _dedented(lines: Iterable[str]) -> list[str]:
    rows = list(lines)
    n = min((len(_indent(line)) for line in rows if line.strip()), default=0)
    return [line[n:] for line in rows]
