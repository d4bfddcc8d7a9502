"""What was counted, and what is said of it. Pure: no clock, no model.

A first byte that had not come when the next key ended the generation is later than any that came; a key after which the model
had nothing to say has no first byte and is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class KeyResult:
    """One key that asked. Token positions since the key before it; times in ms from the request.

    first_byte_ms: None = nothing was generated, inf = the generation was ended before. n_steps: model steps to the reply.
    n_context: tokens of the prompt it was asked with, cached ones included.
    """

    prompt: int
    healing: int
    generated: int
    background: int
    first_byte_ms: float | None
    reply_ms: float
    shown: bool
    is_single_line: bool
    n_steps: int
    n_context: int


@dataclass(frozen=True, slots=True)
class Session:
    """session_prompt_tokens: everything put through the model for the document but generated tokens, until all was quiet."""

    keys: tuple[KeyResult, ...]
    session_prompt_tokens: int


def quantile(values: Iterable[float], share: float) -> float | None:
    """The smallest value with at least that share of the values at or below it; None of nothing, or if it is infinite."""
    ordered = sorted(values)
    if not ordered:
        return None
    value = ordered[max(0, math.ceil(share * len(ordered)) - 1)]
    return None if math.isinf(value) else value


def median(values: Iterable[float]) -> float | None:
    return quantile(values, 0.5)


def times(session: Session) -> dict[str, float | None]:
    first = median(k.first_byte_ms for k in session.keys if k.first_byte_ms is not None)
    reply = median(k.reply_ms for k in session.keys)
    return {"first_byte_ms_median": _rounded(first), "reply_ms_median": _rounded(reply)}


def midfill_report(session: Session, undelayed: Sequence[KeyResult]) -> dict[str, Any]:
    """undelayed: the keys at single-line places of the pass without a deadline."""
    costs = [k.prompt + k.healing for k in session.keys]
    return {
        "prompt_healing_median": quantile(costs, 0.5),
        "prompt_healing_p95": quantile(costs, 0.95),
        "session_prompt_tokens": session.session_prompt_tokens,
        **times(session),
        "steps_to_reply_median": median(k.n_steps for k in undelayed),
    }


def llama_server_report(session: Session) -> dict[str, Any]:
    costs = [k.prompt for k in session.keys]
    return {
        "prompt_median": quantile(costs, 0.5),
        "prompt_p95": quantile(costs, 0.95),
        "session_prompt_tokens": session.session_prompt_tokens,
        **times(session),
    }


def share(shown: Sequence[bool]) -> float | None:
    return round(sum(shown) / len(shown), 3) if shown else None


def split_of(session: Session) -> dict[str, int]:
    """Sums over the keys, by role."""
    keys = session.keys
    return {
        "prompt": sum(k.prompt for k in keys),
        "healing": sum(k.healing for k in keys),
        "generated": sum(k.generated for k in keys),
        "background": sum(k.background for k in keys),
    }


def context_of(session: Session) -> float | None:
    """Median length in tokens of the prompts that were asked with: equal costs mean little with unequal prompts."""
    return median(k.n_context for k in session.keys)


WARM_TOKENS = 24  # a key that evaluates no more of its prompt than this found it in the cache


def latest_of(session: Session) -> dict[str, float | None]:
    """The latest reply in ms: of keys with a warm prompt, and of all."""
    warm = max((k.reply_ms for k in session.keys if k.prompt <= WARM_TOKENS), default=None)
    return {"warm": _rounded(warm), "all": _rounded(max((k.reply_ms for k in session.keys), default=None))}


def table(report: dict[str, Any]) -> str:
    """The report for people: one line per number, a column per system."""
    ours, theirs, paced = report.get("midfill", {}), report.get("llama_server", {}), report.get("paced", {})
    beside, run = report.get("llama_server_beside", {}), report.get("run", {})
    rows = [
        ("prompt (+ healing) tokens per key, median", ours.get("prompt_healing_median"), theirs.get("prompt_median")),
        ("                                     p95", ours.get("prompt_healing_p95"), theirs.get("prompt_p95")),
        ("prompt tokens of the session", ours.get("session_prompt_tokens"), theirs.get("session_prompt_tokens")),
        ("first byte, ms, median", ours.get("first_byte_ms_median"), theirs.get("first_byte_ms_median")),
        ("prompt length, tokens, median", run.get("midfill_context_median"), run.get("llama_server_context_median")),
        ("reply, ms, median", ours.get("reply_ms_median"), theirs.get("reply_ms_median")),
        ("steps to reply, single line, median", ours.get("steps_to_reply_median"), None),
        ("shown before the next key, paced", paced.get("midfill_shown"), paced.get("llama_server_shown")),
    ]
    lines = [f"{'':<44}{'midfill':>14}{'llama-server':>14}"]
    lines += [f"{name:<44}{_cell(a):>14}{_cell(b):>14}" for name, a, b in rows]
    if beside:
        lines.append(
            f"llama-server with batches of {beside['n_batch']}: {_cell(beside['prompt_median'])} prompt tokens per key, "
            f"{_cell(beside['session_prompt_tokens'])} in the session"
        )
    return "\n".join(lines)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:,.10g}"
