"""`midfill engine status` and `midfill engine stop`: which engines of this user run, and their end.

Owns the output. What a dead engine has left is removed on the way.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import psutil

from inference import engine_record
from inference.clients.http_session import Session
from inference.engine_record import EngineRecord
from inference.launcher import ask_to
from inference.models.choice import gigabytes
from inference.models.lock import Held, hold
from inference.runtime_dir import Place, places, runtime_dir
from inference.types import EngineError
from inference.wire import WireError, read_json

_ANSWER_S = 3.0
_END_S = 4.0


@dataclass(frozen=True, slots=True)
class Seen:
    """stats: what it tells of itself; None: it does not answer."""

    place: Place
    record: EngineRecord
    stats: dict[str, Any] | None

    def as_dict(self) -> dict[str, Any]:
        stats = self.stats or {}
        return {**asdict(self.record), "address": self.record.address, "answers": self.stats is not None, **stats}

    def __str__(self) -> str:
        record, stats = self.record, self.stats
        if stats is None:
            return f"{record.model_name}  process {record.pid}  does not answer  {record.address}"
        news, n = stats["news"], stats["leases"]
        state = f"loading {news['share']:.0%}" if news["state"] == "loading" else news["state"]
        memory = gigabytes(stats["rss_bytes"])
        threads = _threads(stats.get("engine") or {})
        return f"{record.model_name}  process {record.pid}  {state}  {n} connected  {memory}{threads}  {record.address}"


def _threads(stats: Mapping[str, Any]) -> str:
    n, most = stats.get("n_threads", 1), stats.get("n_threads_most", 1)
    return "" if n == most else f"  {n} of {most} threads: other programs use the cores"


def show(*, in_json: bool) -> int:
    seen = asyncio.run(look())
    if in_json:
        sys.stdout.write(json.dumps({"engines": [one.as_dict() for one in seen]}) + "\n")
        return 0
    for one in seen:
        sys.stdout.write(f"{one}\n")
    if not seen:
        sys.stdout.write(f"no engine of yours runs (looked in {runtime_dir()})\n")
    return 0


def stop(which: str, *, all_of_them: bool) -> int:
    """which: a model's name or a process; "" = the only one. EngineError: there is none such, or it is not clear which."""
    seen = asyncio.run(look())
    named = [one for one in seen if which in ("", one.record.model_name, str(one.record.pid))]
    chosen = seen if all_of_them else named
    if not chosen and not all_of_them:
        raise EngineError(f"No engine {which}".rstrip() + " runs; `midfill engine status` shows those that do.")
    if len(chosen) > 1 and not all_of_them:
        raise EngineError(f"{len(chosen)} engines run; name one (`midfill engine stop PID`), or say --all.")
    asyncio.run(_stop(chosen))
    for one in chosen:
        sys.stdout.write(f"{one.record.model_name} (process {one.record.pid}) has ended\n")
    return 0


async def look() -> list[Seen]:
    """All engines of this user that run."""
    found = []
    for place in list(places()):
        record = engine_record.load(place)
        if record is not None and record.process() is not None:
            found.append(Seen(place, record, await _stats(record)))
            continue
        with contextlib.suppress(Held, OSError), hold(place.lock):
            engine_record.sweep(place)
            place.lock.unlink()
    return found


async def _stats(record: EngineRecord) -> dict[str, Any] | None:
    try:
        async with asyncio.timeout(_ANSWER_S), Session(record.endpoint()) as session:
            answer = read_json(await session.ask("GET", "/midfill/stats"))
    except (EngineError, WireError, TimeoutError):
        return None
    return answer if isinstance(answer, dict) else None


async def _stop(chosen: list[Seen]) -> None:
    for one in chosen:
        if one.stats is not None:
            await ask_to(one.record.endpoint(), "stop")
    for one in chosen:
        process = one.record.process()
        if process is None:
            continue
        if one.stats is None or not await asyncio.to_thread(_has_ended, one.record, _END_S):
            with contextlib.suppress(psutil.Error):
                process.kill()
            if not await asyncio.to_thread(_has_ended, one.record, _END_S):
                raise EngineError(f"Process {one.record.pid} can't be ended; its owner or a restart of the machine can.")
        engine_record.sweep(one.place)


def _has_ended(record: EngineRecord, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while record.process() is not None:
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
