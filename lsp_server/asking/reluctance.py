"""How much longer to wait where suggestions were rejected lately.

Owns what was rejected, by language, by kind ("line" or "block") and by place (`place_of`). It doubles with each rejection and
halves with every half-life; what is accepted ends it for that kind and place, and halves it for others. Pure; seconds, ms.
"""

from __future__ import annotations

from dataclasses import dataclass

HALF_LIFE_S = 60.0
FIRST_MS = 100.0  # what one rejection adds; each further one doubles what there is, and adds this again
_HIGHEST = 8.0  # rejections that are counted
_FORGOTTEN = 0.05


@dataclass(frozen=True, slots=True)
class Kind:
    """What was suggested. shape: "line" or "block". place: see `place_of`."""

    language: str
    shape: str
    place: str


class Reluctance:
    def __init__(self) -> None:
        self._levels: dict[Kind, tuple[float, float]] = {}  # rejections, and when that was

    def rejected(self, kind: Kind, now: float, weight: float = 1.0) -> None:
        """weight: 1 is a clear no."""
        self._levels[kind] = min(self._level(kind, now) + weight, _HIGHEST), now

    def accepted(self, kind: Kind, now: float) -> None:
        self._levels.pop(kind, None)
        for other in [k for k in self._levels if k.language == kind.language]:
            self._levels[other] = self._level(other, now) / 2, now
            if self._levels[other][0] < _FORGOTTEN:
                del self._levels[other]

    def extra_ms(self, kind: Kind, now: float, most: float) -> float:
        level = self._level(kind, now)
        return min(FIRST_MS * (2**level - 1), most) if level >= _FORGOTTEN else 0.0

    def _level(self, kind: Kind, now: float) -> float:
        level, then = self._levels.get(kind, (0.0, now))
        return float(level * 0.5 ** (max(0.0, now - then) / HALF_LIFE_S))


def place_of(before: str, after: str) -> str:
    """before, after: the cursor's line on both sides of it."""
    if not before.strip():
        return "an empty line" if not after.strip() else "a line's beginning"
    if after.strip():
        return "within a line"
    return "a word's end" if before[-1].isalnum() or before[-1] == "_" else "a line's end"
