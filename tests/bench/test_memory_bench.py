"""The memory bench on a tiny model: a process each, the form of its answer, and its verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import memory
from bench.errors import BenchError
from bench.memory import Row, main, table
from tests.support.tiny_gguf import write_tiny


def test_one_load_a_process_and_one_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write_tiny(tmp_path / "tiny.gguf"))
    assert main(["--models", path, "--contexts", "512", "--kv", "q8_0", "--sequences", "2"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert set(row) == {"model", "n_ctx", "kv_type", "n_seq", "planned_bytes", "actual_bytes"}
    assert (row["model"], row["n_ctx"], row["kv_type"], row["n_seq"]) == (path, 512, "q8_0", 2)
    assert abs(row["planned_bytes"] / row["actual_bytes"] - 1) < 0.1


def test_a_plan_that_is_off_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[tuple[str, ...]] = []

    def planned(*what: str) -> Row:
        asked.append(what)
        return Row(what[0], int(what[1]), what[2], int(what[3]), 111 if what[1] == "2" else 109, 100, what[4])

    monkeypatch.setattr(memory, "in_child", planned)
    arguments = ["--models", "a,b", "--kv", "f16,q8_0", "--sequences", "1", "--flash", "auto,off"]
    assert main([*arguments, "--contexts", "1"]) == 0
    assert main([*arguments, "--contexts", "1,2", "--table"]) == 1
    assert ("a", "1", "f16", "1", "off") in asked and ("a", "1", "q8_0", "1", "off") not in asked
    assert "largest difference: 11.00%" in capsys.readouterr().out
    assert "+9.00%" in table([Row("m", 1, "f16", 1, 109, 100)])


def test_a_load_that_fails_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BenchError, match=r"there is no|There is no|no file"):
        memory.in_child(str(tmp_path / "none.gguf"), "512", "f16", "1", "auto")
