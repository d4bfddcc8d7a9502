"""The leaves of a text in their order, found by a byte or by a line break.

Owns where each leaf begins. Leaves stand in branches of at most MOST, so that replacing some of them makes their branch anew
and one number for each other branch, however many leaves there are. Immutable: what is not replaced is shared. Refuses to look
at bytes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

from context.leaf import Leaf

MOST = 64  # leaves of a branch: about as many as there are branches in a text of so many leaves as a text ever has
_FEWEST = 16  # a branch of fewer takes in the one beside it

_n_bytes, _n_breaks = attrgetter("n_bytes"), attrgetter("n_breaks")


class Place(NamedTuple):
    """Where a leaf is. start, n_breaks: bytes and line breaks before it. branch, number: which one, and which leaf of it."""

    leaf: Leaf
    start: int
    n_breaks: int
    branch: int
    number: int


class _Branch:
    """starts, breaks: bytes and line breaks before each leaf, from the branch's beginning, and their totals at the end."""

    __slots__ = ("breaks", "leaves", "starts")

    def __init__(self, leaves: tuple[Leaf, ...]) -> None:
        self.leaves = leaves
        self.starts = tuple(accumulate(map(_n_bytes, leaves), initial=0))
        self.breaks = tuple(accumulate(map(_n_breaks, leaves), initial=0))


class Leaves:
    """Iterated, they come in order. Looking for a leaf needs one to be there."""

    __slots__ = ("_branches", "_breaks", "_starts")

    def __init__(self, branches: tuple[_Branch, ...], starts: tuple[int, ...], breaks: tuple[int, ...]) -> None:
        """Use `Leaves.of`. starts, breaks: as of a branch, for each branch."""
        self._branches = branches
        self._starts = starts
        self._breaks = breaks

    @staticmethod
    def of(leaves: Iterable[Leaf]) -> Leaves:
        branches = _in_branches(tuple(leaves))
        return Leaves(branches, *_sums(branches, 0, 0))

    def __len__(self) -> int:
        return sum(len(branch.leaves) for branch in self._branches)

    def __iter__(self) -> Iterator[Leaf]:
        for branch in self._branches:
            yield from branch.leaves

    @property
    def n_bytes(self) -> int:
        return self._starts[-1]

    @property
    def n_breaks(self) -> int:
        return self._breaks[-1]

    def at(self, offset: int) -> Place:
        """The leaf that begins at or before an offset; the last one for the text's end."""
        b = bisect_right(self._starts, offset) - 1
        if b == len(self._branches):
            b -= 1
        branch, start = self._branches[b], self._starts[b]
        k = bisect_right(branch.starts, offset - start) - 1
        if k == len(branch.leaves):
            k -= 1
        return Place(branch.leaves[k], start + branch.starts[k], self._breaks[b] + branch.breaks[k], b, k)

    def before(self, offset: int) -> Place:
        """The leaf that holds the byte before an offset; the first one for 0."""
        b = (bisect_left(self._starts, offset) or 1) - 1
        branch, start = self._branches[b], self._starts[b]
        k = (bisect_left(branch.starts, offset - start) or 1) - 1
        return Place(branch.leaves[k], start + branch.starts[k], self._breaks[b] + branch.breaks[k], b, k)

    def with_break(self, n: int) -> Place:
        """The leaf that holds the n-th line break, counted from 1."""
        b = bisect_left(self._breaks, n) - 1
        return self._place(b, bisect_left(self._branches[b].breaks, n - self._breaks[b]) - 1)

    def previous(self, place: Place) -> Place | None:
        if place.number > 0:
            return self._place(place.branch, place.number - 1)
        return self._place(place.branch - 1, len(self._branches[place.branch - 1].leaves) - 1) if place.branch > 0 else None

    def next(self, place: Place) -> Place | None:
        if place.number + 1 < len(self._branches[place.branch].leaves):
            return self._place(place.branch, place.number + 1)
        return self._place(place.branch + 1, 0) if place.branch + 1 < len(self._branches) else None

    def replaced(self, first: Place, last: Place, made: tuple[Leaf, ...]) -> Leaves:
        """With others in place of the leaves from the first to the last, which goes, too."""
        p, q, old = first.branch, last.branch + 1, self._branches
        leaves = old[p].leaves[: first.number] + made + old[q - 1].leaves[last.number + 1 :]
        if len(leaves) < _FEWEST and q < len(old):
            leaves += old[q].leaves
            q += 1
        elif len(leaves) < _FEWEST and p > 0:
            p -= 1
            leaves = old[p].leaves + leaves
        new = _in_branches(leaves)
        starts, breaks = _sums(new, self._starts[p], self._breaks[p])
        shift, lines = starts[-1] - self._starts[q], breaks[-1] - self._breaks[q]
        return Leaves(
            old[:p] + new + old[q:],
            (*self._starts[:p], *starts, *[s + shift for s in self._starts[q + 1 :]]),
            (*self._breaks[:p], *breaks, *[b + lines for b in self._breaks[q + 1 :]]),
        )

    def _place(self, b: int, k: int) -> Place:
        branch = self._branches[b]
        return Place(branch.leaves[k], self._starts[b] + branch.starts[k], self._breaks[b] + branch.breaks[k], b, k)


def _in_branches(leaves: tuple[Leaf, ...]) -> tuple[_Branch, ...]:
    """Of about equal length."""
    n = -(-len(leaves) // MOST)
    if n == 1:
        return (_Branch(leaves),)
    return tuple(_Branch(leaves[len(leaves) * k // n : len(leaves) * (k + 1) // n]) for k in range(n))


def _sums(branches: tuple[_Branch, ...], start: int, n_breaks: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Bytes and line breaks before each branch, and behind the last; those before the first are given."""
    starts = accumulate((branch.starts[-1] for branch in branches), initial=start)
    breaks = accumulate((branch.breaks[-1] for branch in branches), initial=n_breaks)
    return tuple(starts), tuple(breaks)
