"""Whether a choice of pieces that stands is still good enough.

Owns the value of a choice at a place, and the rule: what stands is kept while it is worth a set share of the best that could
stand there, and of several that do the one in use. So the stable part of a prompt changes when that pays, and not with every
move. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from context.zones.types import Candidate, Zones

KEEP_SHARE = 0.8
_MOVING = frozenset({"edit", "edited", "open", "own"})


def value(zones: Zones, candidates: Iterable[Candidate]) -> int:
    """What a choice is worth at the place of these candidates: the points that they give its pieces there. A piece that has
    become another since says something wrong and counts against it. Nothing is worth anything less than nothing."""
    now = {each.key: each for each in candidates}
    worth = 0
    for piece in zones.pieces:
        found = now.get(piece.key)
        if found is None:
            continue
        points, version = found.points, found.version
        points += sum(more for name, more in found.members if more > 0 and any(name in line for line in piece.lines))
        if piece.kind in _MOVING:  # these change with every key somewhere; an older one is still true
            worth += points
        else:
            worth += points if version == piece.version else -max(points, 1)
    return worth


def keep_or_change(
    best: Zones, known: Sequence[Zones], candidates: Sequence[Candidate], share: float = KEEP_SHARE
) -> tuple[Zones, str]:
    """The choice to stand from now on, and why. known: those that could stand without being evaluated again, the one in use
    first."""
    most = value(best, candidates)
    for i, zones in enumerate(known):
        worth = value(zones, candidates)
        if zones.digest == best.digest:
            return zones, "it is the best one"
        if worth >= share * most and (worth > 0 or not best.pieces):
            kept = "kept" if i == 0 else "taken again"
            return zones, f"{kept}: worth {round(100 * worth / max(most, 1))} % of the best"
    return best, f"new: what stood there was worth {_best_share(known, candidates, most)} % of it" if known else "the first one"


def _best_share(known: Sequence[Zones], candidates: Sequence[Candidate], most: int) -> int:
    return round(100 * max(max(value(zones, candidates), 0) for zones in known) / max(most, 1))
