"""What a definition of another place looks like in a prompt.

Owns the parts of a piece: the signature as it is written (grade A), the first line of its documentation (D), a body (B), the
other members of a class (grade C). Pure: a file's text and what is known of its symbols in, candidates out. Refuses to rank
and to count tokens. Offsets are bytes of the file; secrets have been taken out of the lines before (`context.secrets`), which
leaves lines what they are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from context.secrets import redact
from context.symbol_types import Definition
from context.zones.types import Candidate, Part, digest_of

MAX_BODY = 24  # lines; of a longer body the first ones
MAX_SIGNATURE_LINES = 12
MAX_MEMBERS = 24
MAX_DOC = 110  # characters
_CLASSES = frozenset({"class", "interface", "enum", "type"})
_MAKERS = frozenset({"__init__", "__new__", "constructor", "new", "init", "initialize", "__construct", "New"})
_VALUES = frozenset({"constant", "variable", "field"})
_QUOTES = ('"""', "'''")


class FileText:
    """A file as pieces are cut from it. data: its bytes. lines: without secrets, as many as `data` has."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        text = data.decode("utf-8", "replace")
        self.lines = [line.rstrip("\r") for line in redact(text).split("\n")]
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
    elif definition.kind in _CLASSES:
        parts = _class_parts(definition, members, text, names)
    else:
        parts = _plain_parts(definition, text, dedent=True)
        owner = (
            next((each for each in members if (*each.scope, each.name) == definition.scope), None) if definition.scope else None
        )
        if owner is not None and owner.kind in _CLASSES and text.holds(owner):
            parts = (Part("A", (_owner_row(owner, text),)), *(_indented(part) for part in parts))
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


def _plain_parts(definition: Definition, text: FileText, *, dedent: bool) -> tuple[Part, ...]:
    first, body_first, last = _rows(definition, text)
    if definition.kind in _VALUES:
        lines = text.lines[first : min(last, first + 5) + 1]
        return (Part("A", tuple(_dedented(lines) if dedent else lines)),)
    head = text.lines[first:body_first]
    body = text.lines[body_first : last + 1]
    if not head or len(head) > MAX_SIGNATURE_LINES:
        indent = _indent(text.lines[first])
        head = [f"{indent}{redact(definition.signature)}"]
    body, doc = _without_doc(body, definition)
    if len(body) > MAX_BODY:
        body = [*body[: MAX_BODY // 3], f"{_indent(body[0])}..."]
    lines = [*head, *doc, *body]
    if dedent:
        lines = _dedented(lines)
    return _in_grades(lines, len(head), len(doc))


def _in_grades(lines: Sequence[str], n_head: int, n_doc: int) -> tuple[Part, ...]:
    return _parts((("A", lines[:n_head]), ("D", lines[n_head : n_head + n_doc]), ("B", lines[n_head + n_doc :])))


def _class_parts(
    definition: Definition, members: Sequence[Definition], text: FileText, names: frozenset[str]
) -> tuple[Part, ...]:
    first, body_first, last = _rows(definition, text)
    inside = (*definition.scope, definition.name)
    mine = [each for each in members if each.scope == inside and text.holds(each)]
    head = text.lines[first:body_first]
    if not head or len(head) > MAX_SIGNATURE_LINES:
        head = [f"{_indent(text.lines[first])}{redact(definition.signature)}"]
    if not mine:  # an enum, an interface, a record: its body is what it is
        body, doc = _without_doc(text.lines[body_first : last + 1], definition)
        body = body[:MAX_BODY]
        return _in_grades(_dedented([*head, *doc, *body]), len(head), len(doc))
    cut = len(_indent(head[0]))
    doc = [f"    {_short(definition.doc)}"] if definition.doc else []
    parts = [*_parts((("A", [line[cut:] for line in head]), ("D", doc)))]
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
            parts.append(Part(grade, (text.lines[row][cut:],)))
        elif each.name in names or each.name in _MAKERS:
            kept = _plain_parts(each, text, dedent=False)
            shown = text.line_of(max(each.end - 1, each.start))
            parts += [Part(part.grade, tuple(line[cut:] for line in part.lines)) for part in kept]
        elif not each.name.startswith("_") and len(other_names) < MAX_MEMBERS:
            others += (line[cut:] for line in _signature_rows(each, text))
            other_names.append(each.name)
    if others:
        parts.append(Part("C", tuple(others), tuple(other_names)))
    return tuple(parts)


def _owner_row(owner: Definition, text: FileText) -> str:
    """The line that names the class of a method."""
    return text.lines[text.line_of(owner.name_start)].strip()


def _indented(part: Part) -> Part:
    return Part(part.grade, tuple(f"    {line}" if line else line for line in part.lines), part.names)


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


def _without_doc(body: list[str], definition: Definition) -> tuple[list[str], list[str]]:
    """A body without the doc string that it begins with, and the first line of that."""
    if not definition.doc or not body:
        return body, []
    stripped = body[0].strip().lstrip("rRuU")
    quote = next((quote for quote in _QUOTES if stripped.startswith(quote)), "")
    if not quote:
        return body, []
    n = 1
    if stripped.count(quote) < 2:
        while n < len(body) and quote not in body[n]:
            n += 1
        n += 1
    return body[n:], [f"{_indent(body[0])}{quote}{_short(definition.doc)}{quote}"]


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _dedented(lines: Iterable[str]) -> list[str]:
    rows = list(lines)
    n = min((len(_indent(line)) for line in rows if line.strip()), default=0)
    return [line[n:] for line in rows]
