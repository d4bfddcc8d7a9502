"""The budget of the zones: which pieces go into a prompt, and how much of each.

Owns the limits and the order in which things go: what stands at the cursor already stays out; then, where a zone is too full,
grade C is folded into a line, bodies lose the lines that say least, then go as a whole, then documentation, then constructors,
and only then are pieces left out, those with the fewest points for their size first. No signature, negation or name in use is
cut out of a piece before that, and nothing of the core. Counts are those of the token table. Pure; says what was cut and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from context.tokens import TokenTable
from context.zones.information import droppable
from context.zones.likeness import Shingled
from context.zones.order import in_order
from context.zones.types import ZONES, Around, Candidate, Part, ZoneLimits, ZonePiece, Zones
from context.zones.wrapping import FILES, Wrapping

TOO_LIKE = 0.5  # a piece with more than this share around the cursor stays out
SAME = 0.9  # and one with more than this share in a better piece
WORTH = 3  # a reference with less than a third of the best one's points is noise
ZONE_SHARE = (2, 5)  # of a prompt that is too small for everything
GRID = 64  # limits are multiples of this: a new measurement of the machine seldom changes them
_OF_THEIR_OWN = frozenset({"caller", "open"})  # their points are not made of the same things
_MOST = {"core": 4, "reference": 24, "rolling": 8}
_BASE = 8  # tokens that any piece costs beside its lines
_LAST = {"D": 5, "E": 6}  # levels at which these grades go
_LEVELS = ("", "others folded", "others left out", "thinned", "body left out", "documentation left out", "constructor left out")


@dataclass(frozen=True, slots=True)
class Sizes:
    """Most tokens by the settings."""

    n_core: int
    n_reference: int
    n_rolling: int


def zone_limits(n_total: int, n_own: int, sizes: Sizes, n_affordable: int) -> ZoneLimits:
    """n_total: tokens of the whole prompt. n_own: what the file at the cursor can use of it. n_affordable: what may be
    evaluated for the zones on this machine, by the cold budget."""
    share = n_total * ZONE_SHARE[0] // ZONE_SHARE[1]
    n = min(max(share, n_total - n_own), sizes.n_core + sizes.n_reference + sizes.n_rolling, n_affordable)
    n = max(n if n < 2 * GRID else n // GRID * GRID, 0)
    return ZoneLimits(min(sizes.n_core, n // 4), min(sizes.n_reference, n), min(sizes.n_rolling, n // 5), n)


def own_demand(n_bytes: int, most: int) -> int:
    """Tokens that a file of so many bytes can use for itself in a prompt, with what is typed next; coarse, so that it stays
    while one types. most: that the settings allow."""
    return min(most, (n_bytes // 3 // (2 * GRID) + 1) * 2 * GRID) + GRID


class _Choice:
    """A candidate on its way into the prompt: how much of it, and what that costs."""

    def __init__(self, candidate: Candidate, around: Around, count: Callable[[Sequence[str]], int]) -> None:
        self.candidate = candidate
        self._around = around
        self._count = count
        self.level = 0
        self.lines = self._lines(0)
        self.n_tokens = count(self.lines)

    def reduce(self, level: int) -> int:
        """To that level; returns the tokens that this saves."""
        lines = self._lines(level)
        n = self._count(lines)
        saved = self.n_tokens - n
        if saved <= 0:
            return 0
        self.level, self.lines, self.n_tokens = level, lines, n
        return saved

    def _lines(self, level: int) -> tuple[str, ...]:
        lines: list[str] = []
        for part in self.candidate.parts:
            if part.grade == "C" and level >= 1:
                lines += _folded(part) if level == 1 else ()
            elif part.grade == "B" and level >= 3:
                lines += _thinned(part.lines, self._around.names) if level == 3 else ()
            elif level < _LAST.get(part.grade, len(_LEVELS)):
                lines += part.lines
        return tuple(lines)

    def piece(self) -> ZonePiece:
        c = self.candidate
        return ZonePiece(
            c.zone, c.kind, c.path, c.name, self.lines, c.points, c.why, c.version, self.n_tokens, _LEVELS[self.level],
            c.source, c.start,
        )  # fmt: skip


def choose_pieces(
    candidates: Iterable[Candidate],
    limits: ZoneLimits,
    table: TokenTable,
    wrapping: Wrapping,
    around: Around,
    previous: Zones | None = None,
) -> Zones:
    """The pieces that fit the limits, in their order. previous: what stood in the prompt before; what stays keeps its place."""
    cuts: list[str] = []
    here = Shingled(around.text.split("\n"))
    best: dict[tuple[str, str, str], Candidate] = {}
    for each in sorted(candidates, key=lambda c: (-c.points, c.path, c.start, c.name)):
        best.setdefault(each.key, each)
    chosen: list[_Choice] = []
    kept: list[Shingled] = []
    n_left = limits.n_total
    for zone in (ZONES[0], ZONES[2], ZONES[1]):  # the zone with most to say takes what the others leave
        n_max = min(limits.of(zone), n_left)
        mine = _worth(tuple(each for each in best.values() if each.zone == zone), zone, cuts)
        distinct = _distinct(mine, here, kept, cuts)
        fitted = _fitted([_Choice(each, around, _counter(each, table, wrapping)) for each in distinct], n_max, zone, cuts)
        n_left -= sum(choice.n_tokens for choice in fitted)
        chosen += fitted
    pieces = [choice.piece() for choice in chosen]
    while True:
        zones = assemble(in_order(pieces, previous), table, wrapping)
        if zones.n_tokens <= limits.n_total or not pieces:
            return replace(zones, cuts=(*_reduced(zones.pieces), *cuts))
        worst = min(pieces, key=lambda piece: (piece.zone != "reference", piece.points))
        pieces.remove(worst)
        cuts.append(f"{worst.name}: no room for it")


def assemble(pieces: Sequence[ZonePiece], table: TokenTable, wrapping: Wrapping) -> Zones:
    """Pieces in their order as the text that is sent; neighbours of one file under one name."""
    files: list[tuple[str, bytes]] = []
    counted: list[ZonePiece] = []  # with the tokens of everything up to the piece's end
    before = b""
    n_before = 0
    for path, run in groupby(pieces, key=lambda piece: piece.path):
        lines: list[str] = []
        part = b""
        for piece in run:
            lines += piece.lines
            part = wrapping.text(path, lines)
            if wrapping.placement == FILES:
                n = n_before + 1 + len(table.encode(f"{path}\n".encode("utf-8", "replace") + part))
            else:
                n = len(table.encode(before + part))
            counted.append(replace(piece, n_tokens=n))
        files.append((path, part))
        before, n_before = before + part, counted[-1].n_tokens
    last = 0
    exact: list[ZonePiece] = []
    for piece in counted:
        exact.append(replace(piece, n_tokens=piece.n_tokens - last))
        last = piece.n_tokens
    return Zones(tuple(exact), tuple(files), last)


def _counter(each: Candidate, table: TokenTable, wrapping: Wrapping) -> Callable[[Sequence[str]], int]:
    return lambda lines: len(table.encode(wrapping.text(each.path, lines))) + (wrapping.placement == FILES)


def _worth(candidates: Sequence[Candidate], zone: str, cuts: list[str]) -> list[Candidate]:
    """Best first. What has few points beside the best says nothing here; so does what is one of too many."""
    found = sorted(candidates, key=lambda c: (-c.points, c.path, c.start, c.name))
    least = found[0].points // WORTH if found and zone == "reference" else 0
    kept = [each for each in found if each.points >= least or each.kind in _OF_THEIR_OWN][: _MOST[zone]]
    if len(found) > len(kept):
        cuts.append(f"{len(found) - len(kept)} more of the zone {zone}: too little speaks for them")
    return kept


def _distinct(candidates: Sequence[Candidate], here: Shingled, kept: list[Shingled], cuts: list[str]) -> list[Candidate]:
    found = []
    for each in candidates:
        shingled = Shingled(line for part in each.parts if part.grade != "C" for line in part.lines)
        if shingled.share_in(here) > TOO_LIKE:
            cuts.append(f"{each.name}: more than half of it stands around the cursor")
        elif any(shingled.share_in(other) > SAME for other in kept):
            cuts.append(f"{each.name}: another piece says the same")
        else:
            kept.append(shingled)
            found.append(each)
    return found


def _fitted(choices: list[_Choice], n_max: int, zone: str, cuts: list[str]) -> list[_Choice]:
    """Best first. Reduced level by level, in each from the last one up, until they fit; then the last ones are left out."""
    n = sum(choice.n_tokens for choice in choices)
    for level in range(1, len(_LEVELS)) if zone != "core" else ():
        for choice in reversed(choices):
            if n <= n_max:
                return choices
            n -= choice.reduce(level)
    while choices and n > n_max:
        gone = min(
            reversed(choices), key=lambda choice: max(choice.candidate.points, 0) ** 3 / (_BASE + choice.n_tokens) ** 0.5
        )
        choices.remove(gone)
        n -= gone.n_tokens
        cuts.append(f"{gone.candidate.name}: no room for it")
    # what was cut for the sake of those that are gone comes back, the best first
    for choice in choices:
        for level in range(choice.level):
            before, lines, n_before = choice.level, choice.lines, choice.n_tokens
            choice.level, choice.lines = level, choice._lines(level)
            choice.n_tokens = choice._count(choice.lines)
            if n - n_before + choice.n_tokens <= n_max:
                n += choice.n_tokens - n_before
                break
            choice.level, choice.lines, choice.n_tokens = before, lines, n_before
    return choices


def _folded(part: Part) -> list[str]:
    if len(part.lines) < 2 or not part.names:
        return list(part.lines[:1])
    first = part.lines[0]
    indent = first[: len(first) - len(first.lstrip())]
    return [f"{indent}... {', '.join(part.names)}"]


def _thinned(lines: Sequence[str], names: frozenset[str]) -> list[str]:
    """Without the lines that say least, at most half of them; a run of them leaves a mark."""
    if len(lines) < 4:
        return list(lines)
    gone = set(droppable(lines, names)[: len(lines) // 2])
    found: list[str] = []
    for i, line in enumerate(lines):
        if i not in gone:
            found.append(line)
        elif i - 1 not in gone:
            found.append(f"{line[: len(line) - len(line.lstrip())]}...")
    return found


def _reduced(pieces: Sequence[ZonePiece]) -> list[str]:
    return [f"{piece.name}: {piece.cut}, to fit the budget" for piece in pieces if piece.cut]
