"""Results that outlive an interruption."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.case_log import CaseLog
from bench.errors import BenchError

RUN = {"bench": "midline", "model": "a", "seed": 7}


def test_a_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    log = CaseLog(path, RUN)
    assert log.get("third", "1") is None
    log.add("third", "1", {"right": True})
    log.add("word_end", "1", {"right": False})
    again = CaseLog(path, dict(reversed(RUN.items())))
    assert again.get("third", "1") == {"right": True}
    assert again.get("word_end", "1") == {"right": False}
    assert again.get("third", "2") is None


def test_a_torn_line_is_forgotten_and_the_rest_kept(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    log = CaseLog(path, RUN)
    log.add("third", "1", {"right": True})
    with path.open("a") as out:
        out.write('{"group": "third", "ca')
    log = CaseLog(path, RUN)
    log.add("third", "2", {"right": False})
    again = CaseLog(path, RUN)
    assert again.get("third", "1") == {"right": True}
    assert again.get("third", "2") == {"right": False}


def test_another_runs_results_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    CaseLog(path, RUN).add("third", "1", {})
    with pytest.raises(BenchError, match=r"another run.*seed 7 there"):
        CaseLog(path, {**RUN, "seed": 8})
    path.write_text("no such thing\n")
    with pytest.raises(BenchError, match="another run"):
        CaseLog(path, RUN)


def test_damage_and_places_that_can_not_be_written_are_told(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    CaseLog(path, RUN)
    with path.open("a") as out:
        out.write('{"group": 1}\n')
    with pytest.raises(BenchError, match="damaged"):
        CaseLog(path, RUN)
    with pytest.raises(BenchError, match="can be written"):
        CaseLog(tmp_path / "nowhere" / "out.jsonl", RUN)


def test_without_a_file_it_remembers() -> None:
    log = CaseLog(None, RUN)
    log.add("third", "1", {"right": True})
    assert log.get("third", "1") == {"right": True}
