"""What drafting may still cost: the guarantee that it is never slower.

Owns a balance in ms of the cost table. Each step pays in a little less than a hundredth of its cost, each draft what it saved,
or takes what it lost. More than a few steps' worth is not kept: what one text saved must not be lost again in the next. What
may lose is tried only as far as the balance goes. What should gain even by a cautious count may fail all the same, a long
draft by more than the balance: such ones go on until the purse is overdrawn by a few steps' worth. So whatever happens, all
drafts together cost no more than a hundredth, these few steps and one draft.
"""

from __future__ import annotations

_INCOME = 0.008  # of each step
_MOST_STEPS = 3.0  # kept
_LEAST_STEPS = -5.0


class Purse:
    def __init__(self, begin_ms: float = 0.0) -> None:
        self.balance = begin_ms

    def allows(self, cautious_ms: float, step_ms: float) -> bool:
        """May a draft be tried that gains so much by a cautious count, or loses if negative? step_ms: of a step."""
        if cautious_ms > 0:
            return self.balance >= _LEAST_STEPS * step_ms
        return self.balance + cautious_ms >= 0

    def stepped(self, ms: float) -> None:
        """A step was made that would have taken so long without drafts."""
        self._add(_INCOME * ms, ms)

    def settled(self, saved_ms: float, step_ms: float) -> None:
        """A draft has saved so much, or lost if negative; what a step costs."""
        self._add(saved_ms, step_ms)

    def _add(self, ms: float, step_ms: float) -> None:
        self.balance = min(self.balance + ms, max(_MOST_STEPS * step_ms, min(self.balance, 0.0)))
