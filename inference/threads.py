"""How many threads a step gets: all that pay on this machine, fewer while somebody else wants the same cores.

llama.cpp's threads wait for each other hundreds of times a step, and spin meanwhile. Where one of them has lost its core to
another program, all the others hold theirs for nothing: beside a second llama.cpp a step takes up to 80 times as long, and one
thread alone, which waits for nobody, twice as long (docs/bench.md, "Beside other programs"). So a step that takes far longer
than the table says is ended, and tried with half of the threads, down to one. What pays stays, until a step with more threads
ends in less time than those with fewer took.

Owns the number, and the table's scale while it is not the usual one. Judges by the clock alone: what else the machine does is
told differently everywhere, and rightly nowhere.
"""

from __future__ import annotations

import logging
import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from inference.costs import CostTable

logger = logging.getLogger(__name__)

_SLOW = 2.5  # times the usual; so many steps in a row
_N_SLOW = 3
_FAR = 4.0  # times the usual: a step that takes longer is ended
_SLOW_MS, _FAR_MS = 20.0, 100.0  # and so much longer at least: somebody would notice
_GAIN = 0.8  # of the time with more threads: what fewer must stay below
_REST_S = 30.0  # where fewer did not help, the machine has become slower, and the table learns it
_FIRST_WAIT_S, _LAST_WAIT_S = 1.0, 60.0  # until more are tried again; doubled each time that they don't pay


class ThreadCount:
    """n_threads: all there are. set_threads: for the steps that follow; at first they get all. table: what steps cost with all
    of them, as measured; is told what they took."""

    def __init__(
        self,
        n_threads: int,
        set_threads: Callable[[int], None],
        table: CostTable,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._set_threads = set_threads
        self._table = table
        self._clock = clock
        self._counts = [n_threads]
        while self._counts[-1] > 1:
            self._counts.append(self._counts[-1] // 2)
        self._level = 0  # index of the count that steps get
        self._tried: int | None = None  # of one that a step gets to see whether it pays
        self._ratios: deque[float] = deque(maxlen=_N_SLOW)  # of the latest steps: time over the usual
        self._bar = 0.0  # what the median of them must stay below at this level; 0: it has been judged
        self._held: list[tuple[int, float]] = []  # slow steps, of which the table does not know yet
        self._limit_ms = math.inf
        self._rest_until = self._try_at = self._rose_at = -math.inf
        self._wait_s = _FIRST_WAIT_S

    @property
    def n(self) -> int:
        """What the steps get, but for one that tries more."""
        return self._counts[self._level]

    @property
    def most(self) -> int:
        return self._counts[0]

    @property
    def are_fewer(self) -> bool:
        return self._level > 0

    @contextmanager
    def all_of_them(self) -> Iterator[None]:
        """Steps inside of it get all, and say nothing."""
        if not self.are_fewer:
            yield
            return
        self._set_threads(self.most)
        try:
            yield
        finally:
            self._set_threads(self.n)

    def begin(self, n_rows: int) -> float:
        """Before a step. After how many ms it is to be ended."""
        now, usual = self._clock(), self._table.usual_cost(n_rows)
        self._limit_ms = math.inf
        if self._tried is not None:  # the step before was refused: it says nothing
            self._tried = None
            self._set_threads(self.n)
        if self._level and not self._bar and now >= self._try_at:
            self._tried = self._level - 1
            self._set_threads(self._counts[self._tried])
            self._limit_ms = self._table.cost(n_rows)
        elif now >= self._rest_until and self.n > 1:
            self._limit_ms = max(_FAR * usual * self.most / self.n, usual + _FAR_MS)
        return self._limit_ms

    def end(self, n_rows: int, ms: float, *, is_whole: bool) -> None:
        """After it. is_whole: it was not ended, by the limit or by somebody else. A clock that stood still tells nothing."""
        if ms <= 0:
            return
        ratio = ms / max(self._table.usual_cost(n_rows), 1e-3) if is_whole else math.inf
        if self._tried is not None:
            self._judge_more(self._tried, ratio, ms)
        elif not is_whole:
            if ms >= self._limit_ms:
                self._fewer(math.inf)
        elif self._bar:
            self._ratios.append(ratio)
            if len(self._ratios) == _N_SLOW:
                self._judge_fewer(statistics.median(self._ratios))
        elif self._level:
            self._ratios.append(ratio)
            self._table.scale(statistics.median(self._ratios))
        else:
            self._usual(n_rows, ms, ratio)

    def _usual(self, n_rows: int, ms: float, ratio: float) -> None:
        """A step with all threads."""
        is_slow = ratio > _SLOW and ms * (1 - 1 / ratio) > _SLOW_MS
        if not is_slow or len(self._counts) == 1 or self._clock() < self._rest_until:
            self._learn()
            self._ratios.clear()
            self._table.observe(n_rows, ms)
            return
        self._held.append((n_rows, ms))
        self._ratios.append(ratio)
        if len(self._ratios) == _N_SLOW:
            self._fewer(statistics.median(self._ratios))

    def _learn(self) -> None:
        for n_rows, ms in self._held:
            self._table.observe(n_rows, ms)
        self._held.clear()

    def _fewer(self, ratio: float) -> None:
        """The next steps get half; ratio: what they have to beat."""
        if self._level == 0:
            quickly = self._clock() - self._rose_at < _REST_S
            self._wait_s = min(2 * self._wait_s, _LAST_WAIT_S) if quickly else _FIRST_WAIT_S
        self._go(self._level + 1, bar=_GAIN * ratio)

    def _judge_fewer(self, ratio: float) -> None:
        if ratio > self._bar:
            self._go(self._level - 1, scale=self._bar / _GAIN)
            if self._level == 0:
                logger.info("steps take longer than usual with fewer threads too; the table follows")
                self._learn()
            self._rest_until = self._clock() + _REST_S
        elif ratio > _SLOW and self.n > 1:
            self._fewer(ratio)
        else:
            logger.info("other programs use the cores: %d of %d threads from now on", self.n, self.most)
            self._go(self._level, scale=ratio)

    def _judge_more(self, tried: int, ratio: float, ms: float) -> None:
        self._tried = None
        if ms < self._limit_ms:
            if ratio < math.inf:
                logger.info("%d of %d threads again", self._counts[tried], self.most)
                self._rose_at = self._clock()
                self._go(tried, scale=ratio)
                self._try_at = self._rose_at
                if ratio > _SLOW:  # and yet it pays: nobody else is in the way
                    self._rest_until = self._rose_at + _REST_S
            else:  # ended by somebody else: it says nothing
                self._set_threads(self.n)
            return
        self._wait_s = min(2 * self._wait_s, _LAST_WAIT_S)
        self._go(self._level)

    def _go(self, level: int, *, bar: float = 0.0, scale: float | None = None) -> None:
        self._level, self._bar = level, bar
        self._ratios.clear()
        self._set_threads(self.n)
        self._try_at = self._clock() + self._wait_s
        if level == 0:
            self._table.scale(1.0)
        elif not bar:
            self._held.clear()
            if scale is not None:
                self._table.scale(scale)
