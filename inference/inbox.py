"""Where other threads reach the engine: requests that arrive, ids to cancel, and whether the step under way is still wanted.

Owns everything the engine shares between threads, under one lock. The owner thread empties it at each step; the abort flag is
polled by the backend while it decodes.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable

from inference.run import Run
from inference.types import GenerationRequest, Priority


class Inbox:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._arrived: deque[Run] = deque()
        self._cancelled: set[int] = set()
        self._decoding: list[tuple[Run, int]] = []  # runs of the step under way, and where their rows end
        self._ends_at = math.inf  # when the step under way should end
        self._patience_s = 0.0  # how long something in front waits for it
        self._yields = True  # whether it is ended for something in front at all
        self._abort = False
        self._abort_at = math.inf
        self._is_closed = False
        self._has_news = False

    # -- for any thread

    def put(self, run: Run) -> bool:
        """Queue a run; false if the engine is closed. A step of what ranks below, and that the run would not use, is aborted
        unless it ends soon."""
        with self._changed:
            if self._is_closed:
                return False
            self._arrived.append(run)
            if self._delays(run.request):
                self._hurry()
            self._changed.notify()
            return True

    def cancel(self, request_id: int) -> None:
        """A step that serves nobody else is aborted, unless a request that waits shares its rows."""
        with self._changed:
            self._cancelled.add(request_id)
            self._abort |= self._serves_nobody()
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._is_closed = self._abort = True
            self._changed.notify()

    def wake(self) -> None:
        """Something else has happened that the owner thread may go on with."""
        with self._changed:
            self._has_news = True
            self._changed.notify()

    @property
    def is_empty(self) -> bool:
        return not self._arrived and not self._cancelled

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def priorities(self) -> list[Priority]:
        """Of the requests that have arrived and were not taken yet."""
        with self._changed:
            return [run.priority for run in self._arrived]

    def is_aborted(self) -> bool:
        """Polled while the backend decodes, from any thread."""
        return self._abort or (self._abort_at < math.inf and self._clock() >= self._abort_at)

    def _delays(self, request: GenerationRequest) -> bool:
        """Does the step under way serve only what ranks below this request, and nothing that this request could use?"""
        if not (request.priority.is_foreground and self._decoding and self._yields):
            return False
        if any(run.priority <= request.priority for run, _ in self._decoding):
            return False
        return not any(run.request.tokens[:end] == request.tokens[:end] for run, end in self._decoding)

    def _hurry(self) -> None:
        """End the step now, or if it should end soon by itself: then, in case it doesn't."""
        now = self._clock()
        if self._ends_at - now > self._patience_s:
            self._abort = True
        else:
            self._abort_at = min(self._abort_at, now + self._patience_s)

    def _serves_nobody(self) -> bool:
        """Are all runs of the step under way cancelled, and its rows of no use to those that wait?"""
        decoding = self._decoding
        if not decoding or not all(run.request_id in self._cancelled for run, _ in decoding):
            return False
        waiting = [run.request.tokens for run in self._arrived]
        return not any(run.request.tokens[:end] == w[:end] for run, end in decoding for w in waiting)

    # -- for the owner thread

    def take(self) -> tuple[list[Run], set[int]]:
        """What has arrived and what was cancelled since the last call."""
        with self._changed:
            arrived, cancelled = list(self._arrived), self._cancelled
            self._arrived.clear()
            self._cancelled = set()
            self._has_news = False
            self._abort, self._abort_at = self._is_closed, math.inf
            return arrived, cancelled

    def begin_step(
        self,
        decoding: list[tuple[Run, int]],
        ms: float = math.inf,
        patience_ms: float = 0.0,
        yields: bool = True,
        most_ms: float = math.inf,
    ) -> None:
        """From here on the step may be aborted, also by what arrived or was cancelled since `take`.

        decoding: runs, and where their rows end. ms: how long the step should take; if no more than patience_ms of it are left,
        something in front waits for it. yields: whether it is ended for something in front at all. most_ms: after so many it
        is ended anyway.
        """
        with self._changed:
            self._decoding = decoding
            now = self._clock()
            self._ends_at, self._patience_s, self._yields = now + ms / 1000, patience_ms / 1000, yields
            self._abort, self._abort_at = self._is_closed or self._serves_nobody(), now + most_ms / 1000
            if any(self._delays(run.request) for run in self._arrived):
                self._hurry()

    def end_step(self) -> None:
        with self._changed:
            self._decoding = []

    def wait(self, timeout_s: float | None = None) -> None:
        """Sleep until something arrives, is cancelled or otherwise new, or the engine is closed."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_closed or self._has_news or bool(self._arrived) or bool(self._cancelled), timeout_s
            )
