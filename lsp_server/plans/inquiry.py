"""What is asked of the workspace's index about a place, and what comes of the answers.

Owns which names are asked about, whose callers count, and which files are looked into. Lives on the event loop and only waits
there: the answers come from the index's own thread. Refuses to read files and to choose.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import Protocol

from context.ranking import DefinitionRow, Here, ImportedFile, NameUse, Ranked, rank
from context.symbol_types import Definition, FileSymbols, Import, Use
from context.types import DocumentSnapshot
from context.zones.focus import Focus, names_around
from lsp_server.index.rows import Defined, FileRow, UsedIn
from lsp_server.plans.layouts import file_name
from lsp_server.plans.quoting import Material
from lsp_server.plans.recent import Recent
from lsp_server.uris import document_id, is_on_disk, path_of

MOST_NAMES, MOST_ROWS, MOST_IMPORTS = 48, 24, 64
MOST_RANKED = 40
MOST_CALLERS, COMMON = 3, 3  # a name with more definitions than that says nothing of who calls this one
_BYTES_A_TOKEN = 4
_ROUGH_BYTES = 2048
_NAME = re.compile(rb"(?<![\w\x80-\xff])([A-Za-z_]\w{1,63})(\s{0,2}\()?")
MOST_HOMES = 2  # files that define what another one passes on
_DOORS = frozenset({"__init__", "index", "mod", "lib"})


class Index(Protocol):
    """What is asked of `lsp_server.index.room.IndexRoom`."""

    def covers(self, doc_id: str) -> bool: ...
    async def definitions_of(self, name: str, most: int = ...) -> tuple[Defined, ...]: ...
    async def uses_of(self, name: str, most: int = ...) -> tuple[UsedIn, ...]: ...
    async def symbols_in(self, doc_id: str) -> FileRow | None: ...
    async def resolve(self, doc_id: str, language: str, one: Import) -> tuple[str, ...]: ...


class Inquiry:
    """why_private: why a document may not be used, or "". roots: paths of the workspace folders."""

    def __init__(
        self, index: Index, recent: Recent, why_private: Callable[[str], str], roots: Callable[[], Sequence[str]]
    ) -> None:
        self._index = index
        self._recent = recent
        self._why_private = why_private
        self._roots = roots

    async def material(
        self,
        snapshot: DocumentSnapshot,
        offset: int,
        symbols: FileSymbols,
        focus: Focus,
        names: tuple[NameUse, ...],
        near: tuple[int, int],
        rules: str,
        previous: Sequence[Ranked],
    ) -> Material:
        """near: most tokens of the document itself before and behind the cursor. rules: the setting rules_file. previous: the
        order that stands."""
        path = path_of(snapshot.doc_id)
        files, own_names = await self._imported(snapshot, symbols), frozenset(each.name for each in symbols.definitions)
        wanted = _wanted_names(names, symbols.imports)
        found: dict[tuple[str, int, str], Defined] = {}
        for name in wanted:
            for each in await self._index.definitions_of(name, MOST_ROWS):
                found.setdefault((each.path, each.definition.start, name), each)
        files = (*files, *_passed_on(files, found.values()))
        used = {name.name for name in names if name.distance == 0}
        definitions: dict[str, tuple[Definition, ...]] = {}
        for file in files:
            if not file.names and not used.isdisjoint(_called(symbols.imports, file.path)):
                await self._note(file.path, definitions)
        rows = [
            *(_row(each.path, each.definition) for each in found.values() if each.path != path),
            *(_row(where, each) for where, known in definitions.items() for each in known if _is_public(each)),
            *(_row(path, each) for each in symbols.definitions if each.name in used and each.kind != "field"),
        ]
        recent = [worked for worked in self._recent.all() if self._is_usable(worked.snapshot.doc_id)]
        others = tuple(worked for worked in recent if worked.snapshot.doc_id != snapshot.doc_id)
        open_paths = tuple(path_of(worked.snapshot.doc_id) for worked in others)
        here = Here(path, names, own_names, files, open_paths)
        ranked = rank(rows, here, previous=previous, n_max=MOST_RANKED)
        for one in ranked:
            if one.row.path != path:
                await self._note(one.row.path, definitions)
        callers = await self._callers(focus, path, definitions)
        before, behind = near
        around = (
            snapshot.text.floor(max(offset - _BYTES_A_TOKEN * before, 0)),
            snapshot.text.floor(min(offset + _BYTES_A_TOKEN * behind, len(snapshot.text))),
        )
        own = self._recent.of(snapshot.doc_id)
        return Material(
            snapshot, path, symbols, focus, names_around(symbols, focus), around, ranked, definitions, callers, others, own,
            self._rules(path, rules),
        )  # fmt: skip

    async def _imported(self, snapshot: DocumentSnapshot, symbols: FileSymbols) -> tuple[ImportedFile, ...]:
        names: dict[str, list[str]] = {}
        for one in symbols.imports[:MOST_IMPORTS]:
            for path in (await self._index.resolve(snapshot.doc_id, symbols.language, one))[:2]:
                # a module that is taken from a package is no name in it
                names.setdefault(path, []).append("" if one.name == PurePath(path).stem else one.name)
        return tuple(ImportedFile(path, tuple(name for name in taken if name)) for path, taken in names.items())

    async def _note(self, path: str, definitions: dict[str, tuple[Definition, ...]]) -> None:
        """What a file defines, asked once."""
        if path not in definitions:
            row = await self._index.symbols_in(source_of(path))
            definitions[path] = () if row is None else row.definitions

    async def _callers(self, focus: Focus, path: str, definitions: dict[str, tuple[Definition, ...]]) -> tuple[str, ...]:
        name = focus.name.rpartition(".")[2]
        if not name or name.startswith("__") or len(await self._index.definitions_of(name, COMMON + 1)) > COMMON:
            return ()
        found = tuple(use.path for use in await self._index.uses_of(name, 8) if use.n_calls and use.path != path)[:MOST_CALLERS]
        for each in found:
            await self._note(each, definitions)
        return found

    def _is_usable(self, doc_id: str) -> bool:
        """May a document be quoted in another one's prompt?"""
        return is_on_disk(doc_id) and not self._why_private(doc_id)

    def _rules(self, path: str, setting: str) -> str:
        """Of the innermost workspace folder that the file is in."""
        inside = [root for root in self._roots() if path.startswith(f"{root.rstrip('/')}/")]
        return f"{max(inside, key=len).rstrip('/')}/{setting}" if inside and setting else ""

    def told(self, path: str) -> str:
        return file_name(source_of(path), self._roots()).path or PurePath(path).name


