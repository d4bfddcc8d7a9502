"""Which rows ride in the next step. Pure: a question about the runs, answered with row counts.

Typing runs share a step: one row for each that generates, and one prefill chunk between those that don't. Background runs
ride only when no typing run is there.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Protocol

from inference.types import Priority


class Schedulable(Protocol):
    @property
    def priority(self) -> Priority: ...
    @property
    def n_pending(self) -> int:
        """Rows that are known and not yet evaluated: the rest of the prompt, or one generated token."""
        ...


def schedule(runs: Seq[Schedulable], n_chunk: int, n_background: int, n_batch: int) -> list[tuple[int, int]]:
    """(index of the run, number of its rows), in order of the runs; at most n_batch rows in all.

    n_chunk: most prefill rows of typing runs together. n_background: most rows of a background run.
    """
    typing = [i for i, r in enumerate(runs) if r.priority is Priority.TYPING and r.n_pending]
    if not typing:
        first = next((i for i, r in enumerate(runs) if r.n_pending), None)
        return [] if first is None else [(first, min(runs[first].n_pending, n_background, n_batch))]
    picked: list[tuple[int, int]] = []
    room, chunk = n_batch, n_chunk
    for i in typing:
        pending = runs[i].n_pending
        n = min(pending, room) if pending == 1 else min(pending, room, chunk)
        if n <= 0:
            continue
        picked.append((i, n))
        room -= n
        chunk -= n if pending > 1 else 0
    return picked
