"""The cost table: one entry a count, upper bounds between them, medians of real steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.costs import CostTable
from inference.types import Costs

COSTS = Costs(prefill_ms_per_token=10.0, step_ms=27.0)
ROWS = ((1, 40.0), (2, 69.0), (4, 119.0), (8, 267.0), (16, 338.0), (32, 593.0))  # not monotonic per row


@pytest.mark.parametrize(("n", "ms"), [(1, 40), (2, 69), (3, 119), (4, 119), (5, 267), (9, 338), (32, 593), (33, 1186)])
def test_a_count_without_an_entry_costs_what_the_next_larger_one_does(n: int, ms: float) -> None:
    assert CostTable(COSTS, ROWS).cost(n) == ms


@pytest.mark.parametrize(
    ("ms", "most", "largest", "best"),
    [(10, 99, 0, 1), (40, 99, 1, 1), (118, 99, 2, 2), (300, 99, 8, 4), (340, 99, 16, 16), (340, 10, 8, 4), (9999, 99, 32, 32)],
)
def test_rows_within_a_time(ms: float, most: int, largest: int, best: int) -> None:
    table = CostTable(COSTS, ROWS)
    assert (table.most_rows(ms, most), table.best_rows(ms, most)) == (largest, best)


def test_a_chunk_keeps_what_was_measured_for_it() -> None:
    table = CostTable(COSTS, (*ROWS, (12, 260.0)))
    assert table.chunk(250.0, 512) == 12  # measured for 250 ms, and 4 % over it
    assert table.chunk(1.0, 512) == 8  # a slow machine still goes on
    assert table.chunk(9999.0, 20) == 16


def test_costs_that_were_set_stand_for_every_count_and_stay() -> None:
    table = CostTable(COSTS)
    table.observe(1, 1.0)
    assert [table.cost(n) for n in (1, 2, 11)] == [27, 37, 127]
    assert [table.most_rows(ms, 512) for ms in (26, 27, 36.9, 127, 1e9)] == [0, 1, 1, 11, 512]
    assert (table.best_rows(1.0, 8), table.chunk(250.0, 512), table.rows) == (1, 25, ())


def test_real_steps_refine_an_entry_and_make_one_after_three() -> None:
    table = CostTable(COSTS, ROWS)
    for ms in (60.0, 50.0):
        table.observe(3, ms)
    assert table.cost(3) == 119
    table.observe(3, 55.0)
    assert table.cost(3) == 55
    table.observe(1, 20.0)
    assert table.cost(1) == 30  # the median with what was measured
    for _ in range(3):
        table.observe(1, 20.0)
    table.observe(1, 900.0)  # one slow step does not count
    assert table.cost(1) == 20
    assert table.rows == ((1, 20.0), (2, 69.0), (3, 55.0), *ROWS[2:])


def test_a_prompt_token_costs_what_it_does_in_the_cheapest_chunk() -> None:
    table = CostTable(COSTS, ROWS)
    assert table.costs == Costs(593 / 32, 40.0)
    for _ in range(9):
        table.observe(16, 160.0)
        table.observe(1, 24.0)
        table.observe(2, 1.0)  # no chunk of a prompt
    assert table.costs == Costs(10.0, 24.0)
    assert CostTable(COSTS, ROWS[1:4]).costs == Costs(267 / 8, 27.0)
    assert CostTable(COSTS, ROWS[:3]).costs == Costs(10.0, 40.0)


def test_where_the_layers_are_stays_known() -> None:
    table = CostTable(Costs(1.0, 1.0, on_cpu=False), ROWS)
    table.observe(1, 20.0)
    assert not table.costs.on_cpu


def test_costs_that_were_set_are_the_costs() -> None:
    table = CostTable(COSTS)
    for _ in range(9):
        table.observe(8, 8.0)
    assert table.costs == COSTS


def test_a_clock_that_stands_still_tells_nothing() -> None:
    table = CostTable(COSTS, ROWS)
    for _ in range(20):
        table.observe(1, 0.0)
    assert table.rows == ROWS


def test_old_steps_are_forgotten() -> None:
    table = CostTable(COSTS, ROWS)
    for ms in (*[10.0] * 30, *[50.0] * 15):
        table.observe(1, ms)
    assert table.cost(1) == 50


@given(
    st.dictionaries(st.integers(1, 600), st.floats(0.1, 1000), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(1, 600), st.floats(0.1, 1000)), max_size=30),
    st.integers(1, 700),
    st.floats(0, 2000),
)
def test_never_between_two_entries(rows: dict[int, float], seen: list[tuple[int, float]], n: int, ms: float) -> None:
    table = CostTable(COSTS, sorted(rows.items()))
    for each in seen:
        table.observe(*each)
    entries = dict(table.rows)
    assert set(rows) <= set(entries)
    above = [k for k in entries if k >= n]
    if above:
        assert table.cost(n) == entries[min(above)]
    else:
        assert table.cost(n) >= entries[max(entries)]
    most = table.most_rows(ms, n)
    assert most == 0 or (most <= n and entries[most] <= ms)
    best = table.best_rows(ms, n)
    assert best == 1 or entries[best] <= ms
    assert all(entries[best] / best <= entries[k] / k for k in entries if best in entries and k <= n and entries[k] <= ms)
