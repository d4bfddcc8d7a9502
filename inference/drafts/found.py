"""Sources without a model: the rest of the text that was suggested before, and the look-up of what is being repeated.

Owns which text goes on like this one, and how sure that is: the more tokens agree, the surer. What is about to be healed
counts as well, since only a text that goes on with these bytes is taken.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from inference.drafts.draft import Draft, grades_of
from inference.drafts.match import longest_match
from inference.drafts.trail import GAP, Trail
from inference.healing import HealingIndex
from inference.run import Run

PREVIOUS, LOOKUP = "previous", "lookup"
_LEAST = 2  # tokens that have to agree for a look-up; what is healed counts for one
_LONG = 4  # tokens that agree: then a text is being repeated, also where single tokens of it are others
_MOST_CHANGED = 24  # tokens since it last agreed
_AT_START = 6  # what was suggested at this very place is as sure as so many tokens that agree


class Previous:
    """The text that was suggested before, as long as the new one agrees with it, and again where it agrees once more."""

    name = PREVIOUS

    def __init__(self, healing: HealingIndex) -> None:
        self._healing = healing

    def propose(self, run: Run, trail: Trail, n: int) -> Draft | None:
        text, chosen = trail.previous, trail.chosen
        if not len(text):
            return None
        n_chosen = len(chosen)
        if n_chosen < len(text) and np.array_equal(text[:n_chosen], chosen):
            return _draft(self.name, text[n_chosen : n_chosen + n], _AT_START + n_chosen)
        found = longest_match(text, chosen, shortest=_LEAST, first=_first(self._healing, run), near=n_chosen)
        return None if found is None else _draft(self.name, text[found.at : found.at + n], found.n)


class Lookup:
    """The longest latest match of the last tokens, in the text before the cursor, behind it and in what was given beside it;
    where there is none any more, the text that was being repeated, token for token."""

    name = LOOKUP

    def __init__(self, healing: HealingIndex) -> None:
        self._healing = healing

    def propose(self, run: Run, trail: Trail, n: int) -> Draft | None:
        before, first = trail.before, _first(self._healing, run)
        shortest = _LEAST - bool(run.rest)
        here = longest_match(before, before, shortest=shortest, first=first)
        there = longest_match(trail.beside, before, shortest=shortest, first=first)
        is_beside = here is None or (there is not None and there.n > here.n)
        found, text = (there, trail.beside) if is_beside else (here, before)
        if found is None:
            return self._behind_a_change(trail, first, n)
        if found.n >= _LONG:
            trail.read_at = (is_beside, found.at, trail.n)
        return _draft(self.name, text[found.at : found.at + n], found.n + bool(run.rest))

    def _behind_a_change(self, trail: Trail, first: NDArray[np.int64] | None, n: int) -> Draft | None:
        """A token was another one than in the text that was being repeated: perhaps that goes on behind it."""
        if trail.read_at is None:
            return None
        is_beside, at, n_then = trail.read_at
        text, at = (trail.beside if is_beside else trail.before), at + trail.n - n_then
        if trail.n - n_then > _MOST_CHANGED or at >= len(text) or (first is not None and text[at] not in first):
            return None
        return _draft(self.name, text[at : at + n], 1)


def _first(healing: HealingIndex, run: Run) -> NDArray[np.int64] | None:
    return healing.allowed(run.rest) if run.rest else None


def _draft(source: str, tokens: NDArray[np.int32], n_agreeing: int) -> Draft | None:
    gaps = np.flatnonzero(tokens == GAP)
    found = tokens[: gaps[0]].tolist() if len(gaps) else tokens.tolist()
    if not found:
        return None
    return Draft(source, tuple(found), grades_of(n_agreeing, len(found)))
