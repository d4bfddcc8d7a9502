"""The bench of quantized caches: what it compares, on the strict fake and on a tiny real model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import kv_types
from bench.case_log import CaseLog, Record
from bench.cuts import Cut
from bench.heart import Heart
from tests.bench.fake_heart import fake_heart
from tests.bench.test_midline import write_data

CASES = tuple(Cut(f"L/{i}", "def f():\n", "    ret", "urn 1", "\n") for i in range(4))


def record(right: bool, text: str) -> Record:
    return {"right": right, "text": text, "prompt": 3, "healing": 1, "generated": 2, "commit": "abc"}


def test_each_type_is_compared_with_the_first_on_the_cases_that_all_have() -> None:
    log = CaseLog(None, {})
    for case, first, other in zip(CASES, (True, True, False, False), (True, False, True, False), strict=True):
        log.add("f16", case.task_id, record(first, "a"))
        if case is not CASES[3]:
            log.add("q8_0", case.task_id, record(other, "a" if first and other else "b"))
    made = kv_types.report(("f16", "q8_0"), CASES, log, {"model": "m"})
    assert made["n"] == 3
    assert made["types"]["f16"] == {
        "exact": 2, "evaluated": 12, "generated": 6, "same_text": 3, "only_first": 0, "only_this": 0, "p": 1.0,
    }  # fmt: skip
    assert made["types"]["q8_0"] == {
        "exact": 2, "evaluated": 12, "generated": 6, "same_text": 1, "only_first": 1, "only_this": 1, "p": 1.0,
    }  # fmt: skip
    assert "q8_0" in kv_types.table(made)


def test_each_type_has_an_engine_of_its_own_and_a_second_start_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    async def load(config: object, max_tokens: int) -> Heart:
        asked.append(config.kv_type)  # type: ignore[attr-defined]
        heart, _ = fake_heart(None)
        return heart

    monkeypatch.setattr(Heart, "load", load)
    data = write_data(tmp_path / "data.jsonl", 2)
    command = ["--data", str(data), "--types", "f16,q4_0", "--out", str(tmp_path / "out"), "--json"]
    assert kv_types.main(command) == 0
    first = json.loads(capsys.readouterr().out)
    assert asked == ["f16", "q4_0"]
    assert first["types"]["q4_0"]["same_text"] == first["n"] == 2
    assert kv_types.main(command) == 0
    assert json.loads(capsys.readouterr().out) == first
    assert asked == ["f16", "q4_0"]


def test_what_can_not_be_measured_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_data(tmp_path / "data.jsonl", 2)
    with pytest.raises(SystemExit):
        kv_types.main(["--data", str(data), "--types", "q5_1"])
    assert "q5_1" in capsys.readouterr().err
    assert kv_types.main(["--data", str(data), "--model", str(tmp_path / "none.gguf")]) == 1
    assert "none.gguf" in capsys.readouterr().err
