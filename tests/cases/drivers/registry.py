"""The table of drivers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from tests.cases.case import Case

Driver = Callable[[Case], Coroutine[Any, Any, str]]

DRIVERS: dict[str, Driver] = {}


def driver(case_id: str) -> Callable[[Driver], Driver]:
    """Registers the coroutine function below as the driver of a case."""

    def register(run: Driver) -> Driver:
        assert case_id not in DRIVERS
        DRIVERS[case_id] = run
        return run

    return register
