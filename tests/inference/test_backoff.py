"""When something that fails may be tried again, in virtual time."""

from __future__ import annotations

from inference.backoff import DELAYS_S, Backoff


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_first_attempt_waits_for_nothing_and_later_ones_ever_longer() -> None:
    clock = Clock()
    backoff = Backoff(clock)
    assert backoff.wait_s() == 0
    waits = []
    for _ in range(12):
        clock.now += 61  # never three within a minute
        backoff.failed()
        waits.append(backoff.wait_s())
        assert not backoff.is_hopeless
    assert waits == [*DELAYS_S[1:], *[30.0] * 5]


def test_three_failures_within_a_minute_are_enough() -> None:
    clock = Clock()
    backoff = Backoff(clock)
    for _ in range(2):
        clock.now += 1
        backoff.failed()
        assert not backoff.is_hopeless
    clock.now += 59
    backoff.failed()
    assert backoff.is_hopeless and backoff.wait_s() == 30
    clock.now += 20
    assert backoff.wait_s() == 10
    clock.now += 10
    assert backoff.wait_s() == 0


def test_three_failures_in_more_than_a_minute_are_not() -> None:
    clock = Clock()
    backoff = Backoff(clock)
    for seconds in (0, 30, 31):
        clock.now += seconds
        backoff.failed()
    assert not backoff.is_hopeless and backoff.wait_s() == 2


def test_a_success_makes_all_forgotten() -> None:
    clock = Clock()
    backoff = Backoff(clock)
    for _ in range(3):
        backoff.failed()
    backoff.succeeded()
    assert backoff.wait_s() == 0 and not backoff.is_hopeless
    backoff.failed()
    assert backoff.wait_s() == 0.5
