"""How often drafted tokens are right: of each source, by the grade that it gave them.

Owns running shares. Each begins as if a few drafts had been seen, so that the first ones decide little and soon much; what lies
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
        self._right = [share * _BEGIN_WEIGHT for share in _BEGIN]
        self._seen = [_BEGIN_WEIGHT] * N_GRADES
        self._right_of_all, self._seen_of_all = _BEGIN_ALL * _BEGIN_WEIGHT, _BEGIN_WEIGHT

    @property
    def typical(self) -> float:
        """Of tokens of whatever grade."""
        return self._right_of_all / self._seen_of_all

    def share(self, grade: int) -> float:
        """Of tokens of this grade, if all before them are right."""
        return self._right[grade] / self._seen[grade]

    def cautious(self, grade: int) -> float:
        """The same, with less taken for granted where little was seen."""
        p = self.share(grade)
        return max(0.0, p - _CAUTION * math.sqrt(p * (1 - p) / self._seen[grade]))

    def expected(self, grades: Sequence[int], *, cautious: bool = False) -> list[float]:
        """How many tokens of a draft will hold, if its first 1, 2, … are tried."""
        out, held, n = list[float](), 1.0, 0.0
        for grade in grades:
            held *= self.cautious(grade) if cautious else self.share(grade)
            n += held
            out.append(n)
        return out

    def learn(self, grades: Sequence[int], n_right: int) -> None:
        """The first n_right tokens were right, and the one behind them, if there is one, was not."""
        self._count(grades[:n_right], 1.0)
        self._count(grades[n_right : n_right + 1], 0.0)

    def _count(self, grades: Iterable[int], right: float) -> None:
        for grade in grades:
            weight = max(_KEPT * self._seen[grade], _BEGIN_WEIGHT)
            share = self._right[grade] / self._seen[grade]
            self._seen[grade] = weight + 1
            self._right[grade] = share * weight + right
            self._right_of_all = _KEPT * self._right_of_all + right
            self._seen_of_all = _KEPT * self._seen_of_all + 1
