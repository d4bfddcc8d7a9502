"""The clients by themselves: compiled and checked without a warning, found healthy, documented."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lsp_server.__main__ import version
from tests.editors.editor import ROOT, Scene, until
from tests.editors.installed import PROGRAMS
from tests.editors.neovim import Neovim

EMACS = ROOT / "editors/emacs/midfill.el"
NEOVIM = ROOT / "editors/neovim"


def _emacs(name: str, scene: Scene, *words: str) -> str:
    program = PROGRAMS[name]()
    quiet = "(setq native-comp-jit-compilation nil native-comp-deferred-compilation nil)"
    command = [*program.command, "-Q", "--batch", "--eval", quiet, *words]
    done = subprocess.run(command, env=scene.environ(**program.environment), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name.startswith("emacs")])
def test_emacs_compiles_and_is_checked_without_a_warning(name: str, scene: Scene) -> None:
    copy = str(shutil.copy(EMACS, scene.folder))
    told = _emacs(name, scene, "-f", "batch-byte-compile", copy)
    assert Path(copy).with_suffix(".elc").exists()
    assert "Warning" not in told, told
    assert _emacs(name, scene, "--eval", f'(checkdoc-file "{copy}")').strip() == ""


def test_emacs_names_the_version_of_the_server() -> None:
    assert re.search(r"^;; Version: (\S+)$", EMACS.read_text(), re.M)[1] == version()  # type: ignore[index]


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name.startswith("neovim")])
def test_neovim_is_healthy_and_says_what_is_not(name: str, scene: Scene) -> None:
    scene.server = (scene.midfill(), "lsp")
    editor = Neovim(PROGRAMS[name](), scene)
    try:
        told = editor.health()
        assert re.search(r"OK.* midfill \S+ \(", told), told
        assert "ERROR" not in told
    finally:
        editor.quit()
    scene.server = ("/nowhere/midfill", "lsp")
    editor = Neovim(PROGRAMS[name](), scene)
    try:
        assert re.search(r"ERROR.*/nowhere/midfill", editor.health())
        assert editor.errors() == ""
    finally:
        editor.quit()


def test_neovim_help_has_every_option_action_and_command() -> None:
    text = (NEOVIM / "doc/midfill.txt").read_text()
    tags = set(re.findall(r"\*(\S+)\*", text))
    options = (NEOVIM / "lua/midfill/options.lua").read_text()
    defaults = options.split("local defaults = {", 1)[1].split("\n}\n", 1)[0]
    for name in re.findall(r"^  (\w+) =", defaults, re.M):
        assert f"midfill-option-{name}" in tags, name
    for name in re.findall(r"^    (\w+) =", defaults, re.M):
        assert f"<Plug>(midfill-{name})" in tags, name
    commands = (NEOVIM / "lua/midfill/commands.lua").read_text().split("M.commands = {", 1)[1].split("\n}\n", 1)[0]
    for name in re.findall(r"^  (?:\['([\w-]+)'\]|(\w+)) = function", commands, re.M):
        assert f":Midfill-{''.join(name)}" in tags, name


def test_neovim_draws_by_itself_where_one_prefers_that(scene: Scene) -> None:
    scene.say("number = 12")
    editor = Neovim(PROGRAMS["neovim-0.12"](), scene, renderer="own")
    try:
        path = scene.file("\n")
        editor.open(path)
        until(lambda: "ready" in editor.status(), "the server", wait_s=200)
        editor.place(0, 0)
        editor.type("num")
        until(lambda: editor.ghost() == "ber = 12", "the ghost")
        editor.press("word")
        until(lambda: editor.ghost() == " = 12", "the rest")
        editor.press("accept")
        editor.save()
        assert path.read_text() == "number = 12\n"
    finally:
        editor.quit()
