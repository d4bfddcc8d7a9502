"""The background's budget: in every minute one full prompt and what the foreground evaluated in it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.types import Priority
from lsp_server.warm.allowance import MINUTE_S, SOON_S, Ledger
from tests.support.desk import Desk, Typist

FULL = 1000


def test_one_full_prompt_and_not_a_token_more() -> None:
    ledger = Ledger()
    assert ledger.left(0.0, FULL) == FULL
    assert ledger.wait_s(FULL, 0.0, FULL) == 0.0
    assert ledger.wait_s(FULL + 1, 0.0, FULL) > 0.0


def test_what_runs_counts_in_full_until_it_ends() -> None:
    ledger = Ledger()
    ledger.begin(1, 700)
    assert ledger.left(90.0, FULL) == 300
    assert ledger.wait_s(300, 90.0, FULL) == 0.0
    assert ledger.wait_s(301, 90.0, FULL) == SOON_S  # nobody knows when it ends
    ledger.end(1, 91.0, 200)  # it was ended early
    assert ledger.left(91.0, FULL) == 800


def test_the_minute_begins_when_the_last_of_it_was_evaluated() -> None:
    ledger = Ledger()
    ledger.begin(1, FULL)
    ledger.end(1, 20.0, FULL)
    assert ledger.left(20.0, FULL) == 0
    assert ledger.wait_s(1, 30.0, FULL) == pytest.approx(50.0)
    assert ledger.left(20.0 + MINUTE_S - 0.001, FULL) == 0
    assert ledger.left(20.0 + MINUTE_S, FULL) == FULL


def test_the_wait_is_for_as_much_as_is_asked() -> None:
    ledger = Ledger()
    for at in (0.0, 10.0, 20.0):
        ledger.begin(1, 300)
        ledger.end(1, at, 300)
    assert [ledger.wait_s(n, 25.0, FULL) for n in (100, 101, 400, 401, 700, 701)] == [0.0, 35.0, 35.0, 45.0, 45.0, 55.0]


def test_the_foreground_earns_from_when_it_began() -> None:
    ledger = Ledger()
    ledger.begin(1, FULL)
    ledger.end(1, 10.0, FULL)
    ledger.earn(5.0, 11.0, 50)  # began before: minutes that begin between hold all of the background and perhaps none of this
    assert ledger.left(12.0, FULL) == 0
    ledger.earn(11.0, 12.0, 50)
    assert ledger.left(12.0, FULL) == 50


def test_what_was_earned_long_before_does_not_count_for_a_minute_to_come() -> None:
    """2,000 tokens in front a minute ago: a background of 2,000 now would have minutes with none of them in front."""
    ledger = Ledger()
    ledger.earn(0.0, 1.0, 2000)
    assert ledger.left(59.0, FULL) == FULL
    assert ledger.wait_s(FULL + 1, 59.0, FULL) > 0.0


_ACTION = st.one_of(
    st.tuples(st.just("wait"), st.sampled_from([0.5, 3.0, 10.0, 29.5, 30.0, 60.0])),
    st.tuples(st.just("earn"), st.integers(1, 600)),
    st.tuples(st.just("begin"), st.integers(1, FULL)),
    st.tuples(st.just("sooner"), st.integers(1, FULL)),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(_ACTION, max_size=40))
def test_no_minute_holds_more(plan: list[tuple[str, Any]]) -> None:
    """Background requests take what they are allowed, evaluated evenly over some seconds; then every minute is added up."""
    ledger, now = Ledger(), 0.0
    spent: list[tuple[float, int]] = []
    earned: list[tuple[float, int]] = []
    for i, (action, value) in enumerate(plan):
        if action == "wait":
            now += value
        elif action == "earn":
            ledger.earn(now, now + 2.0, value)
            earned.append((now + 1.0, value))
            now += 2.0
        else:
            wait_s = ledger.wait_s(value, now, FULL)
            assert (wait_s == 0.0) == (value <= ledger.left(now, FULL))
            if action == "sooner":
                now += wait_s  # waiting is enough
                assert ledger.wait_s(value, now, FULL) < 1e-6
                wait_s = 0.0
            if wait_s == 0.0:
                ledger.begin(i, value)
                parts = [value // 3, value // 3, value - 2 * (value // 3)]
                spent += [(now + 0.1 + 4.0 * k, n) for k, n in enumerate(parts)]
                now += 9.0
                ledger.end(i, now, value)
    for start, _ in spent:
        in_minute = [sum(n for at, n in side if start <= at <= start + MINUTE_S) for side in (spent, earned)]
        assert in_minute[0] <= FULL + in_minute[1]


def test_what_requests_tell_adds_up_to_what_the_engine_counts() -> None:
    """Steps that were ended for a key included: the ledger is fed from these."""
    desk = Desk()
    Typist(desk, 1, n_keys=6, gap_s=0.12, pause_s=1.0)
    background = desk.submit(tuple(range(1, 200)) * 8, 0, Priority.BACKGROUND)
    desk.run(lambda: desk.finish(background) is not None)
    for request_id in list(desk.events):
        desk.engine.cancel(request_id)
    desk.engine.step()
    counters = desk.engine.counters()
    assert desk.engine.stats().n_aborted_steps > 0
    rows = {request_id: events[-1].stats.n_rows for request_id, events in desk.events.items()}
    assert rows[background] == counters.background > 199 * 8
    assert sum(rows.values()) - rows[background] == counters.prompt + counters.healing + counters.generated
