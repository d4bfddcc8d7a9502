"""`midfill`'s front door: which sub-command, which exit code, and sentences instead of tracebacks."""

from __future__ import annotations

import argparse
import errno
import sys
from types import ModuleType

import pytest

from inference.types import EngineError
from lsp_server import __main__ as command


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A sub-command `fake` whose run() the test supplies."""
    module = ModuleType("tests.lsp_server.fake_command")

    def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
        subparsers.add_parser("fake").add_argument("--n", type=int, default=0)

    module.add_parser = add_parser  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(command._COMMANDS, "fake", (module.__name__, "a fake"))
    monkeypatch.delenv(command.LOG_VARIABLE, raising=False)
    return module


def raising(error: BaseException) -> object:
    def run(_args: argparse.Namespace) -> int:
        raise error

    return run


def test_a_sub_command_gets_its_arguments_and_gives_the_code(fake: ModuleType) -> None:
    fake.run = lambda args: args.n  # type: ignore[attr-defined]
    assert command.main(["fake", "--n", "7"]) == 7


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (EngineError("Pull the model first."), 1, "midfill: Pull the model first."),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "x.gguf"), 1, "midfill: x.gguf: No such file"),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "midfill: No space left"),
        (RuntimeError("zz-inner-zz"), 1, "midfill: an unexpected error (RuntimeError); MIDFILL_LOG=debug"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors_become_sentences(
    fake: ModuleType, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, sentence: str
) -> None:
    fake.run = raising(error)  # type: ignore[attr-defined]
    assert command.main(["fake"]) == code
    told = capsys.readouterr().err
    assert sentence in told
    assert "Traceback" not in told and "zz-inner-zz" not in told


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        command.main(["--help"])
    assert leaving.value.code == 0
    told = capsys.readouterr().out
    assert all(name in told for name in ("lsp", "complete", "explain", "models"))


def test_lsp_takes_what_editors_append(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_serve", lambda: 5)
    assert command.main(["lsp"]) == 5
    assert command.main(["lsp", "--stdio", "--clientProcessId=7"]) == 5


def test_lsp_listens_where_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_serve_tcp", str)
    assert command.main(["lsp", "--tcp", "4711"]) == "127.0.0.1:4711"  # type: ignore[comparison-overlap]
    assert command.main(["lsp", "--tcp=[::1]:0"]) == "[::1]:0"  # type: ignore[comparison-overlap]


@pytest.mark.parametrize("words", [["--tcp", "localhost"], ["--tcp"], ["--tcp", "1", "--stdio"], ["--tcp", "1:2:3"]])
def test_lsp_refuses_what_is_no_place_to_listen(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        command.main(["lsp", *words])
    assert leaving.value.code == 2
    assert "--tcp" in capsys.readouterr().err


def test_this_checkout_is_one_installation() -> None:
    command.check_installation()
