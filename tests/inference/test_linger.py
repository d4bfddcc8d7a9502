"""How long an engine stays without anybody, in virtual time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from inference.serve.process import FIRST_S, Linger


class Loop:
    """Just the timers."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        self.timers.append(Timer(self.now + delay, callback))
        return self.timers[-1]

    def go_to(self, now: float) -> None:
        while due := [timer for timer in self.timers if timer.at <= now and not timer.is_over]:
            first = min(due, key=lambda timer: timer.at)
            self.now, first.is_over = first.at, True
            first.callback()
        self.now = now


class Timer:
    def __init__(self, at: float, callback: Callable[[], None]) -> None:
        self.at, self.callback, self.is_over = at, callback, False

    def cancel(self) -> None:
        self.is_over = True


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    loop = Loop()
    monkeypatch.setattr("asyncio.get_running_loop", lambda: loop)
    return loop


def lingering(loop: Loop, seconds: float | None, busy: list[bool]) -> tuple[Linger, list[float]]:
    ended: list[float] = []
    return Linger(seconds, lambda: bool(busy), lambda: ended.append(loop.now)), ended


def test_the_first_to_come_has_time_however_short_it_lingers(loop: Loop) -> None:
    linger, ended = lingering(loop, 0, [])
    linger.begin()
    loop.go_to(FIRST_S - 1)
    assert ended == []
    loop.go_to(FIRST_S)
    assert ended == [FIRST_S]


def test_it_ends_so_long_after_the_last_one_left(loop: Loop) -> None:
    linger, ended = lingering(loop, 120, [])
    linger.begin()
    for n in (1, 2, 1):
        linger.on_leases(n)
    loop.go_to(1000)
    assert ended == []
    linger.on_leases(0)
    loop.go_to(1119)
    linger.on_leases(1)  # somebody came back in time
    loop.go_to(2000)
    linger.on_leases(0)
    loop.go_to(2121)
    assert ended == [2120]


def test_what_runs_for_somebody_without_a_lease_is_let_finish(loop: Loop) -> None:
    busy = [True]
    linger, ended = lingering(loop, 0, busy)
    linger.on_leases(1)
    linger.on_leases(0)
    loop.go_to(10.5)
    assert ended == []
    busy.clear()
    loop.go_to(20)
    assert ended == [11]


def test_one_that_somebody_started_by_hand_stays(loop: Loop) -> None:
    linger, ended = lingering(loop, None, [])
    linger.begin()
    linger.on_leases(1)
    linger.on_leases(0)
    assert loop.timers == [] and ended == []
