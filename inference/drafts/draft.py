"""What a draft is, and what is asked of whoever makes one.

Owns the words. A draft is never trusted: the model chooses each token as it would without, and a drafted one stands only where
it equals that choice. So a source may be wrong, late or malicious; it can only cost time, which is the controller's to limit.

A source says for every token how sure it is, as one of N_GRADES grades that mean nothing to others: how often each is right is
counted by the controller.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from inference.drafts.trail import Trail
from inference.run import Run

N_GRADES = 10
_LENGTHS = (2, 3, 4, 6, 9, 13, 20, 32, 48)  # tokens that agree: each begins a grade


@dataclass(frozen=True, slots=True)
class Draft:
    """tokens: what may stand behind the run's path. grades: of each, 0 to N_GRADES - 1. ms: what making it took, by a table."""

    source: str
    tokens: tuple[int, ...]
    grades: tuple[int, ...]
    ms: float = 0.0

    def cut(self, n: int) -> Draft:
        """Its first n tokens."""
        return self if n >= len(self.tokens) else Draft(self.source, self.tokens[:n], self.grades[:n], self.ms)


class Source(Protocol):
    """Drafts that cost next to nothing: found, not computed."""

    @property
    def name(self) -> str: ...
    def propose(self, run: Run, trail: Trail, n: int) -> Draft | None:
        """At most n tokens behind the run's path; None: nothing is known. Changes nothing but its own marks in the trail."""
        ...


Worth = Callable[[int, float], bool]  # tokens drafted so far, probability that all of them hold: is one more worth its cost?


class ComputedSource(Protocol):
    """Drafts that cost model steps of their own."""

    @property
    def name(self) -> str: ...
    def cost_of_start(self, run: Run) -> float:
        """ms until the first token can be drafted: what of the path it has not seen yet."""
        ...

    @property
    def step_ms(self) -> float:
        """Of one drafted token."""
        ...

    def draft(self, run: Run, n: int, worth: Worth) -> Draft:
        """At most n tokens, as long as the source is confident and the next one is worth it; perhaps none."""
        ...

    @property
    def is_lost(self) -> bool:
        """It can't draft any more."""
        ...

    is_hurried: Callable[[], bool]  # asked between its steps: has somebody come?

    def close(self) -> None: ...


def grades_of(n: int, length: int) -> tuple[int, ...]:
    """The grades of so many tokens, the first of which follows n tokens that agree."""
    known = _GRADES[n : n + length]
    return known + (N_GRADES - 1,) * (length - len(known))


_GRADES = tuple(bisect_right(_LENGTHS, n) for n in range(_LENGTHS[-1]))
