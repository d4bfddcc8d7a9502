"""What the server's process asks of the interpreter, so that its loop is never held up for long by what is not its own.

Owns the interpreter's settings and the moments of full collections. A collection looks at everything that it does not leave
alone, in whatever callback it falls: tens of milliseconds. So what is there at the start is left alone, and full collections
come when the loop has had next to nothing to do for half a minute; what they leave over is left alone from then on, and once
in an hour of work everything is looked at, again in such a moment. Cyclic garbage is bounded also where no such moment ever
comes: young objects are collected as always, and between two full collections no more than about 700 × 10 × MOST_OLD grow
old, or a quarter of what there was. Refuses to be called by anything but whoever starts serving.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# So long the interpreter lets a thread that computes go on while others wait. With Python's own 5 ms the loop would wait that
# long for each thread that reads or parses beside it.
_SWITCH_S = 0.0005
_YOUNG, _MIDDLE = 700, 10  # Python's own
MOST_OLD = 100  # collections of the middle generation, after which a full one comes whatever goes on
LOOK_S = 30.0
_QUIET_S = 0.005  # of the processor's time in LOOK_S: less than a few keys take
_ALL_AGAIN_S = 3600.0


@contextmanager
def importing() -> Iterator[None]:
    """While modules are imported: what they make stays, and a tenth of the time would go into looking for garbage among it."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class Tidier:
    """cpu: seconds of the processor that the loop's thread has had. clock: seconds."""

    def __init__(self, cpu: Callable[[], float] = time.thread_time, clock: Callable[[], float] = time.monotonic) -> None:
        self._cpu = cpu
        self._clock = clock
        self._seen = cpu()
        self._all_at = clock()

    def look(self) -> bool:
        """On the loop, every LOOK_S: whether it was a quiet moment, in which everything that can go has gone."""
        before, self._seen = self._seen, self._cpu()
        if self._seen - before > _QUIET_S or not gc.get_count()[2]:  # or nothing has grown old since the last time
            return False
        if self._clock() - self._all_at >= _ALL_AGAIN_S:
            self._all_at = self._clock()
            gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._seen = self._cpu()  # what this took is not the loop's own
        return True


_tidied: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()


def keep_loop_free() -> None:
    """To be called on the loop, when what stays for the process's life has been made, most of it imported modules."""
    sys.setswitchinterval(_SWITCH_S)
    gc.set_threshold(_YOUNG, _MIDDLE, MOST_OLD)
    gc.freeze()
    gc.collect()  # of nothing: for the interpreter only what comes from here on is old, and new beside that
    loop = asyncio.get_running_loop()
    if loop not in _tidied:
        _tidied.add(loop)
        loop.call_later(LOOK_S, _look, loop, Tidier())


def _look(loop: asyncio.AbstractEventLoop, tidier: Tidier) -> None:
    tidier.look()
    loop.call_later(LOOK_S, _look, loop, tidier)
