"""What encloses what in a file: regions with names, and the scope of a place.

Owns the sweep over regions that lie in one another. One pass in order of places; no recursion, no climbing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

CLASS_LIKE = frozenset({"class", "interface", "enum", "region"})
FUNCTION_LIKE = frozenset({"function", "method"})


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes [start, end) in which names belong to `names`, outermost first."""

    start: int
    end: int
    names: tuple[str, ...]
    kind: str


@dataclass(frozen=True, slots=True)
class Scope:
    """names: of all regions around a place, outermost first. kind: the innermost one's, "" outside of all."""

    names: tuple[str, ...]
    kind: str


OUTSIDE = Scope((), "")


class ScopeSweep:
    """Tells the scope of places that are asked for in rising order."""

    def __init__(self, regions: Iterable[Region]) -> None:
        self._regions: Sequence[Region] = sorted(regions, key=lambda region: (region.start, -region.end))
        self._next = 0
        self._open: list[tuple[int, Scope]] = []  # end and scope of each open region

    def at(self, place: int, *, around: int | None = None) -> Scope:
        """The scope of a byte. around: the end of a region that begins there; only those around it count then."""
        while self._next < len(self._regions) and self._begins_before(self._regions[self._next], place, around):
            region = self._regions[self._next]
            self._close(region.start)
            outer = self._open[-1][1] if self._open else OUTSIDE
            self._open.append((region.end, Scope(outer.names + region.names, region.kind)))
            self._next += 1
        self._close(place)
        return self._open[-1][1] if self._open else OUTSIDE

    @staticmethod
    def _begins_before(region: Region, place: int, around: int | None) -> bool:
        return region.start < place or (region.start == place and (around is None or region.end > around))

    def _close(self, place: int) -> None:
        while self._open and self._open[-1][0] <= place:
            self._open.pop()
