"""Which pieces the prompts of one document should hold, and which they have held.

Owns the choice that stands and the last few of before, which the engine may still have. A new choice comes in only where it is
clearly better (`context.zones.stability`). Lives on the event loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from context.ranking import Ranked
from context.zones.stability import KEEP_SHARE, keep_or_change
from context.zones.types import Candidate, Zones

_MOST_COUNTED = 512
_PROVISIONAL_SHARE = 0.95
_MOST = 4  # choices remembered, the one that stands among them


class Book:
    """wanted: None until something was looked for. why: the last decision, for people. ranked: the order of definitions that
    stands. n_sent: by piece with its version, in how many planned prompts it stood."""

    def __init__(self) -> None:
        self.wanted: Zones | None = None
        self.why = ""
        self.ranked: tuple[Ranked, ...] = ()
        self.asked: object = None  # what was asked for last
        self.asked_at = float("-inf")
        self.n_sent: Counter[str] = Counter()
        self._known: list[Zones] = []
        self._has_place = False

    @property
    def others(self) -> tuple[Zones, ...]:
        """Choices of before, the last one first."""
        return tuple(zones for zones in self._known if zones is not self.wanted)

    def decide(self, best: Zones, candidates: Sequence[Candidate], *, has_place: bool = True) -> bool:
        """Whether another choice stands now. has_place: somebody is at work there; what was chosen for nowhere in particular
        gives way more easily."""
        before, share = self.wanted, KEEP_SHARE if self._has_place or not has_place else _PROVISIONAL_SHARE
        self._has_place = has_place or self._has_place
        if len(self.n_sent) > _MOST_COUNTED:
            self.n_sent = Counter(dict(self.n_sent.most_common(_MOST_COUNTED // 2)))
        self.wanted, self.why = keep_or_change(best, self._known, candidates, share)
        self._known = [self.wanted, *(zones for zones in self._known if zones.digest != self.wanted.digest)][:_MOST]
        return before is None or before.digest != self.wanted.digest
