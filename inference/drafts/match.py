"""The longest latest place in a token array where the last tokens stand.

Pure. Narrows all places at once, one token further back each time, so that the usual answer ("nowhere") takes some µs in
thousands of tokens; the few that are left are compared one by one, so that a long match takes no longer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LONGEST = 64  # tokens that are compared; more say nothing new
_FEW = 4  # places that are compared one by one, all tokens at once


@dataclass(frozen=True, slots=True)
class Match:
    """n: how many tokens agree. at: where the text goes on behind them."""

    n: int
    at: int


def longest_match(
    text: NDArray[np.int32],
    last: NDArray[np.int32],
    *,
    shortest: int = 1,
    first: NDArray[np.int64] | None = None,
    near: int | None = None,
) -> Match | None:
    """Where in `text` the end of `last` stands, with something behind it; the latest of several, or the one nearest to `near`.

    shortest: fewer tokens are no match. first: the token behind must be one of these.
    """
    if len(text) < 2 or not len(last):
        return None
    ends = np.flatnonzero(text[:-1] == last[-1])
    if first is not None and len(ends):
        ends = ends[np.isin(text[ends + 1], first)]
    if not len(ends):
        return None
    n, longest = 1, min(len(last), LONGEST)
    while n < longest and len(ends) > _FEW:
        further = ends[ends >= n]
        further = further[text[further - n] == last[-1 - n]]
        if not len(further):
            break
        ends, n = further, n + 1
    else:
        if n < longest:
            counts = np.array([_agreeing(text, end, last, longest) for end in ends.tolist()])
            n = int(counts.max())
            ends = ends[counts == n]
    if n < shortest:
        return None
    end = ends[-1] if near is None else ends[np.argmin(np.abs(ends + 1 - near))]
    return Match(n, int(end) + 1)


def _agreeing(text: NDArray[np.int32], end: int, last: NDArray[np.int32], most: int) -> int:
    """How many tokens that end at `end` are the end of `last`, `most` at most."""
    n = min(most, end + 1)
    others = np.flatnonzero(text[end + 1 - n : end + 1] != last[len(last) - n :])
    return n - 1 - int(others[-1]) if len(others) else n
