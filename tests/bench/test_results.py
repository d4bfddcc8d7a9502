"""What is said of what was counted."""

from __future__ import annotations

import math

from bench.results import KeyResult, Session, llama_server_report, median, midfill_report, quantile, share, table


def result(prompt: int = 0, *, healing: int = 0, first: float | None = 1.0, reply: float = 2.0, steps: int = 3) -> KeyResult:
    return KeyResult(prompt, healing, 5, 7, first, reply, True, True, steps, 100)


def test_quantiles_are_values_that_occurred() -> None:
    assert quantile(range(1, 101), 0.95) == 95
    assert median([3, 1, 2]) == 2
    assert median([1, 2, 3, 4]) == 2
    assert median([]) is None


def test_a_first_byte_that_never_came_in_time_is_late_and_not_left_out() -> None:
    assert median([1.0, math.inf, math.inf]) is None
    assert median([1.0, 2.0, math.inf]) == 2.0
    session = Session((result(first=None), result(first=4.0)), 0)
    assert midfill_report(session, [])["first_byte_ms_median"] == 4.0


def test_the_reports_have_the_agreed_names() -> None:
    session = Session((result(1, healing=1), result(9, healing=1), result(2, healing=1)), 40)
    assert midfill_report(session, [result(steps=6)]) == {
        "prompt_healing_median": 3,
        "prompt_healing_p95": 10,
        "session_prompt_tokens": 40,
        "first_byte_ms_median": 1.0,
        "reply_ms_median": 2.0,
        "steps_to_reply_median": 6,
    }
    assert llama_server_report(session) == {
        "prompt_median": 2,
        "prompt_p95": 9,
        "session_prompt_tokens": 40,
        "first_byte_ms_median": 1.0,
        "reply_ms_median": 2.0,
    }


def test_the_table_shows_what_is_there() -> None:
    assert "-" in table({})
    beside = {"n_batch": 1024, "prompt_median": 240, "session_prompt_tokens": 12345}
    shown = table({"midfill": {"prompt_healing_median": 3}, "paced": {"midfill_shown": 0.25}, "llama_server_beside": beside})
    assert "0.25" in shown
    assert "12,345" in shown


def test_share() -> None:
    assert share([True, False, False, True]) == 0.5
    assert share([]) is None
