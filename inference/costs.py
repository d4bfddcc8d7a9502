"""What a step costs on this machine, by its number of rows.

Owns one entry for each number of rows that was measured: at first start, and then from the steps that are made (running
medians). Refuses to interpolate: cost per row is neither constant nor monotonic, so a count without an entry costs at most what
the next larger one does. With costs that somebody set instead of measuring them the table stands still, and a step costs their
sum.

What a prompt token and a step cost is read from the table too, so that a first measurement on a busy machine is soon forgotten.
While fewer threads than usual do the steps (`inference.threads`), all of it is scaled, and the entries stay what they are.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

from inference.types import Costs

_N_KEPT = 15  # samples behind a median
_MANY_ROWS = 8  # a prompt is evaluated in no smaller chunks
_N_SURE = 3  # so many samples make an entry of a count that was not measured at first start


class CostTable:
    """rows: (number of rows, ms of one such step), measured. Empty: `costs` stand for all counts."""

    def __init__(self, costs: Costs, rows: Iterable[tuple[int, float]] = ()) -> None:
        self._usual = self._costs = costs  # replaced, never changed: other threads read it
        self._scale = 1.0
        self._ms: dict[int, float] = {}
        self._counts: list[int] = []
        self._samples: dict[int, deque[float]] = {}
        for n, ms in rows:
            self._samples[n] = deque([ms], _N_KEPT)
            self._set(n, ms)

    @property
    def costs(self) -> Costs:
        """One token of a prompt in chunks of the size that is cheapest here, and one step. Cheap, and for any thread."""
        return self._costs

    @property
    def usual_costs(self) -> Costs:
        """The same without the scale."""
        return self._usual

    @property
    def is_measured(self) -> bool:
        return bool(self._ms)

    @property
    def rows(self) -> tuple[tuple[int, float], ...]:
        """All entries, by number of rows, without the scale."""
        return tuple((n, self._ms[n]) for n in self._counts)

    @property
    def counts(self) -> Sequence[int]:
        """The numbers of rows that have an entry, ascending."""
        return self._counts

    def cost(self, n: int) -> float:
        """At most how many ms a step of n rows takes. Beyond the largest entry: as many such steps as hold n rows."""
        return self._scale * self.usual_cost(n)

    def usual_cost(self, n: int) -> float:
        """The same without the scale."""
        if not self._ms:
            return self._usual.step_ms + (n - 1) * self._usual.prefill_ms_per_token
        i = bisect_left(self._counts, n)
        if i < len(self._counts):
            return self._ms[self._counts[i]]
        largest = self._counts[-1]
        return math.ceil(n / largest) * self._ms[largest]

    def most_rows(self, ms: float, most: int) -> int:
        """The largest number of rows, at most `most`, that is known to take no longer than ms; 0 if none is."""
        if self._ms:
            return max((n for n in self._counts if n <= most and self._scale * self._ms[n] <= ms), default=0)
        costs = self._usual
        if ms < costs.step_ms:
            return 0
        return min(most, 1 + int(min((ms - costs.step_ms) / max(costs.prefill_ms_per_token, 1e-3), most)))

    def best_rows(self, ms: float, most: int) -> int:
        """The number of rows, at most `most`, that costs least per row among those of no more than ms; at least 1."""
        if not self._ms:
            return max(1, self.most_rows(ms, most))
        fitting = [n for n in self._counts if n <= most and self._scale * self._ms[n] <= ms]
        return min(fitting, key=lambda n: (self._ms[n] / n, -n), default=1)

    def chunk(self, ms: float, most: int) -> int:
        """Rows of a prefill chunk that aims at ms. A machine too slow for that still gets 8."""
        if self._ms:
            return max(min(8, most), self.most_rows(ms * 1.1, most))  # what was measured for this aim is not given up for noise
        return max(8, min(most, int(ms / max(self._usual.prefill_ms_per_token, 1e-3))))

    def observe(self, n: int, ms: float) -> None:
        """A step of n rows took ms. Costs that were set stay as they are; a clock that stood still tells nothing."""
        if not self._ms or ms <= 0:
            return
        samples = self._samples.get(n)
        if samples is None:
            samples = self._samples[n] = deque(maxlen=_N_KEPT)
        samples.append(ms)
        if n in self._ms or len(samples) >= _N_SURE:
            self._set(n, statistics.median(samples))

    def scale(self, factor: float) -> None:
        """From now on a step takes so many times what its entry says."""
        self._scale = factor
        self._tell(self._usual)

    def _set(self, n: int, ms: float) -> None:
        if n not in self._ms:
            insort(self._counts, n)
        self._ms[n] = ms
        per_token = min((self._ms[n] / n for n in self._counts if n >= _MANY_ROWS), default=self._usual.prefill_ms_per_token)
        step_ms = self._ms.get(1, self._usual.step_ms)
        if (per_token, step_ms) != (self._usual.prefill_ms_per_token, self._usual.step_ms):
            self._tell(replace(self._usual, prefill_ms_per_token=per_token, step_ms=step_ms))

    def _tell(self, usual: Costs) -> None:
        per_token, step_ms = (self._scale * ms for ms in (usual.prefill_ms_per_token, usual.step_ms))
        self._usual, self._costs = usual, replace(usual, prefill_ms_per_token=per_token, step_ms=step_ms)
