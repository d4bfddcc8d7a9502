"""What drafting may still cost: the guarantee that it is never slower.

Owns a balance in ms of the cost table, zero at first. Each step pays in a little less than a fiftieth of its cost, each draft
what it saved, or takes what it lost. Nothing is tried that could lose more than there is, so whatever happens, and wherever a
text ends, all that was done has cost at most 1.02 times what it would have without drafts. More than some steps' worth is not
kept: what one text saved must not be lost again in the next.
"""

from __future__ import annotations

_INCOME = 0.0195  # of each step
_MOST_STEPS = 12.0  # kept: what a long draft can lose


class Purse:
    def __init__(self) -> None:
        self.balance = 0.0
        self._reserved = 0.0

    def begin_step(self) -> None:
        """Nothing is at stake any more."""
        self._reserved = 0.0

    def allows(self, worst_ms: float) -> bool:
        """May so much be lost, beside what the step's other drafts may lose?"""
        return self.balance - self._reserved >= worst_ms

    def reserve(self, worst_ms: float) -> None:
        """So much may be lost in this step."""
        self._reserved += worst_ms

    def stepped(self, ms: float) -> None:
        """A step was made that would have taken so long without drafts."""
        self._add(_INCOME * ms, ms)

    def settled(self, saved_ms: float, step_ms: float) -> None:
        """A draft has saved so much, or lost if negative; what a step costs."""
        self._add(saved_ms, step_ms)

    def _add(self, ms: float, step_ms: float) -> None:
        self.balance = min(self.balance + ms, max(_MOST_STEPS * step_ms, self.balance))