def source_of(path: str) -> str:
    """The document id of a file's path."""
    return document_id(PurePath(path).as_uri()) if PurePath(path).is_absolute() else path


def _row(path: str, definition: Definition) -> DefinitionRow:
    return DefinitionRow(path, definition.name, definition.kind, definition.start, definition.scope)


def rough_symbols(snapshot: DocumentSnapshot, offset: int, row: FileRow | None) -> FileSymbols:
    """What can be said without a tree: names by their spelling, around the cursor; imports and definitions as the index has
    them, the latter without places, since the text may be another by now."""
    text = snapshot.text
    start, end = text.floor(max(offset - _ROUGH_BYTES, 0)), text.floor(min(offset + _ROUGH_BYTES, len(text)))
    data = text.slice(start, end)
    uses = tuple(
        Use(found[1].decode("utf-8", "replace"), start + found.start(), bool(found[2]), ()) for found in _NAME.finditer(data)
    )
    return FileSymbols(snapshot.language, (), () if row is None else row.imports, uses, len(text), False)


def _passed_on(files: Sequence[ImportedFile], found: Iterable[Defined]) -> list[ImportedFile]:
    """Where an imported file only passes on what another one defines, that one is meant: below it, if it is a package's own
    file, else wherever hardly anybody else defines such a name."""
    outer = [each for each in found if not each.definition.scope]
    n_same = Counter(each.definition.name for each in outer)
    at_home = {(each.path, each.definition.name) for each in outer}
    passed = {(file.path, name) for file in files for name in file.names if (file.path, name) not in at_home}
    known = {file.path for file in files}
    return [
        ImportedFile(each.path, (each.definition.name,))
        for each in outer
        if each.path not in known
        and any(
            name == each.definition.name and (n_same[name] <= MOST_HOMES or _is_door_to(door, each.path))
            for door, name in passed
        )
    ]


def _is_door_to(door: str, path: str) -> bool:
    return PurePath(door).stem in _DOORS and path.startswith(door.rpartition("/")[0] + "/")


def _is_public(definition: Definition) -> bool:
    return not definition.scope and not definition.name.startswith("_") and definition.kind != "variable"


def _called(imports: Iterable[Import], path: str) -> set[str]:
    """Names by which a file may call a module at a path."""
    stem = PurePath(path).stem
    return {
        one.alias or one.name or one.module.rpartition(".")[2]
        for one in imports
        if stem in (one.name, one.module.rpartition(".")[2])
    }


def _wanted_names(names: Sequence[NameUse], imports: Sequence[Import]) -> list[str]:
    """What to ask the index about: names near the cursor, the nearest first, then what is imported by name."""
    near = sorted(names, key=lambda use: (use.distance, -use.n_calls, -use.count, use.name))
    taken = [one.name for one in imports if one.name and one.name != "*"]
    listed = dict.fromkeys((*(use.name for use in near[:MOST_NAMES]), *taken[:MOST_NAMES]))
    return [name for name in listed if len(name) > 1]
