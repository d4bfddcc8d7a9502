"""What is said of several sessions on one engine: medians, ratios, and the bars that they are held against. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.results import median, quantile

MOST_LATER_MS = 50.0  # of a key with background work
TWICE = 0.15


@dataclass(frozen=True, slots=True)
class Bar:
    """name: what is measured. value: None = it was not. most: the value may not be larger; otherwise not smaller."""

    name: str
    value: float | None
    limit: float
    most: bool
    unit: str = "x"

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "not measured"
        return "pass" if (self.value <= self.limit if self.most else self.value >= self.limit) else "miss"


@dataclass(slots=True)
class Samples:
    """All that was measured. tps: tokens per second, a figure a round. first_ms: first bytes, a figure a key. step_ms:
    keystroke steps by what the engine knew. counts: beside them."""

    tps: dict[str, list[float]] = field(default_factory=dict)
    first_ms: dict[str, list[float]] = field(default_factory=dict)
    step_ms: dict[str, list[float]] = field(default_factory=dict)
    counts: dict[str, Any] = field(default_factory=dict)


TPS = ("sequential", "batched", "llama_server")
TYPING = ("alone", "under_load", "two_windows")


def report(samples: Samples, about: Mapping[str, Any]) -> dict[str, Any]:
    """None for what was not measured. Milliseconds, tokens per second, shares."""
    made: dict[str, Any] = {f"{name}_tps": _rounded(median(samples.tps.get(name, ())), 2) for name in TPS}
    made |= {f"typing_first_byte_{name}_ms": _rounded(median(samples.first_ms.get(name, ())), 1) for name in TYPING}
    made["typing_first_byte_two_windows_without_load_ms"] = _rounded(median(samples.first_ms.get("two_without_load", ())), 1)
    made |= {f"typing_first_byte_{name}_p95_ms": _rounded(quantile(samples.first_ms.get(name, ()), 0.95), 1) for name in TYPING}
    made |= {f"keystroke_step_{name}_known_ms": _rounded(median(samples.step_ms.get(name, ())), 2) for name in ("one", "many")}
    return {**made, **about, **samples.counts}


def bars(made: Mapping[str, Any]) -> tuple[Bar, ...]:
    """Of a report."""
    alone, load = made["typing_first_byte_alone_ms"], made["typing_first_byte_under_load_ms"]
    two = made["typing_first_byte_two_windows_ms"]
    step_one, step_many = made["keystroke_step_one_known_ms"], made["keystroke_step_many_known_ms"]
    batched = made["batched_tps"]
    later = None if load is None or alone is None else round(load - alone, 1)
    return (
        Bar("first byte under load / alone", _ratio(load, alone), 1.5, True),
        Bar("first byte under load - alone", later, MOST_LATER_MS, True, "ms"),
        Bar("first byte with a second window and load / alone", _ratio(two, alone), 2.0, True),
        Bar("background prefill evaluated twice", made.get("evaluated_twice_share"), TWICE, True, ""),
        Bar("keystroke step, many known / one known", _ratio(step_many, step_one), 1.15, True),
        Bar("batched / one by one", _ratio(batched, made["sequential_tps"]), 1.6, False),
        Bar("batched / llama-server", _ratio(batched, made["llama_server_tps"]), 0.95, False),
    )


def table(made: Mapping[str, Any]) -> str:
    """The report for people: the figures, then the bars."""
    lines = [f"{name:<52}{_cell(value):>14}" for name, value in made.items()]
    lines.append("")
    for bar in bars(made):
        wanted = f"{'<=' if bar.most else '>='} {bar.limit:g}"
        lines.append(f"{bar.name:<52}{_cell(bar.value):>10} {bar.unit:<3}{wanted:>8}  {bar.verdict}")
    return "\n".join(lines)


def ratios(made: Mapping[str, Any]) -> dict[str, float | None]:
    return {bar.name: bar.value for bar in bars(made)}


def tokens_per_second(counts: Sequence[int], seconds: float) -> float:
    return sum(counts) / seconds


def _ratio(value: float | None, by: float | None) -> float | None:
    return round(value / by, 3) if value is not None and by else None


def _rounded(value: float | None, n: int) -> float | None:
    return None if value is None else round(value, n)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,.6g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
