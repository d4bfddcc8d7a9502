"""Engines that start in the same instant on one directory of saved prompts.

`python -m tests.cases.saving_servers DIR N PROMPTS`: each of N is a process of its own (one program that forks), on the fake.
It asks PROMPTS times, twice over, and saves what it asked. Prints one JSON object: `errors`, what went wrong; `slowest_ms`, the
longest that a request took; `n_saves`.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

from inference.prompt_cache.index import Entry
from inference.prompt_cache.record import decode
from inference.prompt_cache.store import Store
from inference.types import FinishReason
from tests.cases.case import HANG_S
from tests.support.saved_prompts import OF, tokens, wait_until
from tests.support.saving_engine import SavingEngine


def serve(place: Path, number: int, n_prompts: int) -> dict[str, Any]:
    engine = SavingEngine(place, is_open=False)
    errors, slowest = [], 0.0
    for i in [*range(n_prompts)] * 2:
        began = time.monotonic()
        said = engine.say(tokens(n_prompts * number + i, 260), n_max=1)
        slowest = max(slowest, time.monotonic() - began)
        errors += [said.error or said.finish] if said.finish not in (FinishReason.LENGTH, FinishReason.STOP) else []
        engine.now += 6.0
        engine.drain()
    wait_until(lambda: not engine.archive._pending, HANG_S)
    stats = engine.stats
    engine.end()
    return {"errors": errors + [stats.why_not_saving] * bool(stats.why_not_saving), "slowest_ms": slowest * 1000,
            "n_saves": stats.n_saves}  # fmt: skip


def torn(place: Path) -> list[str]:
    """Entries that are not what was written."""
    store = Store(place, 1 << 30)
    store.open()
    found = []
    for each in store.listed(OF):
        entry: Entry = each.entry
        data = store.get(OF, entry.path)
        try:
            assert data is not None and len(decode(data, OF).tokens) == entry.n_tokens
        except Exception as error:
            found.append(f"{type(error).__name__} {error}")
    return found


def main(place: Path, n: int, n_prompts: int) -> dict[str, Any]:
    logging.disable(logging.ERROR)
    ends = []
    for number in range(n):
        read, write = os.pipe()
        if os.fork() == 0:
            os.close(read)
            try:
                told = serve(place, number, n_prompts)
            except BaseException as error:
                told = {"errors": [f"{type(error).__name__}: {error}"], "slowest_ms": 0.0, "n_saves": 0}
            os.write(write, json.dumps(told).encode())
            os._exit(0)
        os.close(write)
        ends.append(read)
    told = []
    for end in ends:
        with open(end, "rb") as pipe:
            told.append(json.loads(pipe.read() or b'{"errors": ["it died"], "slowest_ms": 0, "n_saves": 0}'))
    return {
        "errors": [error for each in told for error in each["errors"]] + torn(place),
        "slowest_ms": max(each["slowest_ms"] for each in told),
        "n_saves": [each["n_saves"] for each in told],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))) + "\n")
