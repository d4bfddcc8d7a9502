"""Pieces of files: what is found for a place becomes candidates for its prompt.

Owns the reading of files for prompts (regular ones, not longer than the index takes) and that no secret of one gets out of it.
Blocking: for a thread. Refuses to ask the index and to decide what goes in.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from context.languages import language_of
from context.ranking import Ranked
from context.secrets import redact
from context.symbol_types import Definition, FileSymbols
from context.types import DocumentSnapshot
from context.zones.edits import diff_lines
from context.zones.focus import Focus, definition_at
from context.zones.pieces import FileText, candidate
from context.zones.types import Candidate, Part
from lsp_server.index import reading
from lsp_server.plans.recent import Worked

MAX_BYTES = 512 * 1024
_MOST_KEPT = 48  # files whose text is remembered
_MOST_OPEN, _MOST_EDITS, _MOST_EDITED = 4, 4, 3
_OPEN_LINES = 8  # on each side of the last place in another open document
_RULE_LINES = 60
_CALL_LINES = 2
_RULES, _CALLER, _OPEN, _EDIT, _EDITED = 1000, 110, 40, 60, 90  # points


@dataclass(frozen=True, slots=True)
class Material:
    """All that was found. symbols: of the document; ranked: best first; definitions: of other files, by path; callers: paths
    of files that call what the cursor is in; names: used in the class around the focus, or in the focus, where there is none;
    near: bytes [start, end) of the document that its prompt holds anyway; rules: path of the file with the project's rules,
    "" = none."""

    snapshot: DocumentSnapshot
    path: str
    symbols: FileSymbols
    focus: Focus
    names: frozenset[str]
    near: tuple[int, int]
    ranked: tuple[Ranked, ...] = ()
    definitions: Mapping[str, tuple[Definition, ...]] = field(default_factory=dict)
    callers: tuple[str, ...] = ()
    others: tuple[Worked, ...] = ()
    own: Worked | None = None
    rules: str = ""


@dataclass(frozen=True, slots=True)
class Naming:
    """told: the path that a model is told for a file's path. source: its document id. may: whether it may be used at all."""

    told: Callable[[str], str]
    source: Callable[[str], str]
    path: Callable[[str], str]
    may: Callable[[str], bool]


