"""VS Code by itself: the extension's own tests, and from a fresh editor to the first suggestion."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from inference.runtime_dir import RUNTIME_VARIABLE
from tests.editors import installed
from tests.editors.conftest import start
from tests.editors.editor import ROOT, Scene, until
from tests.editors.vscode import VSCode

MAKEFILE = (ROOT / "Makefile").read_text()


@pytest.fixture
def name() -> str:
    return "vscode"


def _fresh(scene: Scene) -> VSCode:
    return VSCode(installed.PROGRAMS["vscode"](), scene, settings={})


def test_the_extensions_own_tests(name: str) -> None:
    done = subprocess.run(["npm", "test"], cwd=ROOT / "editors/vscode", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_fresh_one_is_asked_once_and_told_what_it_takes(name: str, scene: Scene) -> None:
    editor = _fresh(scene)
    try:
        path = scene.file("\n")
        editor.open(path)
        (asked,) = until(editor.messages, "the question")
        # the time that it takes, or which package is missing
        built = re.search(r"the engine is built from source, which takes [^;,]* on two cores", MAKEFILE)
        needed = re.search(r"The engine \(llama\.cpp\) is built from source and needs .*?--install\.", MAKEFILE)
        assert built is not None and needed is not None
        assert built[0] in asked or needed[0] in asked
        assert "not set up" in editor.status()
        editor.place(0, 0)
        editor.type("value = 1")
        editor.save()
        assert path.read_text() == "value = 1\n"
        editor.open(scene.file("\n", "two.py"))
        assert editor.messages() == [asked]
    finally:
        editor.quit()


def test_what_is_set_in_the_editor_wins_over_the_file_at_once_and_what_is_not_does_not(name: str, tmp_path: Path) -> None:
    scene = Scene(tmp_path, settings='languages_off = ["python"]\n')
    scene.say("value = 12")
    editor = start(name, scene)
    assert isinstance(editor, VSCode)

    def answered_more_than(before: int) -> bool:
        return len(scene.heard("answer")) > before

    try:
        editor.open(scene.file("\n"))
        until(lambda: "ready" in editor.status(), "the server", wait_s=120)
        editor.place(0, 0)
        editor.type("val")
        until(lambda: answered_more_than(0), "an answer")
        assert editor.ghost() == ""
        editor.set("midfill.languagesOff", [])
        editor.type("u")
        until(lambda: editor.ghost() == "e = 12", "the ghost")
        editor.palette("midfill: Switch On or Off in This Workspace")
        until(lambda: "off in this workspace" in editor.status(), "the state")
        before = len(scene.heard("answer"))
        editor.type("e")
        until(lambda: answered_more_than(before), "an answer")
        assert editor.ghost() == ""
        editor.palette("midfill: Switch On or Off in This Workspace")
        until(lambda: "off" not in editor.status(), "the state")
        editor.type(" ")
        until(lambda: editor.ghost() == "= 12", "the ghost")
    finally:
        editor.quit()


@pytest.mark.real_model
def test_from_an_absent_model_to_the_first_suggestion_by_agreeing_to_the_download(
    name: str, tmp_path: Path, real_model_path: Path
) -> None:
    model, mirror, models = "qwen2.5-coder-0.5b", tmp_path / "mirror", tmp_path / "models"
    mirror.mkdir()
    (mirror / f"{model}.gguf").symlink_to(real_model_path)
    places = f'model = "{model}"\nmodels_dir = "{models}"\nmodels_mirror = "{mirror}"\n'
    settings = f"{places}linger_s = 1\nmax_tokens = 16\nn_threads = 1\n"
    scene = Scene(tmp_path, environment={RUNTIME_VARIABLE: os.environ[RUNTIME_VARIABLE]}, settings=settings)
    scene.server = (scene.midfill(), "lsp")
    editor = start(name, scene, patience_s=120)  # the model may be slow here; what counts is the text
    assert isinstance(editor, VSCode)
    try:
        path = scene.file("def add(a, b):\n    \n")
        editor.open(path)
        until(lambda: any("is not on disk" in told for told in editor.messages()), "what is missing", wait_s=120)
        editor.choose(f"Download {model}")
        until(lambda: "ready" in editor.status(), "the model", wait_s=300)
        assert (models / f"{model}.gguf").stat().st_size == real_model_path.stat().st_size
        editor.place(1, 4)
        editor.type("ret")
        ghost = until(editor.ghost, "a suggestion", wait_s=120)
        editor.press("accept")
        editor.save()
        assert path.read_text() == f"def add(a, b):\n    ret{ghost}\n"
    finally:
        editor.quit()
