"""The mid-line bench on the strict fake: what it counts, that nothing leaks from case to case, and what it reports."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from bench import midline
from bench.case_log import CaseLog, Record
from bench.cuts import ARMS, Cut
from bench.errors import BenchError
from bench.heart import Heart
from bench.midline import Arm, arms_of, measure_case, report, table
from inference.sequence import n_common
from tests.bench.fake_heart import VOCAB, Says, fake_heart
from tests.support.virtual import SteppedClient, run_virtual

PREFIX = "def read(item, number):\n    total = 0\n    for index in range(number):\n"
CASE = Cut("L/1", PREFIX, "        total = fo", "obar(item, index)", "\n        print(total)\n    return total\n")
LINES = Cut("L/2", PREFIX.replace("read", "number"), "    foo = 1\n    bar = 2\n    ret", "urn foo", "\n\nprint(read(data))\n")


def measured(*cases: Cut, says: Says | None = None) -> tuple[list[Record], SteppedClient]:
    async def main() -> tuple[list[Record], SteppedClient]:
        heart, client = fake_heart(says)
        records = [await measure_case(heart, case) for case in cases]
        await heart.aclose()
        return records, client

    result: tuple[list[Record], SteppedClient] = run_virtual(main)
    return result


def says_at_the_cut(anchored: str, psm: str) -> Says:
    return lambda prompt, heal: anchored if heal else psm


def test_right_is_the_rest_of_the_line() -> None:
    [record], _ = measured(CASE, says=says_at_the_cut("obar(item, index)  \n        other\n", "obar(item)\n"))
    assert (record["anchored"]["right"], record["anchored"]["text"]) == (True, "obar(item, index)")
    assert (record["psm"]["right"], record["psm"]["text"]) == (False, "obar(item)")


def test_silence_is_wrong() -> None:
    [record], _ = measured(CASE, says=says_at_the_cut("", "\n"))
    assert not record["anchored"]["right"]
    assert not record["psm"]["right"]


@pytest.mark.parametrize("case", [CASE, LINES])
def test_what_is_counted_is_what_the_second_request_cost_beyond_the_lines_start(case: Cut) -> None:
    [record], client = measured(case, says=says_at_the_cut("obar\n" + 10 * "foo(bar)\n", "obar\n"))
    asked = [request for request in client.requests if request.n_max]
    assert [request.n_max for request in asked] == [1, 40, 1, 40], "per layout: warm, then at the cut"
    for layout, warm, cut in (("anchored", asked[0], asked[1]), ("psm", asked[2], asked[3])):
        prompt = VOCAB.text(warm.tokens)
        assert case.prefix.encode() in prompt and case.suffix.encode() in prompt and case.typed.encode() not in prompt
        n_warm = n_common(list(warm.tokens), cut.tokens)
        assert record[layout]["prompt"] == len(cut.tokens) - n_warm > 0
        assert record[layout]["kept"] == (n_warm == len(warm.tokens)) == (layout == "anchored")
    assert record["psm"]["healing"] == 0
    assert record["anchored"]["healing"] == len(VOCAB.encode(asked[1].heal)) > 0
    assert record["anchored"]["generated"] == len(VOCAB.encode(b"obar\n"))
    n_decoded = client.engine.counters()
    assert record["psm"]["prompt"] + record["anchored"]["prompt"] < n_decoded.prompt, "the first request's are not counted"


def test_the_lines_typed_since_the_anchor_stay_behind_it() -> None:
    [record], client = measured(LINES)
    _, at_cut, _, _ = (request for request in client.requests if request.n_max)
    assert VOCAB.text(at_cut.tokens).endswith(b"    foo = 1\n    bar = 2\n   ")
    assert at_cut.heal == b" ret"
    assert record["anchored"]["kept"]


def test_no_case_profits_from_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was measured before, and whichever layout comes first, every count and text is the same."""
    longer = Cut("L/3", CASE.prefix, CASE.typed + "oba", CASE.want[3:], CASE.suffix)
    alone = {case.task_id: measured(case)[0][0] for case in (CASE, longer, LINES)}
    for order in ((CASE, longer, CASE, LINES, longer), (longer, CASE, LINES, LINES, CASE)):
        assert measured(*order)[0] == [alone[case.task_id] for case in order]
    monkeypatch.setattr(midline, "LAYOUTS", ("psm", "anchored"))
    assert measured(longer, CASE)[0] == [alone["L/3"], alone["L/1"]]


def test_a_cache_that_knows_too_much_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(midline, "LAYOUTS", ("anchored", "anchored"))  # nothing comes between them
    with pytest.raises(BenchError, match="counts of this run would be too low"):
        measured(CASE)


def test_forgetting_leaves_nothing() -> None:
    async def main() -> list[int]:
        heart, client = fake_heart()
        left = []
        for _ in range(3):
            await measure_case(heart, CASE)
            await heart.forget()
            left += [await client.n_reusable(request.tokens) for request in client.requests if request.n_max]
        return left

    assert set(run_virtual(main)) == {0}


def test_a_failing_engine_is_told() -> None:
    async def main() -> None:
        heart, client = fake_heart()
        client.engine.close()
        await measure_case(heart, CASE)

    with pytest.raises(BenchError, match="engine"):
        run_virtual(main)


def record(anchored: bool, psm: bool, prompt: int = 10) -> Record:
    def part(right: bool, n: int) -> Record:
        return {"right": right, "kept": True, "prompt": n, "healing": 1, "generated": 4, "text": ""}

    return {"anchored": part(anchored, 1), "psm": part(psm, prompt), "commit": "abc"}


