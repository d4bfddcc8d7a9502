"""When a request is answered: the whole policy, without a clock."""

from __future__ import annotations

import pytest

from lsp_server.answers.reply import ReplyRules, Verdict, decide, rules_for

WARM = ReplyRules(invoked=False, single_line=True, deadline=1.0, cold_until=None)
COLD = ReplyRules(invoked=False, single_line=True, deadline=1.0, cold_until=2.5)


@pytest.mark.parametrize(
    ("text", "finished", "now", "rules", "want"),
    [
        ("", True, 0.0, WARM, Verdict("end")),
        ("a", False, 0.5, WARM, Verdict("", 1.0)),
        ("a\n", False, 0.5, WARM, Verdict("line")),
        ("", False, 1.0, WARM, Verdict("deadline")),  # nothing, but in time
        ("", False, 1.0, COLD, Verdict("", 2.5)),
        ("a", False, 1.2, COLD, Verdict("deadline")),  # the first text that can be offered
        ("  ", False, 1.2, COLD, Verdict("", 2.5)),
        ("", False, 2.5, COLD, Verdict("deadline")),
        ("a\n", False, 0.5, ReplyRules(False, False, 1.0, None), Verdict("", 1.0)),  # a block goes on
        ("a", False, 9.9, ReplyRules(True, True, None, None), Verdict()),  # invoked: the whole line
        ("a\nb", False, 9.9, ReplyRules(True, True, None, None), Verdict("line")),
        ("a\nb", False, 9.9, ReplyRules(True, False, None, None), Verdict()),  # or the whole block
        ("a", False, 9.9, ReplyRules(False, True, None, None), Verdict()),  # deadline off
        ("a\n", False, 9.9, ReplyRules(False, True, None, None), Verdict("line")),
    ],
)
def test_decide(text: str, finished: bool, now: float, rules: ReplyRules, want: Verdict) -> None:
    assert decide(text, finished, now, rules) == want


def test_rules() -> None:
    def rules(invoked: bool = False, deadline_ms: int = 400, n_new: int = 3, cold_budget_ms: int = 1500) -> ReplyRules:
        return rules_for(
            invoked=invoked, single_line=True, asked=10.0, deadline_ms=deadline_ms, n_new=n_new, ms_per_token=8.0,
            cold_budget_ms=cold_budget_ms,
        )  # fmt: skip

    assert rules() == ReplyRules(False, True, 10.4, None)
    assert rules(invoked=True) == ReplyRules(True, True, None, None)
    assert rules(deadline_ms=0) == ReplyRules(False, True, None, None)
    assert rules(n_new=187) == ReplyRules(False, True, 10.4, pytest.approx(11.9))
    assert rules(n_new=500, cold_budget_ms=0).cold_until == pytest.approx(10.4 + 8.0)
