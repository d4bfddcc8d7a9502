"""Which rows ride together: who goes first, who rides along, and that nobody waits for ever."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.costs import CostTable
from inference.scheduler import PATIENCE_MS, SHARE, STARVED, Plan, Scheduler
from inference.types import Costs, Priority

T, I, P, B = Priority  # noqa: E741
CPU = ((1, 27.0), (2, 48.0), (4, 66.0), (8, 110.0), (16, 174.0), (24, 250.0), (32, 322.0))
GPU = ((1, 3.0), (2, 3.1), (4, 3.2), (8, 3.3), (16, 3.5), (32, 3.7), (64, 5.0), (128, 7.0), (256, 11.0), (512, 25.0))
LONG_AGO = 1e9


@dataclass(frozen=True)
class Some:
    priority: Priority
    n_pending: int
    has_byte: bool = False
    n_waited: int = 0
    row_limit: int = 0
    request_id: int = 0
    is_branch: bool = False


def cpu(**options: object) -> Scheduler:
    return Scheduler(
        CostTable(Costs(10, 27), CPU), n_batch=512, chunk_ms=250.0, background_rows=32, can_abort=True, **options  # type: ignore[arg-type]
    )


def gpu() -> Scheduler:
    return Scheduler(CostTable(Costs(0.1, 3), GPU), n_batch=512, chunk_ms=250.0, background_rows=32, can_abort=False)


said = {"has_byte": True}


@pytest.mark.parametrize(
    ("runs", "plan"),
    [
        ([], []),
        ([Some(T, 0)], []),
        ([Some(T, 500)], [(0, 24)]),
        # all who type share a step; a chunk goes to the shortest first
        ([Some(T, 1, **said), Some(T, 10), Some(T, 14)], [(0, 1), (1, 10), (2, 14)]),
        ([Some(T, 1, **said), Some(T, 20, n_waited=1), Some(T, 10)], [(0, 1), (1, 14), (2, 10)]),
        # who has its byte stays out of the step of a key, unless that costs little; but not of a prefill's
        ([Some(T, 1, **said), Some(T, 1)], [(1, 1)]),
        ([Some(T, 1, **said), Some(T, 1), Some(T, 2)], [(0, 1), (1, 1), (2, 2)]),  # 4 rows are the bound for 3, too
        ([Some(T, 1, **said), Some(T, 8)], [(1, 8)]),
        ([Some(T, 1, **said), Some(T, 9)], [(0, 1), (1, 9)]),
        ([Some(T, 1, **said, n_waited=STARVED), Some(T, 1)], [(0, 1)]),
        # a prefill that doesn't end now stays out of a step that brings another its logits, but not of two
        ([Some(T, 500), Some(T, 3)], [(1, 3)]),
        ([Some(T, 500, n_waited=1), Some(T, 3)], [(0, 21), (1, 3)]),
        ([Some(T, 500), Some(T, 1, **said)], [(0, 24), (1, 1)]),
        # nothing below rides with somebody who has no byte
        ([Some(T, 3), Some(P, 50), Some(B, 1)], [(0, 3)]),
        ([Some(T, 4), Some(I, 1, **said), Some(B, 1)], [(0, 4)]),
        ([Some(T, 3), Some(I, 1, **said), Some(B, 1)], [(0, 3), (1, 1)]),  # 4 rows are the bound for 3, too
        ([Some(T, 1, **said), Some(I, 40), Some(P, 50), Some(B, 1)], [(0, 1), (1, 24)]),
        ([Some(B, 500), Some(I, 3)], [(1, 3)]),
        # nor here, where even a second row costs much
        ([Some(T, 1, **said), Some(B, 500)], [(0, 1)]),
        ([Some(T, 1, **said), Some(B, 500, n_waited=SHARE - 1)], [(0, 1)]),
        # its share: 8 steps of 27 ms give it 72 ms
        ([Some(T, 1, **said), Some(B, 500, n_waited=SHARE)], [(1, 4)]),
        ([Some(T, 1, **said), Some(P, 500, n_waited=SHARE), Some(B, 500, n_waited=SHARE + 1)], [(2, 4)]),
        # nobody in front
        ([Some(B, 500), Some(P, 500)], [(1, 32)]),
        ([Some(B, 500), Some(P, 20), Some(P, 1), Some(B, 1)], [(0, 10), (1, 20), (2, 1), (3, 1)]),
        ([Some(B, 500, row_limit=4)], [(0, 4)]),
        ([Some(I, 500, row_limit=4), Some(T, 1, **said)], [(0, 4), (1, 1)]),
        ([Some(T, 500, row_limit=4)], [(0, 24)]),
        # held back for very long: one small step
        ([Some(T, 3), Some(B, 500, n_waited=STARVED)], [(1, 1)]),
        ([Some(T, 3), Some(I, 500, n_waited=STARVED), Some(B, 500, n_waited=STARVED + 1)], [(2, 1)]),
        ([Some(I, 3), Some(B, 500, n_waited=STARVED)], [(1, 1)]),
    ],
)
def test_on_a_cpu(runs: list[Some], plan: Plan) -> None:
    assert cpu().plan(runs, LONG_AGO) == plan


@pytest.mark.parametrize(
    ("runs", "plan"),
    [
        # what costs little rides along, never with somebody who has no byte
        ([Some(T, 1, **said), Some(B, 500)], [(0, 1), (1, 31)]),
        ([Some(T, 1, **said), Some(B, 1), Some(P, 500)], [(0, 1), (2, 31)]),
        ([Some(T, 3), Some(B, 500), Some(I, 1, **said)], [(0, 3), (2, 1)]),
        ([Some(T, 1, **said), Some(I, 3), Some(B, 500)], [(0, 1), (1, 3)]),
        # what can't be ended takes no more than 20 ms
        ([Some(B, 500)], [(0, 256)]),
        ([Some(I, 500)], [(0, 256)]),
        ([Some(I, 500), Some(I, 1)], [(0, 255), (1, 1)]),
        ([Some(T, 600)], [(0, 512)]),
    ],
)
def test_on_a_device(runs: list[Some], plan: Plan) -> None:
    assert gpu().plan(runs, LONG_AGO) == plan


@pytest.mark.parametrize(
    ("quiet_ms", "n"), [(0, 1), (575, 1), (576, 2), (792, 4), (1320, 8), (2088, 16), (3000, 24), (4000, 32), (LONG_AGO, 32)]
)
def test_a_background_chunk_is_a_twelfth_of_the_quiet(quiet_ms: float, n: int) -> None:
    assert cpu().plan([Some(B, 500)], quiet_ms) == [(0, n)]
    assert gpu().plan([Some(B, 500)], quiet_ms) == [(0, 256)]


some = st.builds(
    Some, st.sampled_from(Priority), st.integers(0, 600), st.booleans(), st.integers(0, 40), st.sampled_from([0, 0, 1, 4])
)


@settings(max_examples=400, deadline=None)
@given(st.lists(some, max_size=8), st.sampled_from([0.0, 900.0, LONG_AGO]), st.booleans())
def test_what_holds_for_every_step(runs: list[Some], quiet_ms: float, on_cpu: bool) -> None:
    scheduler, table = (cpu(), CPU) if on_cpu else (gpu(), GPU)
    plan = scheduler.plan(runs, quiet_ms)
    ready = [run for run in runs if run.n_pending]
    assert bool(plan) == bool(ready)
    assert [i for i, _ in plan] == sorted({i for i, _ in plan})
    assert all(0 < n <= runs[i].n_pending for i, n in plan)
    n_rows = sum(n for _, n in plan)
    assert n_rows <= 512
    picked = [runs[i] for i, _ in plan]
    ms = next((ms for n, ms in table if n >= n_rows), 1e9)
    for level in (Priority.TYPING, Priority.INVOKED):
        if any(run.priority <= level and not run.has_byte for run in ready):
            own = [run for run in picked if run.priority.is_foreground]
            if not own or (level is T and not any(r.priority is T for r in picked)):
                assert ms <= PATIENCE_MS or n_rows == 1
                assert all(run.n_waited >= STARVED for run in picked)
            else:
                assert not any(run.priority > Priority.INVOKED for run in picked), "a lower row rode with one without a byte"
    if picked and all(run.priority is not T for run in picked):
        assert on_cpu or ms <= 20.0
        n_generating = sum(run.n_pending == 1 for run in picked)
        assert n_rows <= max(n_generating, 32 if on_cpu else 512)


@settings(max_examples=150, deadline=None)
@given(st.lists(some.filter(lambda run: run.n_pending), min_size=1, max_size=8), st.booleans(), st.booleans())
def test_nobody_waits_for_ever(runs: list[Some], on_cpu: bool, always_new: bool) -> None:
    """Whatever is in front stays there; what rides keeps its place. always_new: those in front never have a byte."""
    scheduler = cpu() if on_cpu else gpu()
    runs = [replace(run, n_waited=0, has_byte=run.has_byte and not always_new) for run in runs]
    waits = dict.fromkeys(range(len(runs)), 0)
    for _ in range(400):
        plan = scheduler.plan(runs, 0.0)
        riding = {i for i, _ in plan}
        for i in waits:
            waits[i] = 0 if i in riding else waits[i] + 1
        runs = [replace(run, n_waited=0 if i in riding else run.n_waited + 1) for i, run in enumerate(runs)]
        assert max(waits.values()) <= STARVED + 2 * len(runs)
