"""What was observed, in Prometheus' text format 0.0.4.

Owns counts and histograms of requests; what the engine counts itself is asked for when the page is made. Written by hand: the
format is a few lines, and no library of collectors in threads and processes is needed for it.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import psutil

from inference.memory_report import MemoryReport
from inference.serve.host import EngineHost
from inference.serve.running import Feed, Running
from inference.types import EngineStats, Priority
from inference.wire import EngineState

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0, 60.0)
_TOKENS_PER_SECOND = (1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 60.0, 80.0, 120.0, 200.0, 400.0)
_BY_PRIORITY = {"waiting": "Requests without a sequence.", "running": "Requests with a sequence."}


DRAFTS = {
    "n_drafted": "Tokens drafted and checked, by source.",
    "n_accepted": "Drafted tokens that stood, by source.",
    "n_steps": "Steps that had a draft, by source.",
    "saved_ms": "Time saved by drafts according to the cost table, by source; negative: lost.",
    "is_off": "1 for a source that would not pay at present, and is tried now and then.",
}


class Histogram:
    """Counts of values up to each bound."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str) -> Iterable[str]:
        total = 0
        for bound, count in zip((*map(_number, self._bounds), "+Inf"), self._counts, strict=True):
            total += count
            yield f'{name}_bucket{{le="{bound}"}} {total}'
        yield f"{name}_sum {_number(self._sum)}"
        yield f"{name}_count {total}"


class Metrics:
    def __init__(self) -> None:
        self._finished: Counter[tuple[str, str]] = Counter()
        self._refused: Counter[int] = Counter()
        self._first_byte = Histogram(_SECONDS)
        self._whole = Histogram(_SECONDS)
        self._speed = Histogram(_TOKENS_PER_SECOND)
        self._seen: set[int] = set()  # requests that have had their first byte
        self._process = psutil.Process()

    def heard(self, feed: Feed) -> None:
        """Of every event of every request."""
        if feed.has_text and feed.request_id not in self._seen:
            self._seen.add(feed.request_id)
            self._first_byte.add(_now() - feed.began)
        if feed.finish is None:
            return
        self._seen.discard(feed.request_id)
        self._finished[feed.priority.name.lower(), feed.finish.value] += 1
        self._whole.add(_now() - feed.began)
        n, ms = feed.stats.n_generated, feed.stats.decode_ms
        if n and ms > 0:
            self._speed.add(n / ms * 1000)

    def refused(self, status: int) -> None:
        self._refused[status] += 1

    def page(self, host: EngineHost, running: Running, n_leases: int, n_connections: int) -> str:
        page = _Page()
        counters = host.counters()
        roles = {"prompt": counters.prompt, "healing": counters.healing, "generated": counters.generated}
        roles |= {"background": counters.background, "drafted": counters.drafted}
        page.add("midfill_tokens_total", "counter", "Token positions put through the model.", _labelled("role", roles))
        page.add("midfill_steps_total", "counter", "Steps of the model.", {"": counters.n_steps})
        page.add("midfill_requests_total", "counter", "Requests that have ended.", {
            f'priority="{priority}",finish="{finish}"': n for (priority, finish), n in sorted(self._finished.items())
        })  # fmt: skip
        page.add("midfill_refused_total", "counter", "Requests refused before the engine, by status.", {
            f'status="{status}"': n for status, n in sorted(self._refused.items())
        })  # fmt: skip
        by_priority = running.by_priority()
        page.add("midfill_requests", "gauge", "Requests that have not ended.", {
            f'priority="{priority.name.lower()}"': by_priority[priority] for priority in Priority
        })  # fmt: skip
        page.add("midfill_leases", "gauge", "Language servers that are connected.", {"": n_leases})
        page.add("midfill_connections", "gauge", "Open connections.", {"": n_connections})
        state = host.news().state
        page.add("midfill_state", "gauge", "1 for the state of the engine.", {
            f'state="{each}"': int(each is (EngineState.DRAINING if running.is_draining else state)) for each in EngineState
        })  # fmt: skip
        page.histogram("midfill_first_byte_seconds", "From a request to its first text.", self._first_byte)
        page.histogram("midfill_request_seconds", "From a request to its end.", self._whole)
        page.histogram("midfill_tokens_per_second", "Of a request, while it was decoded.", self._speed)
        if (stats := host.stats()) is not None:
            _add_stats(page, stats)
        if (memory := host.memory()) is not None:
            _add_memory(page, memory)
        page.add("process_resident_memory_bytes", "gauge", "Resident memory.", {"": self._process.memory_info().rss})
        page.add("process_cpu_seconds_total", "counter", "CPU time.", {"": sum(self._process.cpu_times()[:2])})
        page.add("process_start_time_seconds", "gauge", "Start, since 1970.", {"": self._process.create_time()})
        return page.text()


