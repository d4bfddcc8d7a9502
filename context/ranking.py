"""Which definitions of the workspace are worth knowing at a place, and in which order.

Owns the points that speak for a definition: its name is used near the cursor, its file is imported, open or a neighbour. Pure:
rows in, ranked rows out, each with its reasons. The order depends on the values alone, never on the order in which rows come;
and once made it stands while the cursor moves a little (`previous`), so that what was put into a prompt need not be moved in
it. Refuses to read, to parse and to count tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from context.symbol_types import FileSymbols

NEAR_BYTES = 640  # at this distance a use counts half of what it counts at the cursor
MARGIN = 24  # points by which a row must be ahead of the one before it to overtake it in an order that stands
FAR_BYTES = 1 << 15  # uses farther away say nothing of what is being typed

_NAMED, _CALLED, _REPEATED = 120, 16, 6  # a name used at the cursor; called there; per doubling of its uses
_IMPORTED_NAME, _IMPORTED_FILE, _OWN_FILE, _OPEN, _FOLDER, _OWNER = 150, 80, 40, 40, 24, 40
_KNOWN = 3  # per doubling of the uses in the whole workspace
_AMBIGUOUS = 14  # per doubling of the definitions of the same name
_SHADOWED, _PRIVATE, _LOCAL, _TEST = 100, 30, 40, 40
_KINDS = {
    "class": 10,
    "interface": 10,
    "enum": 10,
    "type": 10,
    "function": 8,
    "method": 6,
    "constant": 4,
    "field": -12,
    "module": -20,
}


@dataclass(frozen=True, slots=True)
class NameUse:
    """A name used around the cursor. count: how often; n_calls: how often as a call; distance: bytes to the nearest use."""

    name: str
    count: int
    n_calls: int
    distance: int


@dataclass(frozen=True, slots=True)
class DefinitionRow:
    """A definition as the workspace's store has it. start: byte in its file. n_uses: of its name, in the whole workspace."""

    path: str
    name: str
    kind: str
    start: int
    scope: tuple[str, ...] = ()
    n_uses: int = 0


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """A file that the importing one uses. names: what it takes from it; "*" = everything, none = the module itself."""

    path: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Here:
    """The place that is asked about. path: of its file. own_names: what that file defines. open_paths: most recent first."""

    path: str
    names: tuple[NameUse, ...] = ()
    own_names: frozenset[str] = frozenset()
    imports: tuple[ImportedFile, ...] = ()
    open_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ranked:
    """points: more is better, comparable within one ranking only. reason: for people."""

    row: DefinitionRow
    points: int
    reason: str


def names_near(symbols: FileSymbols, cursor: int) -> tuple[NameUse, ...]:
    """The names a file uses, with the distance in bytes of each from the cursor, by name."""
    found: dict[str, NameUse] = {}
    for use in symbols.uses:
        distance = max(cursor - use.start - len(use.name.encode("utf-8", "replace")), use.start - cursor, 0)
        before = found.get(use.name, NameUse(use.name, 0, 0, distance))
        found[use.name] = NameUse(use.name, before.count + 1, before.n_calls + use.is_call, min(before.distance, distance))
    return tuple(found[name] for name in sorted(found) if found[name].distance <= FAR_BYTES)


def rank(rows: Iterable[DefinitionRow], here: Here, *, previous: Sequence[Ranked] = (), n_max: int = 64) -> tuple[Ranked, ...]:
    """The rows that something speaks for, best first, at most n_max, none twice.

    previous: the order that stands, of the same file. Rows that are in it keep their places among each other until one is more
    than MARGIN points ahead.
    """
    # of rows that differ in their counts alone, the one with more uses
    every = sorted({_place_of(row): row for row in sorted(rows, key=_identity)}.values(), key=_identity)
    names = {use.name: use for use in here.names}
    imports = {each.path: each for each in reversed(here.imports)}
    n_same = Counter(row.name for row in every)
    found = [ranked for row in every if (ranked := _judge(row, here, names, imports, n_same[row.name])) is not None]
    found.sort(key=lambda ranked: (-ranked.points, *_identity(ranked.row)))
    return tuple(_kept(found[: 4 * n_max], previous)[:n_max])


