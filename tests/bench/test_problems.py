"""The benchmark's files: read, checked, sampled."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from bench.errors import BenchError
from bench.problems import Problem, load, sample


def row(**changes: object) -> dict[str, object]:
    made: dict[str, object] = {
        "task_id": "SingleLineInfilling/HumanEval/1/L0",
        "entry_point": "f",
        "prompt": "def f():\n",
        "suffix": "",
        "canonical_solution": "    return 1\n",
        "test": "def check(c): assert c() == 1",
    }
    return {**made, **changes}


def write(path: Path, *rows: object, packed: bool = False) -> Path:
    data = "".join(json.dumps(one) + "\n" for one in rows).encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    return path


@pytest.mark.parametrize("packed", [True, False])
def test_a_file_is_read_packed_or_not(tmp_path: Path, packed: bool) -> None:
    path = write(tmp_path / "data", row(), row(task_id="SingleLineInfilling/HumanEval/1/L1", test="é"), packed=packed)
    first, second = load(path)
    assert first == Problem(
        "SingleLineInfilling/HumanEval/1/L0", "f", "def f():\n", "", "    return 1\n", "def check(c): assert c() == 1"
    )
    assert second.test == "é"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "holds no problems"),
        ([row(), row()], "a task_id twice"),
        ([row(), [1]], "line 2"),
        ([row(prompt=3)], "line 1"),
        ([{"task_id": "a"}], "line 1"),
    ],
)
def test_what_is_no_data_is_refused(tmp_path: Path, rows: list[object], said: str) -> None:
    with pytest.raises(BenchError, match=said):
        load(write(tmp_path / "data", *rows))


def test_a_missing_or_damaged_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="No such file"):
        load(tmp_path / "nothing")
    packed = write(tmp_path / "cut", row(), packed=True)
    packed.write_bytes(packed.read_bytes()[:-12])
    with pytest.raises(BenchError, match="damaged"):
        load(packed)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe{}")
    with pytest.raises(BenchError, match="damaged"):
        load(tmp_path / "bytes")


@pytest.mark.parametrize(
    ("task_id", "form"),
    [
        ("RandomSpanInfilling/HumanEval/1/1", "random_span"),
        ("SingleLineInfilling/HumanEval/1/L0", "single_line"),
        ("MultiLineInfilling/HumanEval/1/L0_L1", "multi_line"),
        ("RandomSpanInfillingLight/1", "random_span_infilling_light"),
    ],
)
def test_the_form_is_the_ids(task_id: str, form: str) -> None:
    assert Problem(task_id, "f", "", "", "", "").form == form


def problems(n: int) -> list[Problem]:
    return [Problem(f"SingleLineInfilling/{i}", "f", "", "", "", "") for i in range(n)]


def test_a_sample_is_the_seeds() -> None:
    chosen = sample(problems(20), 5, 7)
    assert [problem.task_id.split("/")[1] for problem in chosen] == ["10", "4", "12", "1", "2"]  # of Python's own generator
    assert chosen != sample(problems(20), 5, 8)
    assert len(sample(problems(4), 150, 7)) == 4


def test_the_program_calls_the_tests() -> None:
    seen: list[int] = []
    problem = Problem("a", "f", "def f():\n", "", "    return 1\n", "def check(c): seen.append(c())")
    exec(problem.program("def f():\n    return 1"), {"seen": seen})
    assert seen == [1]
