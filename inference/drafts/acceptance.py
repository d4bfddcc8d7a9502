"""How often drafted tokens are right: of each source, by the grade that it gave them.

Owns running shares. Each begins as if a few drafts had been seen, so that the first ones decide little and soon much: as many
right as one would guess, or as are right of the grade below, if that is more, since a higher grade is no less sure. What lies
long ago counts less and less. A token counts only if all before it in its draft were right: the others were never compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from inference.drafts.draft import N_GRADES

_BEGIN = (0.3, 0.45, 0.55, 0.62, 0.7, 0.77, 0.83, 0.88, 0.92, 0.94)  # before anything was seen
_BEGIN_ALL = 0.75
_BEGIN_WEIGHT = 4.0
_KEPT = 0.98  # of what was seen at each new token: some fifty count
_CAUTION = 0.5  # standard deviations below the mean


class Acceptance:
    def __init__(self) -> None:
        self._right = [0.0] * N_GRADES
        self._seen = [0.0] * N_GRADES
        self._shares: list[float] = []
        self._right_of_all, self._seen_of_all = _BEGIN_ALL * _BEGIN_WEIGHT, _BEGIN_WEIGHT
        self._told()

    @property
    def typical(self) -> float:
        """Of tokens of whatever grade."""
        return self._right_of_all / self._seen_of_all

    def share(self, grade: int) -> float:
        """Of tokens of this grade, if all before them are right."""
        return self._shares[grade]

    def cautious(self, grade: int) -> float:
        """The same, with less taken for granted where little was seen."""
        p = self._shares[grade]
        return max(0.0, p - _CAUTION * math.sqrt(p * (1 - p) / (self._seen[grade] + _BEGIN_WEIGHT)))

    def expected(self, grades: Sequence[int], *, cautious: bool = False) -> list[float]:
        """How many tokens of a draft will hold, if its first 1, 2, … are tried."""
        out, held, n = list[float](), 1.0, 0.0
        for grade in grades:
            held *= self.cautious(grade) if cautious else self._shares[grade]
            n += held
            out.append(n)
        return out

    def learn(self, grades: Sequence[int], n_right: int) -> None:
        """The first n_right tokens were right, and the one behind them, if there is one, was not."""
        self._count(grades[:n_right], 1.0)
        self._count(grades[n_right : n_right + 1], 0.0)
        self._told()

    def _count(self, grades: Iterable[int], right: float) -> None:
        for grade in grades:
            self._seen[grade] = _KEPT * self._seen[grade] + 1
            self._right[grade] = _KEPT * self._right[grade] + right
            self._right_of_all = _KEPT * self._right_of_all + right
            self._seen_of_all = _KEPT * self._seen_of_all + 1

    def _told(self) -> None:
        """Work out the shares from what was counted."""
        shares, below = list[float](), 0.0
        for begin, right, seen in zip(_BEGIN, self._right, self._seen, strict=True):
            below = (right + _BEGIN_WEIGHT * max(begin, below)) / (seen + _BEGIN_WEIGHT)
            shares.append(below)
        self._shares = shares
