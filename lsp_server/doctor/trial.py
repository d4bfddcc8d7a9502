"""Findings of the timed test completion.

Owns what its times mean. Refuses to run it: `lsp_server.doctor.native` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from inference.config import EngineConfig
from inference.hardware import Look
from lsp_server.config import Config
from lsp_server.doctor.commands import before_building, get_engine
from lsp_server.doctor.findings import Finding, fault, note, ok, warning
from lsp_server.doctor.native import Answer

_BUSY, _BUSY_MS = 3, 1000  # so many times the expected time, and at least so long, is not the model's doing


def completion(answer: Answer, config: Config, look: Look) -> Iterator[Finding]:
    """Did it work, and does the warm prompt keep the deadline?"""
    if answer.result is None:
        yield fault("completion", f"the test completion failed: {answer.error}", _cure(answer, config.engine, look))
        return
    result, cold = answer.result, answer.result["cold"]
    yield ok(
        "completion",
        f"{result['model']} loaded in {result['load_ms'] / 1000:.1f} s; {cold['n_prompt_tokens']} prompt tokens, cold: first "
        f"text after {_ms(cold['text_ms'])}, {cold['n_generated_tokens']} tokens in {cold['total_ms']:.0f} ms "
        f"({cold['reason'] or 'something is offered'})",
    )
    expected = cold["n_evaluated_tokens"] * result["prefill_ms_per_token"] + cold["n_generated_tokens"] * result["step_ms"]
    is_busy = cold["total_ms"] > max(_BUSY * expected, _BUSY_MS)
    yield _warm(result, config.server.reply_deadline_ms, is_busy=is_busy)
    if is_busy:
        text = f"the cold prompt took {cold['total_ms']:.0f} ms instead of the {expected:.0f} ms that were measured for it"
        do = "try again when other programs rest; if it stays, set n_threads to fewer threads"
        yield note("load", f"{text}: the machine is busy, and these times tell little", do)


def _warm(result: Mapping[str, Any], deadline_ms: int, *, is_busy: bool) -> Finding:
    keys = result["warm"]
    times = [float("inf") if time is None else time for time in map(time_to_show, keys)]
    middle, slowest = median(times), max(times)
    n_tokens = median(key["n_evaluated_tokens"] for key in keys)
    text = (
        f"{len(keys)} keys, warm: {n_tokens:g} prompt and healing tokens each (median), first text after {_ms(middle)} "
        f"(median), {_ms(slowest)} (slowest); a step takes {result['step_ms']:.0f} ms"
    )
    if not deadline_ms:
        return ok("deadline", f"{text}; there is no deadline")
    if middle > deadline_ms and is_busy:
        return note("deadline", f"{text}; reply_deadline_ms = {deadline_ms} was missed, with a busy machine")
    if middle > deadline_ms:
        do = f"take a smaller model (`midfill models list`), use a GPU, or raise reply_deadline_ms above {deadline_ms}"
        return warning("deadline", f"{text}; reply_deadline_ms = {deadline_ms} is missed", do)
    n_late = sum(time > deadline_ms for time in times)
    if n_late:
        return note("deadline", f"{text}; {n_late} missed reply_deadline_ms = {deadline_ms}, the others kept it")
    return ok("deadline", f"{text}; all kept reply_deadline_ms = {deadline_ms}")


def time_to_show(key: Mapping[str, Any]) -> float | None:
    """ms until there was something to show, or the model had ended without; None if the reply came before either."""
    if key["text_ms"] is not None:
        return float(key["text_ms"])
    return float(key["total_ms"]) if key["finish"] == "stop" else None


def _ms(value: float | None) -> str:
    return "nothing at all" if value is None or value == float("inf") else f"{value:.0f} ms"


def _cure(answer: Answer, config: EngineConfig, look: Look) -> str:
    if answer.signal == "SIGKILL":
        return "take a smaller model (`midfill models list`) or lower n_ctx"
    if answer.signal or answer.is_broken:
        again = get_engine(look, config.engine_wheels)
        return f"build the engine for this machine: {before_building(look, config.engine_wheels)}{again}"
    if "took longer" in answer.error:
        return "take a smaller model, or give it more time with --timeout"
    return "do what it says, or start again with MIDFILL_LOG=debug"
