"""pass@1 on the strict fake: what is put into the gap, what is judged, and what is reported."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import infilling, sandbox
from bench.case_log import CaseLog, Record
from bench.heart import Heart
from bench.infilling import in_lines, measure_problem, report, table
from bench.problems import Problem
from tests.bench.fake_heart import Says, fake_heart
from tests.support.virtual import SteppedClient

TEST = "def check(total):\n    assert total(2) == 6\n"
HEAD, TAIL = "def total(number):\n    value = nu", "mber\n    return value\n"
INSIDE = Problem("RandomSpanInfilling/1", "total", HEAD, TAIL, "mber * 2\n    value = value + nu", TEST)
WHOLE = Problem(
    "RandomSpanInfilling/2",
    "total",
    "def total(number):\n",
    "    value += 0\n    return value\n",
    "    value = number * 3\n",
    TEST,
)


def measured(problem: Problem, says: Says | None) -> tuple[Record, SteppedClient]:
    async def main() -> tuple[Record, SteppedClient]:
        heart, client = fake_heart(says, max_tokens=64)
        record = await measure_problem(heart, problem)
        await heart.aclose()
        return record, client

    return asyncio.run(main())  # not in virtual time: the programs run in real processes


def says(anchored: str, psm: str) -> Says:
    return lambda prompt, heal: anchored if heal else psm


def test_an_item_of_one_line_and_all_that_was_generated_are_judged() -> None:
    """The gap is inside a line and goes over two: one line of it is offered there, and is not enough."""
    record, _ = measured(INSIDE, says("mber * 2\n    value = value + number\n    return value\n", "mber * 3 #"))
    assert record["reference"]
    anchored, psm = record["anchored"], record["psm"]
    assert (anchored["item"], anchored["why_item"]) == (False, "SyntaxError"), "number * 2mber"
    assert (anchored["lines"], anchored["whole"]) == (True, True)
    assert psm["item"] and psm["lines"]
    assert anchored["said"].startswith("mber * 2\n")
    assert anchored["prompt"] > 0 and anchored["healing"] > 0 and psm["healing"] == 0


def test_what_runs_on_behind_the_gap_is_cut_by_the_products_rules() -> None:
    said = "    value = 3 * number\n    value += 0\n    return value\n\n\nprint(total(1)\n"
    record, _ = measured(WHOLE, says("", said))  # at a line's start both layouts ask with the same prompt
    assert record["reference"]
    for layout in ("anchored", "psm"):
        assert record[layout]["said"] == said
        assert record[layout]["item"] and record[layout]["lines"]


def test_each_request_begins_cold_and_is_asked_once() -> None:
    problem = replace(INSIDE, prompt="foo = bar\n" * 20 + INSIDE.prompt)
    record, client = measured(problem, None)
    asked = [request for request in client.requests if request.n_max]
    assert [request.n_max for request in asked] == [64, 64]
    assert [bool(request.heal) for request in asked] == [True, False]
    for layout, request in zip(("anchored", "psm"), asked, strict=True):
        assert record[layout]["prompt"] == len(request.tokens), "nothing was in the cache"
        assert record[layout]["generated"] <= 64


def test_equal_programs_are_run_once_and_two_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    inside, most, lock, two = [0], [0], threading.Lock(), threading.Barrier(2, timeout=30)

    def run(program: str) -> sandbox.Verdict:
        with lock:
            ran.append(program)
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        two.wait()  # until there is a second one
        with lock:
            inside[0] -= 1
        return sandbox.Verdict(False, "Fake", ())

    monkeypatch.setattr(sandbox, "run", run)
    record, _ = measured(INSIDE, says("mber\n    value = 1\n", "mber\n    value = 2\n"))
    assert len(ran) == len(set(ran)) == 4, "the reference, the item of both, and the lines of each"
    assert most[0] == infilling.MOST_AT_ONCE == 2
    assert not record["reference"]
    assert record["psm"]["why_lines"] == "Fake"


@pytest.mark.parametrize(
    ("said", "is_whole", "program"),
    [
        ("", True, HEAD + TAIL),
        ("mber\n    foo = 1", True, HEAD + "mber\n    foo = 1" + TAIL),
        ("mber\n    foo = 1", False, HEAD + TAIL),
        ("mber\n    return value\n", False, HEAD + TAIL),
    ],
)
def test_lines_are_fitted_into_the_gap(said: str, is_whole: bool, program: str) -> None:
    assert in_lines(INSIDE, said, is_whole) == program


def record(anchored: tuple[bool, bool], psm: tuple[bool, bool], guards: list[str]) -> Record:
    def part(item: bool, lines: bool) -> Record:
        return {"item": item, "lines": lines, "offered": True, "whole": item, "prompt": 9, "healing": 1, "generated": 5}

    return {"anchored": part(*anchored), "psm": part(*psm), "reference": True, "guards": guards, "commit": "abc"}


def made_report() -> dict[str, Any]:
    problems = [Problem(f"RandomSpanInfilling/{i}", "f", "", "", "", "") for i in range(3)]
    log = CaseLog(None, {})
    results = [((True, True), (False, True)), ((True, True), (False, True)), ((False, False), (False, True))]
    for problem, (anchored, psm) in zip(problems, results, strict=True):
        log.add(problem.form, problem.task_id, record(anchored, psm, ["files", "rlimits"] if anchored[0] else ["rlimits"]))
    return report(problems, log, {"model": "m"})


def test_the_report_has_the_agreed_names() -> None:
    layout = {"offered": 3, "prompt": 27, "healing": 3, "generated": 15}
    assert made_report() == {
        "n": 3,
        "forms": {
            "random_span": {"anchored": 2, "psm": 0, "only_anchored": 2, "only_psm": 0, "both": 0, "n": 3, "p": 0.5},
            "random_span_lines": {"anchored": 2, "psm": 3, "only_anchored": 0, "only_psm": 1, "both": 2, "n": 3, "p": 1.0},
        },
        "reference": 3,
        "anchored": {**layout, "whole": 2},
        "psm": {**layout, "whole": 0},
        "guards": ["rlimits"],
        "model": "m",
        "commit": "abc",
    }


def test_the_table_has_a_line_per_form() -> None:
    rows = [line.split() for line in table(made_report()).splitlines()]
    assert rows[1] == ["random_span", "3", "2", "0", "2", "0", "0.5"]
    assert rows[2] == ["random_span_lines", "3", "2", "3", "0", "1", "1.0"]


def write_data(path: Path) -> Path:
    names = ("task_id", "entry_point", "prompt", "suffix", "solution", "test")
    rows = [{("canonical_solution" if n == "solution" else n): getattr(p, n) for n in names} for p in (INSIDE, WHOLE)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_whole_run_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded: list[int] = []

    async def load(*_: object) -> Heart:
        loaded.append(1)
        return fake_heart()[0]

    monkeypatch.setattr(Heart, "load", load)
    data, out = write_data(tmp_path / "data.jsonl"), tmp_path / "out.jsonl"
    command = ["--data", str(data), "--out", str(out), "--json"]
    assert infilling.main(command) == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["n"], first["reference"]) == (2, 2)
    lines = out.read_text().splitlines(keepends=True)
    out.write_text("".join(lines[:2]))
    assert infilling.main(command) == 0
    assert json.loads(capsys.readouterr().out) == first
    assert out.read_text().splitlines(keepends=True) == lines
    assert infilling.main(command) == 0
    assert len(loaded) == 2, "all is known already"
    assert infilling.main([*command, "--max-tokens", "8"]) == 1
    assert "another run" in capsys.readouterr().err


def test_several_at_once_give_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hearts: list[Heart] = []

    async def load(*_: object) -> Heart:
        hearts.append(fake_heart()[0])
        return hearts[-1]

    def another(heart: Heart, max_tokens: int) -> Heart:
        hearts.append(beside(heart, max_tokens))
        return hearts[-1]

    beside = Heart.another
    monkeypatch.setattr(Heart, "load", load)
    monkeypatch.setattr(Heart, "another", another)
    command = ["--data", str(write_data(tmp_path / "data.jsonl")), "--json"]
    said = []
    for n in ("1", "2"):
        out = tmp_path / f"{n}.jsonl"
        assert infilling.main([*command, "--at-once", n, "--out", str(out)]) == 0
        said.append(json.loads(capsys.readouterr().out))
    assert said[0]["forms"] == said[1]["forms"] and said[0]["n"] == said[1]["n"] == 2
    assert len(hearts) == 3 and all(heart.tap.calls for heart in hearts), "each has asked"


@pytest.mark.real_model
def test_on_the_real_model(real_model_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_data(tmp_path / "data.jsonl")
    command = ["--data", str(data), "--n", "1", "--model", str(real_model_path), "--max-tokens", "24", "--threads", "1"]
    assert infilling.main([*command, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["n"], made["reference"]) == (1, 1)
    assert set(made["forms"]) == {"random_span", "random_span_lines"}
