"""The battery: what counts as running on it, how often it is asked, and where."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from lsp_server.warm.power import ASK_EVERY_S, Power, look_at_battery
from tests.support.virtual import InlineExecutor, run_virtual


@pytest.mark.parametrize(
    ("battery", "expected"),
    [
        (None, False),
        (SimpleNamespace(power_plugged=True), False),
        (SimpleNamespace(power_plugged=None), False),  # nobody can tell
        (SimpleNamespace(power_plugged=False), True),
    ],
)
def test_only_a_battery_that_is_known_not_to_be_charged_counts(
    battery: Any, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "sensors_battery", lambda: battery, raising=False)
    assert look_at_battery() is expected


@pytest.mark.parametrize("error", [OSError, RuntimeError, ValueError])
def test_a_battery_that_can_not_be_asked_is_none(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise error("odd files")

    monkeypatch.setattr(psutil, "sensors_battery", fail, raising=False)
    assert look_at_battery() is False
    monkeypatch.delattr(psutil, "sensors_battery")  # as on systems that psutil can't ask
    assert look_at_battery() is False


def test_it_is_asked_once_a_minute() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        looks: list[float] = []
        power = Power(loop.time, lambda: looks.append(loop.time()) is None and len(looks) == 2, InlineExecutor())
        answers = []
        for at in (0.0, 1.0, ASK_EVERY_S - 0.1, ASK_EVERY_S, ASK_EVERY_S + 1):
            await asyncio.sleep(at - loop.time())
            answers.append(await power.is_on_battery())
        assert answers == [False, False, False, True, True]
        assert looks == [0.0, ASK_EVERY_S]

    run_virtual(main)


def test_it_is_asked_off_the_loop_and_once_by_many() -> None:
    threads: list[int] = []
    may_answer = threading.Event()

    def look() -> bool:
        threads.append(threading.get_ident())
        may_answer.wait(20)
        return True

    async def main() -> None:
        power = Power(asyncio.get_running_loop().time, look)
        given_up = asyncio.ensure_future(power.is_on_battery())
        asks = [asyncio.ensure_future(power.is_on_battery()) for _ in range(3)]
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.sleep(0)
        assert not any(ask.done() for ask in asks)  # and the loop goes on
        may_answer.set()
        assert await asyncio.gather(*asks) == [True] * 3

    asyncio.run(main())
    assert len(threads) == 1 and threads[0] != threading.get_ident()