class _Page:
    def __init__(self) -> None:
        self._lines: list[str] = []

    def _head(self, name: str, kind: str, doc: str) -> None:
        self._lines += [f"# HELP {name} {doc}", f"# TYPE {name} {kind}"]

    def add(self, name: str, kind: str, doc: str, values: Mapping[str, float]) -> None:
        """values by labels; "" = none."""
        self._head(name, kind, doc)
        for labels, value in values.items():
            self._lines.append(f"{name}{{{labels}}} {_number(value)}" if labels else f"{name} {_number(value)}")

    def histogram(self, name: str, doc: str, histogram: Histogram) -> None:
        self._head(name, "histogram", doc)
        self._lines += histogram.lines(name)

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"


def _add_stats(page: _Page, stats: EngineStats) -> None:
    """Every number of it under its own name; by priority and by kind where it is a tuple."""
    for field in fields(stats):
        value: Any = getattr(stats, field.name)
        name = f"midfill_engine_{field.name.removeprefix('n_')}"
        if isinstance(value, int | float):
            page.add(name, "gauge", f"The engine's {field.name}.", {"": value})
        elif field.name in _BY_PRIORITY:
            by_name = {priority.name.lower(): n for priority, n in zip(Priority, value, strict=True)}
            page.add(name, "gauge", _BY_PRIORITY[field.name], _labelled("priority", by_name))
        elif field.name == "drafts":
            _add_drafts(page, stats)
        elif isinstance(value, tuple):
            page.add(name, "gauge", f"The engine's {field.name}.", _labelled("kind", dict(value)))


def _add_drafts(page: _Page, stats: EngineStats) -> None:
    for name, doc in DRAFTS.items():
        values = {f'source="{each.source}"': float(getattr(each, name)) for each in stats.drafts}
        page.add(f"midfill_draft_{name.removeprefix('n_')}", "gauge", doc, values)


def _add_memory(page: _Page, memory: MemoryReport) -> None:
    """Parts that llama.cpp doesn't report (`reported="0"`) are upper estimates of what is needed besides."""
    planned = {
        f'part="{part.name}",place="{place}",reported="{int(part.is_reported)}"': n_bytes
        for part in memory.plan.need.parts
        for place, n_bytes in (("host", part.host), ("device", part.device))
        if n_bytes
    }
    page.add("midfill_memory_planned_bytes", "gauge", "What was planned before the model was loaded.", planned)
    actual = {f'place="{place}",kind="{kind}"': n_bytes for place, kind, n_bytes in memory.actual}
    page.add("midfill_memory_actual_bytes", "gauge", "What llama.cpp reported when it was loaded.", actual)
    lowered = {f'setting="{each.name}"': 1 for each in memory.plan.lowered}
    page.add("midfill_memory_lowered", "gauge", "1 for each setting that is lower than asked for.", lowered)


def _labelled(label: str, values: Mapping[str, float]) -> dict[str, float]:
    return {f'{label}="{name}"': value for name, value in values.items()}


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.10g}"


def _now() -> float:
    """The event loop's clock, which `Feed.began` was taken from."""
    return time.monotonic()