class Quotes:
    """Remembers the texts of a few files, until they change."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, tuple[tuple[int, int], FileText]] = OrderedDict()

    def forget(self) -> None:
        self._files.clear()

    def candidates(self, material: Material, naming: Naming) -> tuple[Candidate, ...]:
        """Never raises for what a file holds or has become."""
        return (
            *self._rules(material, naming),
            *self._definitions(material, naming),
            *self._callers(material, naming),
            *_edited(material, naming),
            *_edits(material, naming),
            *_open(material, naming),
        )

    def _text(self, path: str, naming: Naming) -> FileText | None:
        if not naming.may(path):
            return None
        stamp = reading.stamp_of(path)
        known = self._files.get(path)
        if stamp is None:
            return None
        mark = (stamp.mtime_ns, stamp.size)
        if known is not None and known[0] == mark:
            self._files.move_to_end(path)
            return known[1]
        got = reading.read(path, MAX_BYTES)
        if got is None or b"\0" in got.data[:8192]:
            return None
        text = FileText(got.data, language_of(PurePath(path).name, got.data))
        self._files[path] = ((got.stamp.mtime_ns, got.stamp.size), text)
        while len(self._files) > _MOST_KEPT:
            self._files.popitem(last=False)
        return text

    def _definitions(self, material: Material, naming: Naming) -> list[Candidate]:
        found: list[Candidate] = []
        taken: set[tuple[str, int]] = set()
        is_asked = any(r.row.path == material.path for r in material.ranked)
        own = FileText(material.snapshot.text.bytes(), material.snapshot.language) if is_asked else None
        classes = {(r.row.path, (*r.row.scope, r.row.name)) for r in material.ranked if r.row.kind in ("class", "interface")}
        for ranked in material.ranked:
            row = ranked.row
            is_own = row.path == material.path
            if (row.path, row.scope) in classes and not is_own:
                continue  # its class shows it
            known = material.symbols.definitions if is_own else material.definitions.get(row.path, ())
            definition = next((each for each in known if (each.start, each.name) == (row.start, row.name)), None)
            if definition is None or (row.path, row.start) in taken:
                continue
            if is_own and (definition.start < material.near[1] and definition.end > material.near[0]):
                continue
            if not naming.may(row.path):
                continue
            taken.add((row.path, row.start))
            inside = (*row.scope, row.name)
            shown = tuple((r.row.name, r.points) for r in material.ranked if (r.row.path, r.row.scope) == (row.path, inside))
            found.append(
                candidate(
                    definition,
                    known,
                    own if is_own else self._text(row.path, naming),
                    path=naming.told(row.path),
                    points=ranked.points,
                    why=ranked.reason,
                    names=material.names,
                    source=naming.source(row.path),
                    kind="own" if is_own else "definition",
                    shown=shown,
                )
            )
        return found

    def _callers(self, material: Material, naming: Naming) -> list[Candidate]:
        name = material.focus.name.rpartition(".")[2]
        found: list[Candidate] = []
        if not name:
            return found
        call = re.compile(rf"(?<![\w]){re.escape(name)}\s*\(")
        for i, path in enumerate(material.callers):
            text = self._text(path, naming)
            if text is None:
                continue
            defined = {text.line_of(each.name_start) for each in material.definitions.get(path, ()) if each.name == name}
            row = next((n for n, line in enumerate(text.lines) if n not in defined and call.search(line)), None)
            if row is None:
                continue
            offset = text.start_of(row)
            inside = definition_at(material.definitions.get(path, ()), offset)
            head = [] if inside is None else [redact(inside.signature)]
            lines = text.lines[max(row - 1, 0) : row + _CALL_LINES]
            parts = (Part("A", (*head, *lines)),)
            why, source = f"calls {name}, in which the cursor is", naming.source(path)
            told, points = naming.told(path), _CALLER - 20 * i
            found.append(Candidate("reference", "caller", told, f"call of {name}", parts, points, why, source, offset))
        return found

    def _rules(self, material: Material, naming: Naming) -> list[Candidate]:
        text = self._text(material.rules, naming) if material.rules else None
        lines = [] if text is None else [line.rstrip() for line in text.lines if line.strip()]
        if not lines:
            return []
        parts = tuple(Part("A" if i == 0 else "B", (line,)) for i, line in enumerate(lines[:_RULE_LINES]))
        path = naming.told(material.rules)
        return [
            Candidate("rolling", "rules", path, "rules", parts, _RULES, "the project's rules", naming.source(material.rules))
        ]


def _edited(material: Material, naming: Naming) -> list[Candidate]:
    """Functions of the document that were edited last and lie outside of what its prompt holds anyway."""
    if material.own is None or material.own.snapshot.version != material.snapshot.version:
        return []
    found: dict[int, Candidate] = {}
    text: FileText | None = None
    for hunk in reversed(material.own.hunks):
        definition = definition_at(material.symbols.definitions, hunk.start)
        if definition is None or definition.kind not in ("function", "method") or definition.start in found:
            continue
        if definition.start < material.near[1] and definition.end > material.near[0]:
            continue
        if len(found) == _MOST_EDITED:
            break
        text = text or FileText(material.snapshot.text.bytes(), material.snapshot.language)
        found[definition.start] = candidate(
            definition, (), text, path=naming.told(material.path), points=_EDITED - len(found), why="edited lately",
            names=material.names, source=material.snapshot.doc_id, zone="core", kind="edited",
        )  # fmt: skip
    return list(found.values())


def _edits(material: Material, naming: Naming) -> list[Candidate]:
    """The latest hunks of all documents, but for what stands around the cursor."""
    found: list[tuple[float, Candidate]] = []
    for worked in (*([material.own] if material.own is not None else []), *material.others):
        is_own = worked.snapshot.doc_id == material.snapshot.doc_id
        path = material.path if is_own else naming.path(worked.snapshot.doc_id)
        for hunk in worked.hunks:
            if is_own and hunk.start < material.near[1] and hunk.end > material.near[0]:
                continue
            lines = diff_lines(hunk, worked.snapshot.text)
            if lines:
                told = naming.told(path)
                name = f"change at line {worked.snapshot.text.line_of(hunk.start) + 1}"
                parts = (Part("A", tuple(redact("\n".join(lines)).split("\n"))),)
                source = worked.snapshot.doc_id
                found.append(
                    (hunk.time, Candidate("rolling", "edit", told, name, parts, 0, "changed lately", source, hunk.start))
                )
    found.sort(key=lambda entry: -entry[0])
    return [_with_points(each, _EDIT - i) for i, (_, each) in enumerate(found[:_MOST_EDITS])]


def _with_points(each: Candidate, points: int) -> Candidate:
    return Candidate(each.zone, each.kind, each.path, each.name, each.parts, points, each.why, each.source, each.start)


def _open(material: Material, naming: Naming) -> list[Candidate]:
    """Around the last place in the other documents that are open, the one used last first."""
    found: list[Candidate] = []
    for worked in material.others:
        if worked.place is None or len(found) == _MOST_OPEN or len(worked.snapshot.text) > MAX_BYTES:
            continue
        text = worked.snapshot.text
        row = text.line_of(text.floor(min(worked.place, len(text))))
        lines = [line.rstrip("\r") for line in redact(text.bytes().decode("utf-8", "replace")).split("\n")]
        piece = tuple(line for line in lines[max(row - _OPEN_LINES, 0) : row + _OPEN_LINES] if line.strip())
        if piece:
            told = naming.told(naming.path(worked.snapshot.doc_id))
            parts, points, source = (Part("B", piece),), _OPEN - len(found), worked.snapshot.doc_id
            name, why = f"around line {row + 1}", "worked on lately"
            found.append(Candidate("reference", "open", told, name, parts, points, why, source, row))
    return found