def made_report() -> dict[str, Any]:
    cases = tuple(Cut(str(i), "", "", "", "") for i in range(4))
    arms = (Arm("third", cases), Arm("word_end", cases[:1]))
    log = CaseLog(None, {})
    for case, pair in zip(cases, [(True, True), (True, False), (True, False), (False, False)], strict=True):
        log.add("third", case.task_id, record(*pair))
    log.add("word_end", "0", record(False, True, 30))
    return report(arms, log, {"model": "m", "seed": 7})


def test_the_report_has_the_agreed_names() -> None:
    part = {"kept": 4, "generated": 16}
    assert made_report() == {
        "n": 4,
        "arms": {
            "third": {
                "n": 4,
                "anchored": {"exact": 3, "evaluated": 8, "prompt": 4, "healing": 4, **part},
                "psm": {"exact": 1, "evaluated": 44, "prompt": 40, "healing": 4, **part},
                "only_anchored": 2,
                "only_psm": 0,
                "both": 1,
                "p": 0.5,
            },
            "word_end": {
                "n": 1,
                "anchored": {"exact": 0, "evaluated": 2, "prompt": 1, "healing": 1, "kept": 1, "generated": 4},
                "psm": {"exact": 1, "evaluated": 31, "prompt": 30, "healing": 1, "kept": 1, "generated": 4},
                "only_anchored": 0,
                "only_psm": 1,
                "both": 0,
                "p": 1.0,
            },
        },
        "model": "m",
        "seed": 7,
        "commit": "abc",
    }


def test_the_table_has_a_line_per_arm_and_layout() -> None:
    rows = [line.split() for line in table(made_report()).splitlines()]
    assert [row[:5] for row in rows[1:]] == [
        ["third", "anchored", "3", "of", "4"],
        ["psm", "1", "of", "4", "40"],
        ["word_end", "anchored", "0", "of", "1"],
        ["psm", "1", "of", "1", "30"],
    ]


def write_data(path: Path, n: int) -> Path:
    rows = [
        {"task_id": f"SingleLineInfilling/{i}", "entry_point": "f", "prompt": f"def f(item):\n    number = {i}\n",
         "suffix": "    return total\n", "canonical_solution": f"    total = number + {i}\n", "test": ""}
        for i in range(n)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_arms_share_the_sample(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data.jsonl", 30)
    arms = arms_of(data, 10, 7, ARMS, 1)
    assert [arm.name for arm in arms] == list(ARMS)
    assert all([case.task_id for case in arm.cuts] == [case.task_id for case in arms[0].cuts] for arm in arms)
    assert len(arms[0].cuts) == 10
    with pytest.raises(BenchError, match="--n"):
        arms_of(data, 10, 7, ("typed_lines",), 3)


async def load_fake(*_: object) -> Heart:
    return fake_heart()[0]


def test_the_whole_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(Heart, "load", load_fake)
    data, out = write_data(tmp_path / "data.jsonl", 6), tmp_path / "out.jsonl"
    command = ["--data", str(data), "--n", "5", "--seed", "3", "--typed-lines", "1", "--out", str(out), "--json"]
    assert midline.main(command) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["n"] == 5
    assert list(first["arms"]) == list(ARMS)
    for arm in first["arms"].values():
        assert arm["n"] == 5
        assert arm["anchored"]["kept"] == 5
        assert 0 < arm["anchored"]["evaluated"] < arm["psm"]["evaluated"]

    # half of it lost: the rest is measured again, and nothing else
    lines = out.read_text().splitlines(keepends=True)
    out.write_text("".join(lines[:9]))
    assert midline.main(command) == 0
    assert json.loads(capsys.readouterr().out) == first
    assert sorted(out.read_text().splitlines(keepends=True)) == sorted(lines)

    async def load_nothing(*_: object) -> Heart:
        raise AssertionError("all is known already")

    monkeypatch.setattr(Heart, "load", load_nothing)
    assert midline.main(command[:-1]) == 0
    assert "typed_lines" in capsys.readouterr().out


def test_what_can_not_be_measured_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_data(tmp_path / "data.jsonl", 2)
    assert midline.main(["--data", str(tmp_path / "none")]) == 1
    assert "none" in capsys.readouterr().err
    assert midline.main(["--data", str(data), "--model", str(tmp_path / "none.gguf"), "--typed-lines", "1"]) == 1
    assert "none.gguf" in capsys.readouterr().err
    for wrong in (["--arms", "first"], ["--n", "0"], ["--kv-type", "q5_1"], []):
        with pytest.raises(SystemExit):
            midline.main([*wrong, *(["--data", str(data)] if wrong else [])])


@pytest.mark.real_model
def test_on_the_real_model(real_model_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_data(tmp_path / "data.jsonl", 2)
    command = ["--data", str(data), "--arms", "third", "--model", str(real_model_path), "--threads", "1", "--json"]
    assert midline.main(command) == 0
    arm = json.loads(capsys.readouterr().out)["arms"]["third"]
    assert arm["n"] == 2
    assert arm["anchored"]["evaluated"] < arm["psm"]["evaluated"]


def test_a_case_is_one_event_loops_work() -> None:
    """On a real loop too, with the engine stepping beside it."""

    async def main() -> Record:
        heart, _ = fake_heart()
        try:
            return await measure_case(heart, CASE)
        finally:
            await heart.aclose()

    assert asyncio.run(main()) == measured(CASE)[0][0]
