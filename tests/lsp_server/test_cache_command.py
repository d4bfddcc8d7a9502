"""`midfill cache`: what it tells, and that nothing is left when it has cleared."""

from __future__ import annotations

import argparse
import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from inference.config import EngineConfig
from inference.prompt_cache.place import ASIDE, DATABASE
from lsp_server.commands import cache as cache_command
from lsp_server.config import Config
from tests.support.saved_prompts import Kept, value_files


def said(
    capsys: pytest.CaptureFixture[str], cache_dir: Path, *words: str, config: Config | None = None
) -> tuple[int, str, str]:
    """Exit status and what was written."""
    parser = argparse.ArgumentParser()
    cache_command.add_parser(parser.add_subparsers(dest="command"))
    code = cache_command.run(parser.parse_args(["cache", *words]), config=config or Config(), cache_dir=cache_dir)
    told = capsys.readouterr()
    return code, told.out, told.err


def test_what_is_there_is_told_and_removed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    place = tmp_path / "prompts"
    code, out, _ = said(capsys, tmp_path, "status")
    assert code == 0 and "0 MB of at most 2.1 GB" in out and not place.exists(), "asking makes nothing"
    kept = Kept(place)
    for i in range(3):
        kept.put(i)
    (place / "ab" / "cd").mkdir(parents=True, exist_ok=True)
    (place / "ab" / "cd" / "left.val").write_bytes(b"left over")
    told = json.loads(said(capsys, tmp_path, "status", "--json")[1])
    assert (told["n_prompts"], told["n_tokens"], told["n_kinds"], told["is_on"]) == (3, 900, 1, True)
    assert "3 prompts with 900 tokens" in said(capsys, tmp_path, "status")[1]
    assert said(capsys, tmp_path, "clear")[0] == 0
    assert value_files(place) == [] and kept.store.listed() == [] and kept.get(1) is None
    assert json.loads(said(capsys, tmp_path, "status", "--json")[1])["n_prompts"] == 0


def test_off_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = replace(Config(), engine=EngineConfig(prompt_cache=False))
    assert "switched off" in said(capsys, tmp_path, "status", config=config)[1]


def test_a_damaged_one_is_cleared_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    kept = Kept(tmp_path / "prompts")
    kept.put(1)
    kept.store.close()
    (tmp_path / "prompts" / DATABASE).write_bytes(b"no database" * 100)
    code, _, err = said(capsys, tmp_path, "clear")
    assert code == 0 and "set aside" in err
    assert value_files(tmp_path / "prompts") == [] and not (tmp_path / "prompts" / ASIDE).exists()
    with sqlite3.connect(tmp_path / "prompts" / DATABASE) as connection:
        assert connection.execute("SELECT count(*) FROM Cache").fetchone() == (0,)


def test_a_place_that_is_not_ones_own_is_left_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "elsewhere" / "file.val").write_text("mine")
    (tmp_path / "prompts").symlink_to(tmp_path / "elsewhere")
    for word in ("status", "clear"):
        code, _, err = said(capsys, tmp_path, word)
        assert code == 1 and "symbolic link" in err
    assert [p.name for p in (tmp_path / "elsewhere").iterdir()] == ["file.val"]
