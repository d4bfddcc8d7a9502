"""How many threads steps get: on simulated machines, in their time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from inference.backend import Row
from inference.costs import CostTable
from inference.engine import Engine
from inference.threads import ThreadCount
from inference.types import Costs, FinishReason, GenerationRequest, Priority, TokenEvent
from tests.support.fake_backend import FakeBackend

ROWS = ((1, 40.0), (8, 140.0), (32, 400.0))
COSTS = Costs(prefill_ms_per_token=400 / 32, step_ms=40.0)
Takes = Callable[[int], float]  # threads to times the usual


def of_two(one: float, two: float) -> Takes:
    return lambda n: {1: one, 2: two}[n]


QUIET, NEIGHBOUR, HOGS, SLOWER = of_two(1.5, 1.0), of_two(1.8, 80.0), of_two(2.3, 3.5), of_two(7.5, 5.0)


@dataclass
class Machine:
    """Steps take what they take with the threads set; what is too long is ended."""

    takes: Takes
    n_threads: int = 2
    now: float = 0.0
    ended: list[float] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table = CostTable(COSTS, ROWS)
        self.n = self.n_threads
        self.threads = ThreadCount(self.n_threads, self._set, self.table, lambda: self.now)

    def _set(self, n: int) -> None:
        self.n = n

    def step(self, n_rows: int = 1, takes: Takes | None = None, ended_after_ms: float = math.inf) -> bool:
        limit = min(self.threads.begin(n_rows), ended_after_ms)
        ms = dict(ROWS)[n_rows] * (takes or self.takes)(self.n)
        self.seen.append(self.n)
        took = min(ms, limit)
        if took < ms:
            self.ended.append(took)
        self.now += took / 1000
        self.threads.end(n_rows, took, is_whole=took == ms)
        return took == ms

    def run(self, n_rows: int = 1, *, s: float) -> int:
        """Steps for so long, and how many of them ended as they should."""
        until, n = self.now + s, 0
        while self.now < until:
            n += self.step(n_rows)
        return n


def test_on_a_quiet_machine_nothing_changes_and_the_table_learns() -> None:
    machine = Machine(of_two(1.5, 1.2))
    machine.run(s=120)
    assert set(machine.seen) == {2} and not machine.ended
    assert machine.table.rows == ((1, 48.0), *ROWS[1:]) and machine.table.costs.step_ms == 48.0


@pytest.mark.parametrize("n_rows", [1, 8, 32])
def test_a_step_beside_threads_that_spin_is_ended_and_one_thread_goes_on(n_rows: int) -> None:
    machine = Machine(QUIET)
    machine.run(n_rows, s=5)
    machine.takes = NEIGHBOUR
    usual, n = dict(ROWS)[n_rows], len(machine.seen)
    assert [machine.step(n_rows) for _ in range(5)] == [False, True, True, True, True]
    assert machine.seen[n:] == [2, 1, 1, 1, 1] and machine.ended == [max(4 * usual, usual + 100)]
    assert machine.table.cost(n_rows) == pytest.approx(1.8 * usual) and machine.table.usual_cost(n_rows) == usual
    assert machine.table.costs.step_ms == pytest.approx(72.0) and machine.table.usual_costs.step_ms == 40.0


def test_trying_all_threads_again_costs_little_and_less_often() -> None:
    machine = Machine(NEIGHBOUR)
    machine.run(s=600)
    assert machine.table.rows == ROWS, "the table learnt what another program costs"
    assert sum(machine.ended) < 0.01 * 600_000 and max(machine.ended) <= 160.0
    assert machine.seen.count(2) <= 7 + 600 / 60


@pytest.mark.parametrize(("busy_s", "soon_s"), [(0.9, 1.5), (300.0, 61.0)])
def test_all_threads_are_back_soon_after_the_others_have_gone(busy_s: float, soon_s: float) -> None:
    machine = Machine(NEIGHBOUR)
    machine.run(s=busy_s)
    assert machine.threads.n == 1
    machine.takes = QUIET
    machine.run(s=soon_s)
    assert machine.n == machine.threads.n == 2
    assert machine.table.cost(1) == 40.0 and machine.table.rows == ROWS


def test_a_stall_costs_little() -> None:
    """Weights that have to be read from the disk again, say: one step takes long, and nobody else is there."""
    machine = Machine(QUIET)
    machine.step(takes=NEIGHBOUR)
    began = machine.now
    while machine.threads.n == 1:
        machine.step()
    assert machine.now - began < 1.5
    assert machine.threads.n == machine.n == 2


def test_three_slow_steps_in_a_row_are_enough_and_two_are_not() -> None:
    machine = Machine(QUIET)
    for takes in (HOGS, HOGS, QUIET, HOGS, HOGS, QUIET):
        machine.step(32, takes)
    assert machine.threads.n == 2 and not machine.ended
    assert machine.table.cost(32) == 400 * 3.5, "what did not last is a sample like others: the middle of 7"
    machine = Machine(HOGS)
    for _ in range(7):
        machine.step(32)
    assert machine.seen == [2, 2, 2, 1, 1, 1, 1]
    assert machine.threads.n == 1 and machine.table.rows == ROWS


def test_a_machine_that_became_slower_keeps_its_threads_and_the_table_follows() -> None:
    machine = Machine(SLOWER)
    machine.run(s=60)
    assert machine.threads.n == 2 and machine.table.cost(1) == 200.0
    assert len(machine.ended) <= 2 and machine.seen.count(1) <= 40


@pytest.mark.parametrize(("best", "n"), [(8, 8), (4, 4), (2, 2), (1, 1)])
def test_of_many_threads_as_many_stay_as_pay(best: int, n: int) -> None:
    """More than `best` threads wait for one that has no core; fewer have more to do each."""
    machine = Machine(lambda k: 8 / k if k <= best else 40.0, n_threads=8)
    machine.run(8, s=30)
    assert machine.threads.n == n
    machine.takes = lambda k: 8 / k
    machine.run(8, s=70)
    assert machine.threads.n == 8 and machine.table.rows == ROWS


def test_a_step_that_somebody_else_ended_says_nothing() -> None:
    machine = Machine(QUIET)
    for _ in range(20):
        machine.step(32, ended_after_ms=50.0)
    assert set(machine.seen) == {2} and machine.table.rows == ROWS
    machine.run(8, s=1)
    machine.takes = NEIGHBOUR
    machine.run(8, s=3)
    machine.takes = QUIET
    machine.now += 5
    machine.step(32, ended_after_ms=50.0)  # it tried two threads
    assert machine.threads.n == machine.n == 1 and machine.seen[-1] == 2
    machine.step(32)
    assert machine.seen[-1] == 2 and machine.threads.n == 2


def test_a_step_that_was_refused_says_nothing() -> None:
    machine = Machine(NEIGHBOUR)
    machine.run(s=4)
    machine.now += 5
    machine.threads.begin(1)
    assert machine.n == 2, "it was the one that tries"
    machine.threads.begin(1)
    machine.threads.end(1, 60.0, is_whole=True)
    assert machine.n in (1, 2) and machine.threads.n == machine.n


def test_who_needs_all_threads_for_a_moment_gets_them() -> None:
    machine = Machine(NEIGHBOUR)
    machine.run(s=2)
    assert machine.threads.are_fewer and machine.n == 1
    with pytest.raises(KeyError), machine.threads.all_of_them():
        assert machine.n == 2
        raise KeyError
    assert machine.n == machine.threads.n == 1


def test_tiny_steps_are_not_ended_for_what_nobody_would_notice() -> None:
    machine = Machine(QUIET)
    machine.table = CostTable(Costs(0.1, 0.1), [(1, 0.1)])
    machine.threads = ThreadCount(2, machine._set, machine.table, lambda: machine.now)
    for _ in range(10):
        machine.threads.begin(1)
        machine.threads.end(1, 15.0, is_whole=True)
    assert machine.threads.n == 2
    assert machine.threads.begin(1) > 100.0


@pytest.mark.parametrize(("takes", "n_ended", "n"), [(QUIET, 0, 2), (NEIGHBOUR, 1, 1)])
def test_the_engine_ends_such_a_step_and_answers_as_if_it_had_not(takes: Takes, n_ended: int, n: int) -> None:
    machine, backend = Machine(takes), FakeBackend(n_ctx=512, n_seq_max=3)

    def takes_a_while(rows: list[Row]) -> None:
        until = machine.now + machine.takes(machine.n) * machine.table.usual_cost(len(rows)) / 1000
        while machine.now < until and not backend._check():
            machine.now = min(until, machine.now + 0.004)

    backend.on_decode = takes_a_while
    engine = Engine(
        backend, n_ctx=256, n_sequences=2, costs=COSTS, table=machine.table, threads=machine.threads, clock=lambda: machine.now
    )  # fmt: skip
    events: list[TokenEvent] = []
    tokens = backend.vocab.encode(b"def total(items):\n    return ")
    script = backend.vocab.encode(b"sum(items)")
    backend.scripts[tokens] = script
    engine.submit(GenerationRequest(1, tokens, n_max=len(script), priority=Priority.TYPING), events.append)
    while engine.step():
        assert machine.now < 10, "far longer than with one thread"
    assert "".join(event.text for event in events) == "sum(items)" and events[-1].finish is FinishReason.LENGTH
    stats = engine.stats()
    assert (stats.n_aborted_steps, stats.n_threads, stats.n_threads_most) == (n_ended, n, 2)
