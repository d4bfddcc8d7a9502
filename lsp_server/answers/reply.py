"""When a request is answered. Pure: text so far and a clock in, a verdict out.

One reply is all that LSP allows, so what counts is the time to visible text. A single-line place is answered at its
first complete line, any other at the end of the generation, and an invoked request waits for that. An automatic one with
a warm prompt is answered at its deadline at the latest; if the prompt was cold and nothing can be offered by then, the
first text that can be is, within the cold budget.
"""

from __future__ import annotations

from dataclasses import dataclass

TIMER_SLACK_S = 1e-4  # a timer may wake us this much early: better to answer than to go round in circles


@dataclass(frozen=True, slots=True)
class ReplyRules:
    """deadline: loop time at which an automatic request is answered with what there is; None = no deadline.
    cold_until: loop time until which a cold prompt may delay the first text; None = the prompt is warm."""

    invoked: bool
    single_line: bool
    deadline: float | None
    cold_until: float | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """answer: why to reply now ("end" of the generation, "line", "deadline"), or "" to wait. wake_at: then, when to ask
    again if nothing was generated until that time; None = only when something was."""

    answer: str = ""
    wake_at: float | None = None


def decide(text: str, finished: bool, now: float, rules: ReplyRules) -> Verdict:
    if finished:
        return Verdict("end")
    if rules.single_line and "\n" in text:
        return Verdict("line")
    if rules.invoked or rules.deadline is None:
        return Verdict()
    now += TIMER_SLACK_S
    if now < rules.deadline:
        return Verdict(wake_at=rules.deadline)
    if text.strip() or rules.cold_until is None or now >= rules.cold_until:
        return Verdict("deadline")
    return Verdict(wake_at=rules.cold_until)


def rules_for(
    *, invoked: bool, single_line: bool, asked: float, deadline_ms: int, n_new: int, ms_per_token: float, cold_budget_ms: int
) -> ReplyRules:
    """asked: when the request arrived. n_new: prompt tokens that must be evaluated; the prompt is cold if that alone takes
    more than half of the time until the deadline."""
    if invoked or deadline_ms <= 0:
        return ReplyRules(invoked, single_line, None, None)
    deadline = asked + deadline_ms / 1000
    is_cold = n_new * ms_per_token > deadline_ms / 2
    # without a cold budget the prompt's own cost is the only measure there is
    extra_ms = cold_budget_ms or 2 * n_new * ms_per_token
    return ReplyRules(invoked, single_line, deadline, deadline + extra_ms / 1000 if is_cold else None)
