"""How fast somebody types, how fast the model answers, and so how long an automatic request waits before it reaches the model.

Owns the two estimates, each begun with an assumption, so that the first key counts as much as any later one. The wait is what
is left of the rhythm when the model's time is subtracted: a slow model is asked at once, a fast one when the next key is due
and has not come. Pure; times in seconds of one clock, durations in ms.
"""

from __future__ import annotations

import re
from collections import deque

from inference.types import Costs

ASSUMED_MS = 160.0  # between two keys
_ASSUMED_WEIGHT = 2  # keys that the assumption counts as
_PAUSE_S = 1.0  # what takes longer between two keys is no rhythm
_N_REMEMBERED = 12
_ASSUMED_ROWS, _ASSUMED_STEPS = 8, 10  # of an answer that nobody has measured yet

_OPENS = re.compile(r"[.,:;=(\[{<>+\-*/%&|!?@]\s?\Z")


class Pace:
    def __init__(self) -> None:
        self._intervals: deque[float] = deque(maxlen=_N_REMEMBERED)
        self._answers: deque[float] = deque(maxlen=_N_REMEMBERED)
        self._last: float | None = None

    def typed(self, now: float) -> None:
        """A key, or as much as came at once."""
        if self._last is not None and 0 <= now - self._last <= _PAUSE_S:
            self._intervals.append((now - self._last) * 1000)
        self._last = now

    def answered(self, ms: float) -> None:
        """An automatic request was answered by the model, so long after it had been given to it."""
        self._answers.append(max(0.0, ms))

    @property
    def interval_ms(self) -> float:
        return _mean(self._intervals, ASSUMED_MS)

    def expected_ms(self, costs: Costs) -> float:
        """Until the model has answered."""
        return _mean(self._answers, _ASSUMED_ROWS * costs.prefill_ms_per_token + _ASSUMED_STEPS * costs.step_ms)

    def wait_ms(self, factor: float, costs: Costs, most: float) -> float:
        """factor: of the place."""
        return min(max(self.interval_ms * factor - self.expected_ms(costs), 0.0), most)


def place_factor(before: str, after: str) -> float:
    """How much of the rhythm a place is worth. before, after: the cursor's line on both sides of it. Where something begins one
    wants to see what may come; within a word the next letter is on its way."""
    if not before.strip() or _OPENS.search(before):
        factor = 0.3
    elif before[-1:].isspace():
        factor = 0.6
    else:
        factor = 1.0
    return factor if not after.strip() else 1.25 * factor


def _mean(measured: deque[float], assumed: float) -> float:
    return (assumed * _ASSUMED_WEIGHT + sum(measured)) / (_ASSUMED_WEIGHT + len(measured))