def _identity(row: DefinitionRow) -> tuple[str, int, str, str, tuple[str, ...], int]:
    return row.path, row.start, row.name, row.kind, row.scope, row.n_uses


def _place_of(row: DefinitionRow) -> tuple[str, int, str, str, tuple[str, ...]]:
    """What stays the same when only counts change."""
    return row.path, row.start, row.name, row.kind, row.scope


def _judge(
    row: DefinitionRow, here: Here, names: dict[str, NameUse], imports: dict[str, ImportedFile], n_same: int
) -> Ranked | None:
    points = 0
    reasons: list[str] = []
    use = names.get(row.name)
    if use is not None:
        points += _NAMED * NEAR_BYTES // (NEAR_BYTES + use.distance) + _REPEATED * min(use.count, 255).bit_length()
        is_called = use.n_calls > 0 and row.kind in ("function", "method", "class")
        points += _CALLED * is_called
        reasons.append(_said(use, is_called))
    imported = imports.get(row.path)
    is_taken = imported is not None and row.name in imported.names
    if is_taken:
        points += _IMPORTED_NAME
        reasons.append("imported by name")
    elif imported is not None:
        points += _IMPORTED_FILE
        reasons.append("its file is imported")
    owner = row.scope[-1] if row.scope else ""
    if owner and (owner in names or (imported is not None and owner in imported.names)):
        points += _OWNER
        reasons.append(f"member of {owner}, which is used here")
    if not reasons:
        return None  # a definition nearby that nothing here speaks of is no reason by itself
    place, why = _place(row.path, here)
    points += place + _KINDS.get(row.kind, 0) + _KNOWN * min(row.n_uses, 1023).bit_length()
    reasons += why
    points -= _AMBIGUOUS * (n_same - 1).bit_length() if not is_taken else 0
    if row.path != here.path and not is_taken:
        points -= _SHADOWED * (row.name in here.own_names) + _PRIVATE * row.name.startswith("_")
    points -= _LOCAL * (bool(owner) and row.kind in ("function", "variable"))
    points -= _TEST * (_is_test(row.path) and not _is_test(here.path))
    return Ranked(row, points, "; ".join(reasons))


def _said(use: NameUse, is_called: bool) -> str:
    where = (
        "at the cursor"
        if use.distance < NEAR_BYTES // 8
        else "near the cursor"
        if use.distance < 2 * NEAR_BYTES
        else "in this file"
    )
    return f"{'called' if is_called else 'used'} {where}" + (f", {use.count} times in all" if use.count > 1 else "")


def _place(path: str, here: Here) -> tuple[int, list[str]]:
    if path == here.path:
        return _OWN_FILE, ["in this file"]
    if path in here.open_paths:
        return max(_OPEN // 4, _OPEN - 4 * here.open_paths.index(path)), ["its file is open"]
    if path.rpartition("/")[0] == here.path.rpartition("/")[0]:
        return _FOLDER, ["in the same folder"]
    return 0, []


def _is_test(path: str) -> bool:
    folder, _, file = path.lower().rpartition("/")
    stem = file.partition(".")[0]
    named = stem.startswith("test_") or stem.endswith(("_test", "_spec", "test")) or ".test." in file or ".spec." in file
    return named or not {"test", "tests", "__tests__", "spec", "testdata"}.isdisjoint(folder.split("/"))


def _kept(found: list[Ranked], previous: Sequence[Ranked]) -> list[Ranked]:
    """The new order, in which rows of the previous one give way only to those that are clearly ahead."""
    if not previous:
        return found
    places = {_place_of(ranked.row): i for i, ranked in enumerate(previous)}
    standing = [ranked for ranked in found if _place_of(ranked.row) in places]
    standing.sort(key=lambda ranked: places[_place_of(ranked.row)])
    order: list[Ranked] = []
    for ranked in (*standing, *(ranked for ranked in found if _place_of(ranked.row) not in places)):
        margin = MARGIN if len(order) < len(standing) else 0
        at = len(order)
        while at > 0 and ranked.points > order[at - 1].points + margin:
            at -= 1
        order.insert(at, ranked)
    return order
