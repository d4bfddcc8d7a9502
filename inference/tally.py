"""What the engine has done so far, counted.

Owned by the engine's thread; other threads may read it (`counters`, `claims`), a step late at worst.
"""

from __future__ import annotations

from collections.abc import Iterable

from inference.run import Run
from inference.types import ClaimKind, Counters


class Tally:
    def __init__(self) -> None:
        self.counters = Counters()
        self.n_set_aside = 0
        self.n_aborted_steps = 0
        self._claims = dict.fromkeys(ClaimKind, 0)

    @property
    def claims(self) -> tuple[tuple[str, int], ...]:
        return tuple((kind.value, n) for kind, n in self._claims.items())

    def claimed(self, kind: ClaimKind) -> None:
        self._claims[kind] += 1

    def decoded(self, batch: Iterable[tuple[Run, int]], n_drafted: int = 0) -> None:
        """These rows went through the model: of each run, from its position; and so many of drafted tokens."""
        add = dict.fromkeys(("prompt", "healing", "generated", "background"), 0)
        for run, n in batch:
            for position in range(run.pos, run.pos + n):
                add[run.role(position)] += 1
        old = self.counters
        self.counters = Counters(
            prompt=old.prompt + add["prompt"],
            healing=old.healing + add["healing"],
            generated=old.generated + add["generated"],
            background=old.background + add["background"],
            n_steps=old.n_steps + 1,
            drafted=old.drafted + n_drafted,
        )
