"""What became of all suggestions: counted by language and shape, and what that teaches about when to ask.

Owns the counts. A correction replaces what it corrects. Refuses to infer anything (`outcome` does).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from lsp_server.asking.reluctance import Reluctance
from lsp_server.learning.outcome import Fate, Outcome

_READ_S, _NOTICED_S = 0.75, 0.25  # so long something has to stand to be read, or seen at all
_READ, _NOTICED = 0.5, 0.2  # rejections that typing something else is worth then


class Outcomes:
    def __init__(self, clock: Callable[[], float], reluctance: Reluctance) -> None:
        self._clock = clock
        self._reluctance = reluctance
        self._counts: dict[tuple[str, str], Counter[str]] = {}

    def tell(self, outcome: Outcome, corrects: Outcome | None) -> None:
        counts = self._counts.setdefault((outcome.kind.language, outcome.kind.shape), Counter())
        if corrects is not None:
            counts.subtract(_figures(corrects))
        counts.update(_figures(outcome))
        now = self._clock()
        if outcome.deleted and not (corrects is not None and corrects.deleted):
            self._reluctance.rejected(outcome.kind, now)
        elif corrects is not None:
            return
        elif outcome.is_taken:
            self._reluctance.accepted(outcome.kind, now)
        elif outcome.fate is Fate.DISMISSED:
            self._reluctance.rejected(outcome.kind, now)
        elif outcome.fate is Fate.DIVERGED and outcome.seen_s >= _NOTICED_S:
            self._reluctance.rejected(outcome.kind, now, _READ if outcome.seen_s >= _READ_S else _NOTICED)

    def counts(self) -> dict[str, dict[str, dict[str, int]]]:
        """By language, then by shape ("line" or "block"): how many suggestions had which fate, and sums over them: characters
        offered, accepted, typed; suggestions deleted soon after; of those followed to the end, characters kept of how many."""
        told: dict[str, dict[str, dict[str, int]]] = {}
        for (language, shape), counts in sorted(self._counts.items()):
            told.setdefault(language, {})[shape] = {name: n for name, n in sorted(counts.items()) if n}
        return told


def _figures(outcome: Outcome) -> Counter[str]:
    figures = Counter({
        outcome.fate.value: 1, "characters_offered": outcome.n_offered, "characters_accepted": outcome.n_accepted,
        "characters_typed": outcome.n_typed, "deleted": int(outcome.deleted),
    })  # fmt: skip
    if outcome.n_kept is not None:
        figures.update(
            {"followed": 1, "characters_kept": outcome.n_kept, "characters_of_them": outcome.n_accepted + outcome.n_typed}
        )
    return figures
