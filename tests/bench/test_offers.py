"""The replay of a recorded stream: what is fed, what it costs, and which rules count."""

from __future__ import annotations

from typing import Any

from bench.faults import Offer
from bench.offers import Replay, _pieces, baseline
from tests.bench.test_faults import place


def record(pieces: list[str], *, finish: str = "length", n_healing: int = 0, logprob: float = -0.5) -> dict[str, Any]:
    """One token a piece, behind those of healing, which were less likely."""
    return {
        "pieces": pieces,
        "ends": list(range(1, len(pieces) + 1)),
        "logprobs": n_healing * [-9.0] + len(pieces) * [logprob],
        "finish": finish,
        "n_generated": len(pieces),
    }


MID = place("def total(items):\n    result = su", "m(items)", "\n    return result\n", language="python")
LINES = ["m", "(items", ")", "\n", "    return", " result", "\n"]


def test_what_a_rule_ends_is_not_generated() -> None:
    made = Replay(MID, record(LINES)).by_rules()
    assert made.offer == Offer("m(items)") and made.is_offered
    assert made.n_tokens == 4 and "line" in made.rules, "the line's end has to be seen"


def test_without_the_rule_all_is_generated() -> None:
    off = frozenset({"line", "below", "scope", "unit"})
    made = Replay(MID, record(LINES, finish="stop")).by_rules(off)
    assert made.n_tokens == len(LINES)
    assert "return result" in made.offer.text


def test_the_baseline_is_all_that_was_said() -> None:
    made = baseline(record(LINES))
    assert (made.offer, made.n_tokens) == (Offer("".join(LINES)), 7)
    assert not baseline(record([" ", "\n"])).is_offered


def test_confidence_is_of_the_tokens_behind_the_cursor() -> None:
    said = record(LINES, n_healing=3)
    assert [logprob for _, _, logprob in _pieces(said)] == 7 * [-0.5]
    made = Replay(MID, said).by_rules()
    assert made.confidence == -0.5
    silent = Replay(MID, said).by_rules(least=-0.4)
    assert not silent.is_offered and silent.reason


def test_closers_behind_the_cursor_are_replaced() -> None:
    call = place("x = foo(", "a, b)", "\n", closers=")", kind="closer", language="python")
    made = Replay(call, record(["a", ", b", ")", "\n"])).by_rules()
    assert made.offer.line(call) == "a, b)"


def test_several_tokens_that_came_as_one_piece() -> None:
    said = record(["a", "é", "b"])
    said.update(ends=[1, 3, 4], logprobs=[-1.0, -1.0, -2.0, -3.0, -4.0], n_generated=4)  # the first one healed
    assert [(end, logprob) for _, end, logprob in _pieces(said)] == [(1, -1.0), (3, -2.5), (4, -4.0)]
