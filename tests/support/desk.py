"""People at keyboards before one engine, in time that passes only while the model steps: exact, and as fast as the fake is.

A step takes what a table says for its number of rows; what falls into that time (keys, cancels) happens while it decodes, as
from other threads, and a step that is to be aborted ends soon after.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from inference.backend import Row
from inference.costs import CostTable
from inference.engine import Engine
from inference.types import Costs, GenerationRequest, Priority, TokenEvent
from tests.support.fake_backend import FakeBackend, FakeVocab

# two CPU threads: the 0.5B, measured once; and a device
CPU = ((1, 27.0), (2, 48.0), (4, 66.0), (8, 110.0), (16, 174.0), (24, 250.0), (32, 322.0))
DEVICE = ((1, 3.0), (2, 3.1), (4, 3.2), (8, 3.3), (16, 3.5), (32, 3.7), (64, 5.0), (128, 7.0), (256, 11.0), (512, 25.0))
_POLL_S = 0.004
_ABORT_S = 0.01


class Desk:
    """first_bytes_ms: of all typed requests that got one. steps: (when, rows) of each decode that was begun."""

    def __init__(self, rows: Sequence[tuple[int, float]] = CPU, *, n_sequences: int = 3, n_stowed: int = 8) -> None:
        self.now = 0.0
        self.backend = FakeBackend(FakeVocab(), n_ctx=8192, n_batch=512, n_seq_max=n_sequences + 1)
        self.backend.can_abort = rows is CPU
        self.backend.on_decode = self._decoding
        costs = Costs(prefill_ms_per_token=10.0, step_ms=rows[0][1])
        self._takes = CostTable(costs, rows)
        self.engine = Engine(
            self.backend, n_ctx=4096, n_sequences=n_sequences, costs=costs, table=CostTable(costs, rows), n_stowed=n_stowed,
            stow_bytes=1 << 30, clock=lambda: self.now,
        )  # fmt: skip
        self.events: dict[int, list[TokenEvent]] = {}
        self.first_bytes_ms: list[float] = []
        self.steps: list[tuple[float, list[Row]]] = []
        self._ids = itertools.count(1)
        self._order = itertools.count()
        self._due: list[tuple[float, int, Callable[[], Any]]] = []

    def at(self, when: float, act: Callable[[], Any]) -> None:
        heapq.heappush(self._due, (when, next(self._order), act))

    def submit(self, tokens: Sequence[int], n_max: int, priority: Priority) -> int:
        request_id, asked = next(self._ids), self.now
        events = self.events[request_id] = []

        def told(event: TokenEvent) -> None:
            said = [e.stats.first_byte_ms is not None for e in (*events, event)]
            if priority is Priority.TYPING and said[-1] and not any(said[:-1]):
                self.first_bytes_ms.append((self.now - asked) * 1000)
            events.append(event)

        self.engine.submit(GenerationRequest(request_id, tuple(tokens), n_max=n_max, priority=priority), told)
        return request_id

    def finish(self, request_id: int) -> Any:
        events = self.events[request_id]
        return events[-1].finish if events else None

    def run(self, until: Callable[[], bool]) -> None:
        """Step and let time pass until it is so, or nothing is left to happen."""
        for _ in range(100_000):
            if until():
                return
            self._happen()
            if not self.engine.step():
                if not self._due:
                    return
                self.now = max(self.now, self._due[0][0])
        raise AssertionError("it never came to that")

    def _happen(self) -> None:
        while self._due and self._due[0][0] <= self.now + 1e-9:
            heapq.heappop(self._due)[2]()

    def _decoding(self, rows: list[Row]) -> None:
        self.steps.append((self.now, rows))
        end = self.now + self._takes.cost(len(rows)) / 1000
        while self.now < end:
            self.now = min(end, self.now + _POLL_S)
            self._happen()
            if self.now < end and self.backend.can_abort and self.engine._inbox.is_aborted():
                self.now += _ABORT_S
                return
        if not self.backend.can_abort:
            self.engine._inbox._abort, self.engine._inbox._abort_at = False, float("inf")  # too late for this one


class Typist:
    """Somebody who types in bursts in a document of their own: each key asks anew, then cancels what the one before asked."""

    def __init__(self, desk: Desk, number: int, *, n_keys: int, gap_s: float, pause_s: float, start_s: float = 0.5) -> None:
        self._desk, self._n_keys, self._gap_s, self._pause_s = desk, n_keys, gap_s, pause_s
        self._text = [1 + number, *range(40, 240)]
        self._last = 0
        desk.at(start_s + 0.037 * number, self._burst)

    def _burst(self) -> None:
        now = self._desk.now
        for k in range(self._n_keys):
            self._desk.at(now + k * self._gap_s, self._key)
        self._desk.at(now + self._n_keys * self._gap_s + self._pause_s, self._burst)

    def _key(self) -> None:
        self._text.append(60 + len(self._text) % 150)
        last, self._last = self._last, self._desk.submit(self._text, 12, Priority.TYPING)
        self._desk.engine.cancel(last)
