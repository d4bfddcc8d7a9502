"""Full collections: none while somebody works, all that can go in a quiet moment, and a bound where there is none."""

from __future__ import annotations

import asyncio
import gc
import sys
import weakref
from collections.abc import Iterator
from unittest import mock

import pytest

from lsp_server import interpreter
from lsp_server.interpreter import LOOK_S, Tidier, keep_loop_free


class Knot:
    """Only a collection finds that nobody needs it."""

    def __init__(self) -> None:
        self.itself = self


def old_knot() -> weakref.ref[Knot]:
    """One that has outlived the younger generations, and is garbage now."""
    knot = Knot()
    gc.collect(1)
    gc.collect(1)
    return weakref.ref(knot)


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    settings, interval = gc.get_threshold(), sys.getswitchinterval()
    yield
    gc.set_threshold(*settings)
    sys.setswitchinterval(interval)
    gc.unfreeze()


class Times:
    cpu = now = 0.0

    def tidier(self) -> Tidier:
        return Tidier(lambda: self.cpu, lambda: self.now)


def test_nothing_is_collected_while_there_is_work_and_all_when_it_is_quiet() -> None:
    times = Times()
    tidier, knot = times.tidier(), old_knot()
    times.cpu += 0.1
    assert not tidier.look() and knot() is not None
    assert tidier.look() and knot() is None


def test_what_was_left_alone_and_is_garbage_goes_within_an_hour() -> None:
    times = Times()
    tidier, knot = times.tidier(), Knot()
    gc.freeze()
    left = weakref.ref(knot)
    del knot
    old_knot()
    assert tidier.look() and left() is not None
    times.now += 3600.0
    times.cpu += 1.0
    assert not tidier.look() and left() is not None, "somebody works"
    old_knot()
    assert tidier.look() and left() is None
    n_frozen = gc.get_freeze_count()
    assert n_frozen > 1000, "what is left over is looked at again and again"


def test_an_idle_process_does_nothing() -> None:
    tidier = Times().tidier()
    old_knot()
    assert tidier.look() and not tidier.look()


def test_without_a_quiet_moment_old_garbage_goes_all_the_same() -> None:
    n_full = [0]

    def hear(phase: str, info: dict[str, int]) -> None:
        n_full[0] += phase == "start" and info["generation"] == 2

    async def work() -> None:
        keep_loop_free()
        gc.set_threshold(20, 2, gc.get_threshold()[2])  # young ones grow old sooner; that is all
        gone = old_knot()
        kept = []
        while gone() is not None:
            kept.append([[]])
            assert len(kept) < 40 * 3 * interpreter.MOST_OLD, "it is never collected"

    gc.collect()
    with mock.patch.object(interpreter, "MOST_OLD", 5):
        gc.callbacks.append(hear)
        try:
            asyncio.run(work())
        finally:
            gc.callbacks.remove(hear)
    assert n_full[0] >= 1


def test_it_is_looked_at_now_and_then_once_per_loop() -> None:
    async def timers() -> list[float]:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        keep_loop_free()
        keep_loop_free()
        return [timer.when() - begun for timer in loop._scheduled]  # type: ignore[attr-defined]

    (due,) = asyncio.run(timers())
    assert LOOK_S <= due < 2 * LOOK_S
    assert gc.get_threshold()[2] == interpreter.MOST_OLD
