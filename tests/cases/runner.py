"""Runs cases: each gets one outcome.

Owns who runs a case: its driver, or the generic run where nothing in it is told in words. Refuses to pass what nobody checks.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Coroutine, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.cases import checks, generic, options
from tests.cases.case import BUNDLED, HANG_S, Case, Outcome, load, prose
from tests.cases.drivers import DRIVERS


@dataclass(frozen=True, slots=True)
class Result:
    id: str
    kind: str
    outcome: Outcome
    detail: str
    ms: int

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def run_all(cases: Iterable[Case]) -> Iterator[Result]:
    bundled = {case.id: case for case in load(BUNDLED)}
    for case in cases:
        started = time.monotonic()
        outcome, detail = _run(case, bundled.get(case.id))
        yield Result(case.id, case.kind, outcome, detail, int((time.monotonic() - started) * 1000))


def _run(case: Case, bundled: Case | None) -> tuple[Outcome, str]:
    if not options.is_taken(case.id, case.kind):
        return Outcome.NO_DRIVER, "its kind is not taken on yet"
    driver = DRIVERS.get(case.id)
    why = generic.unfit(case)
    if driver is not None:
        if bundled is None or _words(case) != _words(bundled):
            return Outcome.NO_DRIVER, "the driver of this id was written for other words"
        return _attempt(driver(case))
    if why:
        return Outcome.NO_DRIVER, f"{why}, and it has no driver"
    outcome, detail = _attempt(generic.run(case))
    if outcome is Outcome.PASSED and "note" in case.expected:
        return Outcome.NO_DRIVER, f"{detail} hold, but nobody checks its note"
    return outcome, detail


def _words(case: Case) -> object:
    return prose(case, frozenset(key for key in case.expected if checks.find(key)))


def _attempt(driver: Coroutine[Any, Any, str]) -> tuple[Outcome, str]:
    try:
        detail = asyncio.run(asyncio.wait_for(driver, HANG_S))
    except AssertionError as failure:
        where = traceback.extract_tb(failure.__traceback__)[-1]
        return Outcome.FAILED, str(failure) or f"{Path(where.filename).name}:{where.lineno}: {where.line}"
    except TimeoutError:
        return Outcome.FAILED, "it hung"
    except Exception as error:
        return Outcome.FAILED, f"{type(error).__name__}: {error}"
    return Outcome.PASSED, detail
