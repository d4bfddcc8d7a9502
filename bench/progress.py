"""Says on standard error how far a long run is: one line that changes on a terminal, a line every half minute elsewhere."""

from __future__ import annotations

import sys
import time


class Progress:
    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._is_terminal = sys.stderr.isatty()
        self._every_s = 0.5 if self._is_terminal else 30.0
        self._last = -self._every_s

    def show(self, name: str, n_done: int, n_total: int, so_far: str = "") -> None:
        now = time.monotonic()
        if now - self._last < self._every_s and n_done < n_total:
            return
        self._last = now
        line = f"{name}: {self._unit} {n_done} of {n_total}{', ' if so_far else ''}{so_far}"
        print(f"\r{line}   " if self._is_terminal else line, end="" if self._is_terminal else "\n", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._is_terminal:
            print(file=sys.stderr)
