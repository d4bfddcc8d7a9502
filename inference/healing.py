"""Token healing: which tokens may come next while typed bytes remain to be re-generated.

A token is allowed if its bytes begin with what remains, or are a beginning of it. Control tokens are never allowed, so no
generation ends while bytes remain. Two bisections over the sorted vocabulary find the first kind, one for each proper beginning
the second.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


def _successor(prefix: bytes) -> bytes | None:
    """The smallest byte string above everything that begins with prefix; None if there is none."""
    head = prefix.rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else None


class HealingIndex:
    """The vocabulary sorted by bytes. Read-only after construction."""

    def __init__(self, pieces: Sequence[bytes], stop_tokens: frozenset[int]) -> None:
        self._order = sorted((t for t, p in enumerate(pieces) if p and t not in stop_tokens), key=pieces.__getitem__)
        self._sorted = [pieces[t] for t in self._order]
        self.allowed = lru_cache(maxsize=256)(self._allowed)

    def _allowed(self, rest: bytes) -> NDArray[np.int64]:
        """Ids allowed next, ascending; `rest` are the bytes still to be made, at least one. May be empty."""
        low = bisect_left(self._sorted, rest)
        above = _successor(rest)
        high = len(self._sorted) if above is None else bisect_left(self._sorted, above, low)
        ids = self._order[low:high]
        for k in range(1, len(rest)):
            i = bisect_left(self._sorted, rest[:k])
            while i < len(self._sorted) and self._sorted[i] == rest[:k]:
                ids.append(self._order[i])
                i += 1
        return np.sort(np.array(ids, dtype=np.int64))
