"""The runner itself: what it may pass, what it must fail, and what it must admit that nobody checks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cases import editor, generic, options
from tests.cases.__main__ import main
from tests.cases.case import BUNDLED, Case, Outcome, load
from tests.cases.drivers import DRIVERS
from tests.cases.runner import Result, run_all
from tests.cases.server_process import frames
from tests.support.client import frame, position, span

CASES = {case.id: case for case in load(BUNDLED)}


def outcome(case: Case) -> Result:
    (result,) = run_all([case])
    return result


def with_expected(case_id: str, **expected: Any) -> Case:
    case = CASES[case_id]
    return replace(case, expected={**case.expected, **expected})


def test_the_bundled_cases() -> None:
    assert len(CASES) == 88 and len({case.kind for case in CASES.values()}) == 36
    assert set(options.KINDS) <= {case.kind for case in CASES.values()}
    assert set(DRIVERS) <= set(CASES)
    assert set(options.IDS) <= set(DRIVERS)
    assert not {CASES[case_id].kind for case_id in options.IDS} & options.KINDS


def test_every_case_of_a_kind_taken_on_has_somebody_who_checks_it() -> None:
    """Notes are prose: a case with one needs a driver, also where the rest could run without."""
    alone = {
        case.id
        for case in CASES.values()
        if options.is_taken(case.id, case.kind) and case.id not in DRIVERS and (generic.unfit(case) or "note" in case.expected)
    }
    assert not alone


# --- what passes, and what doesn't


@pytest.mark.parametrize(
    ("case_id", "expected"),
    [
        ("utf16-position-01", {"document_text": "🦊🦊x = 1\n"}),
        ("utf16-position-02", {"prompt_prefix_ends_with": "return_"}),
        ("utf16-position-02", {"prompt_suffix_starts_with": "value"}),
        ("document-edge-01", {"document_after_accept": "import math\nprint(math.)"}),
        ("document-edge-02", {"one_of": [{"items_empty": True}, {"document_after_accept": "x"}]}),
        ("eol-encoding-01", {"prompt_must_not_contain": ["area"]}),
        ("sync-range-04", {"document_text": "abcd\n"}),
        ("sync-order-01", {"prompt_prefix_ends_with": "def f(a):\n    return alpha"}),
        ("cancel-01", {"engine_calls_at_most": 0}),
        ("partial-utf8-02", {"document_after_accept": "msg = 'ok \ufffd'\n"}),
        ("partial-utf8-02", {"must_not_contain": ["ok"]}),
        ("stop-token-leak-01", {"document_after_accept": "x = 1<|fim_pad|>\n"}),
        ("context-budget-01", {"prompt_tokens_at_most": 100}),
        ("private-files-01", {"items_empty": False}),
        ("private-files-01", {"engine_calls": 1}),
        ("private-files-02", {"prompt_must_not_contain": ["import"]}),
        ("uri-identity-02", {"document_text": "x = 3\n"}),
    ],
)
def test_a_wrong_expectation_fails(case_id: str, expected: Mapping[str, Any]) -> None:
    result = outcome(with_expected(case_id, **expected))
    assert result.outcome is Outcome.FAILED and result.detail


def test_a_machine_readable_case_needs_no_driver() -> None:
    case = replace(CASES["sync-range-01"], id="sync-range-99")
    assert outcome(case).outcome is Outcome.PASSED
    assert outcome(replace(case, expected={"document_text": "y"})).outcome is Outcome.FAILED


def test_all_results_of_several_requests() -> None:
    case = replace(CASES["result-cache-02"], id="x-1", kind="document-edge")
    expected = {"results": ["1", "2", "1"], "result_2_contains": "b = 2", "generated_tokens_below": 9, "engine_calls": 2}
    result = outcome(replace(case, expected=expected))
    assert (result.outcome, result.detail) == (Outcome.PASSED, "4 expectations")
    assert outcome(replace(case, expected={**expected, "results": ["1", "2", "2"]})).outcome is Outcome.FAILED
    assert outcome(replace(case, expected={**expected, "engine_calls": 3})).outcome is Outcome.FAILED


@pytest.mark.parametrize("kind", ["tokens", "token_bytes"])
def test_each_token_of_a_model_is_one(kind: str) -> None:
    says = ["1", " +", " on", "e"] if kind == "tokens" else ["31", "202b", "206f6e", "65"]
    case = replace(
        CASES["document-edge-01"],
        id="x-2",
        input={**CASES["document-edge-01"].input, "model": {kind: says, "max_tokens": 3}},
        expected={"document_after_accept": "import math\nprint(math.1 + on"},
    )
    assert outcome(case).outcome is Outcome.PASSED
    longer = {"document_after_accept": "import math\nprint(math.1 + one"}
    assert outcome(replace(case, expected=longer)).outcome is Outcome.FAILED


# --- what nobody checks


@pytest.mark.parametrize(
    ("case", "why"),
    [
        (Case("new-01", "cancel", {"setup": "press all keys at once"}, {"note": "no smoke"}), "no driver"),
        (Case("new-02", "no-such-kind", CASES["sync-range-01"].input, {"document_text": "x = 1\n"}), "kind"),
        (Case("new-03", "sync-range", CASES["sync-range-01"].input, {"note": "alone"}), "in words"),
        (Case("new-04", "sync-range", CASES["sync-range-01"].input, {"response": "fine"}), "response"),
        (Case("new-05", "sync-range", {"messages": ["initialize"]}, {"document_text": ""}), "in words"),
        (Case("new-06", "sync-range", {}, {"document_text": ""}), "neither"),
        (
            Case("new-07", "sync-range", {**CASES["sync-range-01"].input, "config": {"speed": 9}}, {"document_text": ""}),
            "option speed",
        ),
        (replace(CASES["stop-token-leak-02"], id="new-08"), "by_family"),
        (replace(CASES["fim-prompt-05"], id="new-09"), "deepseek"),
        (replace(CASES["memory-and-capacity-01"], id="memory-and-capacity-99"), "kind"),
    ],
    ids=lambda value: value.id if isinstance(value, Case) else "",
)
def test_no_driver(case: Case, why: str) -> None:
    result = outcome(case)
    assert result.outcome is Outcome.NO_DRIVER and why in result.detail


def test_a_note_that_nobody_knows_is_not_passed_but_the_rest_can_fail() -> None:
    case = replace(CASES["sync-range-01"], id="sync-range-98", expected={"document_text": "x = 1\n", "note": "and quickly"})
    result = outcome(case)
    assert result.outcome is Outcome.NO_DRIVER and "note" in result.detail
    assert outcome(replace(case, expected={**case.expected, "document_text": ""})).outcome is Outcome.FAILED


@pytest.mark.parametrize(
    "case",
    [
        with_expected("sync-range-04", note="the reversed edit is turned round"),
        with_expected("cancel-02", responses={"21": "nothing"}),
        replace(CASES["sync-order-01"], input={**CASES["sync-order-01"].input, "load": "once"}),
        replace(CASES["process-exit-01"], input={"setup": "press Ctrl-C"}),
    ],
    ids=lambda case: case.id,
)
def test_a_driver_does_not_speak_for_other_words(case: Case) -> None:
    assert outcome(case).outcome is Outcome.NO_DRIVER


# --- the command


def write(path: Path, *cases: Case) -> Path:
    entries = [{"id": c.id, "kind": c.kind, "input": c.input, "expected": c.expected} for c in cases]
    path.write_text(json.dumps(entries), encoding="utf-8")
    return path


def test_one_outcome_a_case_and_1_if_any_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = CASES["sync-range-01"], with_expected("sync-range-02", document_text="")
    strange = replace(good, id="new-01", kind="no-such-kind")
    file, report = write(tmp_path / "cases.json", good, bad, strange), tmp_path / "out.jsonl"
    assert main(["--file", str(file), "--report", str(report)]) == 1
    lines = [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()]
    assert [(line["id"], line["outcome"]) for line in lines] == [
        ("sync-range-01", "passed"), ("sync-range-02", "failed"), ("new-01", "no_driver"),
    ]  # fmt: skip
    assert all(set(line) == {"id", "kind", "outcome", "detail", "ms"} for line in lines)
    assert capsys.readouterr().out.endswith("1 passed, 1 failed, 1 no_driver\n")
    assert main(["--file", str(file), "--id", "sync-range-01"]) == 0
    assert main(["--file", str(file), "--kind", "no-such-kind"]) == 0


@pytest.mark.parametrize("text", ["", "{}", "[1]", "[{}]"])
def test_a_file_that_is_none_is_a_sentence(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cases.json"
    file.write_text(text)
    for arguments in (["--file", str(file)], ["--file", str(file) + "x"], ["--id", "no-such-id"]):
        with pytest.raises(SystemExit) as exit_:
            main(arguments)
        assert exit_.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


def test_limits_are_five_times_their_value_and_never_under_a_second() -> None:
    case = with_expected("cancel-01", latency_15_ms_below=2000, process_gone_within_s=4, latency_ms_below=50)
    assert (case.limit_s("latency_15_ms_below"), case.limit_s("process_gone_within_s")) == (10, 20)
    with pytest.raises(ValueError, match="count"):
        case.limit_s("latency_ms_below")


# --- what the checks rest on


@pytest.mark.parametrize(
    ("text", "line", "character", "want"),
    [
        ("🦊🦊b", 0, 2, 1),
        ("🦊🦊b", 0, 5, 3),
        ("a\u2028b\x0c\r\nc", 1, 1, 7),
        ("a\rb\nc", 2, 0, 4),
        ("a", 9, 9, 1),
        ("ab\r\n", 0, 7, 2),
    ],
)
def test_the_editors_positions(text: str, line: int, character: int, want: int) -> None:
    assert editor.index(text, position(line, character)) == want


def test_the_editor_refuses_what_is_impossible() -> None:
    with pytest.raises(ValueError, match="pair"):
        editor.index("🦊", position(0, 1))
    with pytest.raises(AssertionError):
        editor.accepted("a\nb", {"insertText": "", "range": span(0, 0, 1, 1)}, position(0, 1))
    with pytest.raises(AssertionError):
        editor.accepted("abc", {"insertText": "", "range": span(0, 2, 0, 3)}, position(0, 1))
    assert editor.changed("abc", [{"range": span(0, 0, 0, 1), "text": ""}, {"range": span(0, 2, 0, 1), "text": ""}]) == "abc"


@pytest.mark.parametrize("data", [b"x", b"\n", frame({"a": 1}) + b"noise\n" + frame({"a": 2}), frame({"a": 1})[:-1]])
def test_a_stray_byte_is_seen(data: bytes) -> None:
    with pytest.raises(AssertionError):
        list(frames(data, is_all=True))
    assert len(list(frames(frame({"a": 1}) + frame({"b": "é"}), is_all=True))) == 2
