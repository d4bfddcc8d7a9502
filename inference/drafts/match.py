"""The longest latest place in a token array where the last tokens stand.

Pure. Narrows all places at once, one token further back each time, so that the usual answer ("nowhere") takes some µs in
thousands of tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LONGEST = 64  # tokens that are compared; more say nothing new


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
    n = 1
    while n < min(len(last), LONGEST):
        further = ends[ends >= n]
        further = further[text[further - n] == last[-1 - n]]
        if not len(further):
            break
        ends, n = further, n + 1
    if n < shortest:
        return None
    end = ends[-1] if near is None else ends[np.argmin(np.abs(ends + 1 - near))]
    return Match(n, int(end) + 1)
