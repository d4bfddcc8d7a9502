"""Where other threads reach the engine: requests that arrive, ids to cancel, and whether the step under way is still wanted.

Owns everything the engine shares between threads, under one lock. The owner thread empties it at each step; the abort flag is
polled by the backend while it decodes.
"""

from __future__ import annotations

import threading
from collections import deque

from inference.run import Run
from inference.types import GenerationRequest, Priority


class Inbox:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._arrived: deque[Run] = deque()
        self._cancelled: set[int] = set()
        self._decoding: list[tuple[Run, int]] = []  # runs of the step under way, and where their rows end
        self._abort = False
        self._is_closed = False

    # -- for any thread

    def put(self, run: Run) -> bool:
        """Queue a run; false if the engine is closed. Background work that the run would not use is aborted."""
        with self._changed:
            if self._is_closed:
                return False
            self._arrived.append(run)
            self._abort |= self._delays(run.request)
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

    @property
    def is_empty(self) -> bool:
        return not self._arrived and not self._cancelled

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def is_aborted(self) -> bool:
        """Polled while the backend decodes, from any thread."""
        return self._abort

    def _delays(self, request: GenerationRequest) -> bool:
        """Is the step under way background work, and of no use to this request?"""
        if request.priority is not Priority.TYPING:
            return False
        background = [(run, end) for run, end in self._decoding if run.priority is Priority.BACKGROUND]
        return bool(background) and not any(run.request.tokens[:end] == request.tokens[:end] for run, end in background)

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
            self._abort = self._is_closed
            return arrived, cancelled

    def begin_step(self, decoding: list[tuple[Run, int]]) -> None:
        """From here on the step may be aborted, also by what arrived or was cancelled since `take`."""
        with self._changed:
            self._decoding = decoding
            delays = any(self._delays(run.request) for run in self._arrived)
            self._abort = self._is_closed or delays or self._serves_nobody()

    def end_step(self) -> None:
        with self._changed:
            self._decoding = []

    def wait(self) -> None:
        """Sleep until something arrives, is cancelled or the engine is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or bool(self._arrived) or bool(self._cancelled))
