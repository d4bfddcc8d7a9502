"""Two layouts on the same cases, and whether one is better.

Owns the count of pairs and the exact two-sided sign test (McNemar's exact test): of the cases in which only one of the two was
right, how likely is a split at least as uneven if both are equally good?
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import comb


def sign_test(n_a: int, n_b: int) -> float:
    """p of n_a against n_b wins, ties left out: twice the binomial tail at one half, at most 1."""
    n, k = n_a + n_b, min(n_a, n_b)
    # whole numbers divided once: powers of one half would underflow
    tail: int = sum(comb(n, i) for i in range(k + 1))
    return min(1.0, 2 * tail / (1 << n))


@dataclass(frozen=True, slots=True)
class Pairs:
    """How often both, one alone and neither was right."""

    both: int
    only_anchored: int
    only_psm: int
    neither: int

    @classmethod
    def of(cls, rights: Iterable[tuple[bool, bool]]) -> Pairs:
        """(anchored was right, psm was right) of each case."""
        counts = dict.fromkeys([(True, True), (True, False), (False, True), (False, False)], 0)
        for pair in rights:
            counts[pair] += 1
        return cls(*counts.values())

    @property
    def n(self) -> int:
        return self.both + self.only_anchored + self.only_psm + self.neither

    @property
    def anchored(self) -> int:
        return self.both + self.only_anchored

    @property
    def psm(self) -> int:
        return self.both + self.only_psm

    @property
    def p(self) -> float:
        """Of the exact two-sided sign test, to four significant digits."""
        return float(f"{sign_test(self.only_anchored, self.only_psm):.4g}")
