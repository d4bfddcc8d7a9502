"""Progress of long tasks on standard error: a bar on a terminal, lines at whole steps elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

from inference.models.store import OnProgress, Progress

_PLAIN_STEP = 10  # per cent between two lines, where the output is not a terminal


@contextmanager
def shown() -> Iterator[OnProgress]:
    progress: _Bar | _Lines = _Bar() if sys.stderr.isatty() else _Lines()
    try:
        yield progress
    finally:
        progress.close()


class _Bar:
    def __init__(self) -> None:
        self._phase = ""
        self._bar: tqdm[Any] | None = None

    def __call__(self, progress: Progress) -> None:
        if self._bar is None or progress.phase != self._phase:
            self.close()
            self._phase = progress.phase
            self._bar = tqdm(
                total=progress.n_total_bytes,
                initial=progress.n_bytes,
                unit="B",
                unit_scale=True,
                desc=progress.phase,
                file=sys.stderr,
            )
        self._bar.set_postfix_str(progress.note, refresh=False)
        self._bar.update(progress.n_bytes - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class _Lines:
    def __init__(self) -> None:
        self._last: tuple[str, int] = ("", -1)

    def __call__(self, progress: Progress) -> None:
        step = 100 * progress.n_bytes // max(progress.n_total_bytes, 1) // _PLAIN_STEP
        if (progress.phase, step) == self._last:
            return
        self._last = (progress.phase, step)
        note = f", {progress.note}" if progress.note else ""
        mega = f"{progress.n_bytes / 1e6:,.0f} of {progress.n_total_bytes / 1e6:,.0f} MB"
        sys.stderr.write(f"{progress.phase}: {step * _PLAIN_STEP} % ({mega}{note})\n")
        sys.stderr.flush()

    def close(self) -> None:
        """Every line is complete already."""
