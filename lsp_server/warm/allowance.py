"""How much may be prefilled in the background: the user's word, the battery, and on a CPU a budget for every minute.

Owns the ledger: in no minute does the background evaluate more tokens than one full prompt has and the foreground evaluated in
it. Each side is counted where it allows least: the foreground's tokens when their request began, the background's when theirs
ended, and all that it may still need as long as it runs.
"""

from __future__ import annotations

import sys
from bisect import insort

from inference.clients.base import EngineClient
from lsp_server.warm.power import Power

MINUTE_S = 60.0
SOON_S = 1.0  # what was cancelled has ended by then


class Ledger:
    """Tokens of the last minute. Times in seconds of one clock."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, int]] = []  # (time, tokens), sorted; the background's negative, so first
        self._running: dict[int, int] = {}  # request id -> tokens that it may still need

    def earn(self, began: float, now: float, n: int) -> None:
        """The foreground has evaluated n tokens, none of them before `began`."""
        self._add(began, n, now)

    def begin(self, request_id: int, n: int) -> None:
        self._running[request_id] = n

    def end(self, request_id: int, now: float, n: int) -> None:
        """A background request is over; it has evaluated n tokens."""
        self._running.pop(request_id, None)
        self._add(now, -n, now)

    def left(self, now: float, n_full: int) -> int:
        """Tokens that the background may evaluate from now on; n_full: of one full prompt. May be negative."""
        most = max((spent for _, spent in self._spent_since(now)), default=0)
        return n_full - self._n_running() - max(0, most)

    def wait_s(self, n: int, now: float, n_full: int) -> float:
        """Seconds until n tokens are allowed, if nothing else happens; 0: they are now."""
        threshold = n_full - self._n_running() - n
        if threshold < 0:
            return SOON_S if self._running else MINUTE_S
        last = max((time for time, spent in self._spent_since(now) if spent > threshold), default=None)
        return 0.0 if last is None else max(0.0, last + MINUTE_S - now)

    def _spent_since(self, now: float) -> list[tuple[float, int]]:
        """For each entry of the last minute: its time, and what the background spent beyond the foreground from it on.

        What begins now falls into every minute that begins at one of them.
        """
        since: list[tuple[float, int]] = []
        spent = 0
        for time, earned in reversed(self._entries):
            if time <= now - MINUTE_S:
                break
            spent -= earned
            since.append((time, spent))
        return since

    def _n_running(self) -> int:
        return sum(self._running.values())

    def _add(self, time: float, earned: int, now: float) -> None:
        if earned:
            insort(self._entries, (time, earned))
        n_old = sum(t <= now - MINUTE_S for t, _ in self._entries)
        del self._entries[:n_old]


class Allowance:
    def __init__(self, power: Power) -> None:
        self.ledger = Ledger()
        self._power = power

    async def refusal(self, background: str) -> str:
        """Why nothing may be done in the background, or "". background: the setting."""
        if background == "off":
            return "the setting background is off"
        if background == "auto" and await self._power.is_on_battery():
            return "the machine runs on its battery"
        return ""

    def left(self, client: EngineClient, now: float, n_full: int) -> int:
        return self.ledger.left(now, n_full) if client.costs().on_cpu else sys.maxsize

    def wait_s(self, client: EngineClient, n: int, now: float, n_full: int) -> float:
        return self.ledger.wait_s(n, now, n_full) if client.costs().on_cpu else 0.0
