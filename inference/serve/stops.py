"""Stop strings in a text that arrives in pieces.

Owns what is held back because a stop string may have begun. The result does not depend on how the text was cut: the stop string
that is complete first ends it, of several complete at the same character the longest.
"""

from __future__ import annotations


class Stops:
    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._longest = max(map(len, stops), default=0)
        self._held = ""
        self.is_hit = False

    def push(self, text: str) -> str:
        """What of the text so far can be said now and has not been said. After a hit, nothing more."""
        if self.is_hit or not self._stops:
            return "" if self.is_hit else text
        whole = self._held + text
        found = [(at + len(stop), at) for stop in self._stops if (at := whole.find(stop)) >= 0]
        if found:
            self.is_hit, self._held = True, ""
            return whole[: min(found)[1]]
        n_held = next((n for n in range(min(self._longest - 1, len(whole)), 0, -1) if self._may_begin(whole[-n:])), 0)
        self._held = whole[len(whole) - n_held :]
        return whole[: len(whole) - n_held]

    def rest(self) -> str:
        """What was held back, when no more comes."""
        held, self._held = self._held, ""
        return held

    def _may_begin(self, end: str) -> bool:
        return any(stop.startswith(end) for stop in self._stops)
