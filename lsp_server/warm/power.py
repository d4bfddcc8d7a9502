"""Whether the machine runs on its battery.

Owns how often that is asked (once a minute) and that it is asked off the event loop: some machines take long to say. Where
nobody can tell, it does not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor

ASK_EVERY_S = 60.0

log = logging.getLogger(__name__)


def look_at_battery() -> bool:
    """Blocking. False without a battery, and where the system does not tell whether it is charged."""
    import psutil  # only where something is to be warmed

    try:
        battery = psutil.sensors_battery()
    except (AttributeError, OSError, RuntimeError, ValueError) as error:  # systems without one raise the first
        log.debug("the battery can't be asked: %s", type(error).__name__)
        return False
    return battery is not None and battery.power_plugged is False


class Power:
    """look: blocking, does not raise. executor: runs it; None = the event loop's own."""

    def __init__(
        self, clock: Callable[[], float], look: Callable[[], bool] = look_at_battery, executor: Executor | None = None
    ) -> None:
        self._clock = clock
        self._look = look
        self._executor = executor
        self._asked_at = 0.0
        self._answer: asyncio.Future[bool] | None = None

    async def is_on_battery(self) -> bool:
        """As it was when last asked, at most a minute ago."""
        now = self._clock()
        if self._answer is None or (self._answer.done() and now - self._asked_at >= ASK_EVERY_S):
            self._asked_at = now
            self._answer = asyncio.get_running_loop().run_in_executor(self._executor, self._look)
        return await asyncio.shield(self._answer)
