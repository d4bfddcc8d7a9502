"""How long a reply of a model takes on a machine: as measured there, or estimated from what was measured.

Owns the rule. A reply is a step of two rows (what was typed and the first token) and eleven of one.

The rule. A step reads every weight that a token goes through, so its time grows with those bytes. Two models on two CPU cores
give the line: 491 MB take 27 ms for one row and 48 ms for two, 1,117 MB take 40 and 69. Where this very model was measured, its
steps count. Where another known one was, the whole line is scaled by what that one took; the one nearest in size counts. Where
none was, a CPU scales the line by its cores, up to eight (memory sets a limit then), and a graphics card is taken for a slow
one: 200 GB/s, and 2 ms a step for the rest.

The doubt. Two points make a line through anything: beyond 1.1 GB it is extrapolated. Other quantizations than 4 bits cost more
or less for a byte. Cores differ by a factor of two and more. So an estimate without measurement is off by as much, until the
first start has measured.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from inference.models.machine import Machine, Step
from inference.models.model import Model

N_LATER_STEPS = 11

_MB = 1e6
_SMALL, _LARGE = (491.4, 27.0, 48.0), (1117.3, 40.0, 69.0)  # MB read, ms of one row, ms of two
_LINE_CPUS, _MOST_CPUS = 2, 8
_GPU_BYTES_PER_MS, _GPU_STEP_MS = 200e6, 2.0


@dataclass(frozen=True, slots=True)
class Reply:
    """ms: of the whole reply. basis: what it rests on, for people."""

    ms: float
    basis: str


def reply(model: Model, machine: Machine, models: Collection[Model]) -> Reply:
    """models: the known ones; only what was measured for one of them is used for another."""
    measured = {step.n_bytes: step for step in machine.steps}
    one, two = _line(model.step_bytes, 1), _line(model.step_bytes, 2)
    own = next((step for size, step in measured.items() if model.is_size_exact and size == model.bytes), None)
    if own is not None:
        return Reply((own.two_ms or own.ms * two / one) + N_LATER_STEPS * own.ms, "measured")
    other = _nearest(model, measured, models)
    if other is not None:
        factor = other[1].ms / _line(other[0].step_bytes, 1)
        return Reply(factor * (two + N_LATER_STEPS * one), f"estimated from {other[0].id}")
    if machine.is_gpu:
        step = _GPU_STEP_MS + model.step_bytes / _GPU_BYTES_PER_MS
        return Reply((1 + N_LATER_STEPS) * step, "estimated for a slow graphics card, nothing measured yet")
    factor = _LINE_CPUS / max(1, min(machine.n_cpus, _MOST_CPUS))
    return Reply(factor * (two + N_LATER_STEPS * one), f"estimated for {machine.n_cpus} CPUs, nothing measured yet")


def _nearest(model: Model, measured: dict[int, Step], models: Collection[Model]) -> tuple[Model, Step] | None:
    """The known model nearest in what a step reads, of those that were measured."""
    known = [(other, measured[other.bytes]) for other in models if other.is_size_exact and other.bytes in measured]
    return min(known, key=lambda pair: abs(pair[0].step_bytes - model.step_bytes), default=None)


def _line(n_bytes: float, n_rows: int) -> float:
    """ms of a step of one or two rows on two cores, when n_bytes are read."""
    (x0, *y0), (x1, *y1) = _SMALL, _LARGE
    low, high = y0[n_rows - 1], y1[n_rows - 1]
    return low + (n_bytes / _MB - x0) * (high - low) / (x1 - x0)
