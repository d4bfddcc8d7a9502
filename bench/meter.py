"""Where the time of a thread goes: nested spans, each counted without the spans inside it.

Owns two clocks: the CPU time of the thread that runs, and the time of the wall. A span belongs to the thread that made the
meter's first one; calls from other threads go through uncounted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Span:
    """cpu_s, wall_s: without what nested spans took. whole_s: wall time with them."""

    n: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    whole_s: float = 0.0


class Meter:
    def __init__(self, cpu: Callable[[], float] = time.thread_time, wall: Callable[[], float] = time.perf_counter) -> None:
        self._cpu = cpu
        self._wall = wall
        self._thread: int | None = None
        self._inside: list[list[float]] = []  # of each open span: CPU and wall time of the spans in it
        self.spans: dict[str, Span] = {}

    def clear(self) -> None:
        """Forget what was counted; spans that are open are counted with all that was in them."""
        self.spans.clear()

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, each call of it a span of that name."""

        def run(*arguments: Any, **options: Any) -> Any:
            if self._thread is None:
                self._thread = threading.get_ident()
            if self._thread != threading.get_ident():
                return function(*arguments, **options)
            self._inside.append([0.0, 0.0])
            cpu, wall = self._cpu(), self._wall()
            try:
                return function(*arguments, **options)
            finally:
                self._close(name, self._cpu() - cpu, self._wall() - wall)

        return run

    def put(self, owner: Any, attribute: str, name: str) -> None:
        """Time that attribute of an object, a class or a module from now on."""
        setattr(owner, attribute, self.timed(name, getattr(owner, attribute)))

    def _close(self, name: str, cpu_s: float, wall_s: float) -> None:
        inner_cpu_s, inner_wall_s = self._inside.pop()
        span = self.spans.setdefault(name, Span())
        span.n += 1
        span.cpu_s += cpu_s - inner_cpu_s
        span.wall_s += wall_s - inner_wall_s
        span.whole_s += wall_s
        if self._inside:
            self._inside[-1][0] += cpu_s
            self._inside[-1][1] += wall_s
