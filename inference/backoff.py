"""When something that fails may be tried again.

Owns the times between attempts: none before the first, then 0.5 s, 1 s, and so on up to half a minute. After three failures
within a minute it is half a minute at once. A success makes all forgotten. Pure, but for the clock that is given.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

DELAYS_S = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
_N_FAILURES, _WITHIN_S = 3, 60.0


class Backoff:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._n = 0  # failures since the last success
        self._recent: deque[float] = deque(maxlen=_N_FAILURES)
        self._last = float("-inf")

    @property
    def is_hopeless(self) -> bool:
        """It has just failed so often that a person should know."""
        recent = self._recent
        return len(recent) == _N_FAILURES and recent[-1] - recent[0] <= _WITHIN_S

    def wait_s(self) -> float:
        """Until the next attempt may begin."""
        delay = DELAYS_S[-1] if self.is_hopeless else DELAYS_S[min(self._n, len(DELAYS_S) - 1)]
        return max(0.0, self._last + delay - self._clock())

    def failed(self) -> None:
        self._n += 1
        self._last = self._clock()
        self._recent.append(self._last)

    def succeeded(self) -> None:
        self._n = 0
        self._recent.clear()
        self._last = float("-inf")
