"""The product as it is installed, with the real 0.5B. Nobody knows what it says, but what is shown is what comes. Each
behaviour is the one of that name in `test_behaviours`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from inference.runtime_dir import RUNTIME_VARIABLE
from tests.editors.conftest import start
from tests.editors.editor import Editor, Scene, until

pytestmark = pytest.mark.real_model

BEFORE, TYPED = "def add(a, b):\n    ", "ret"
HERE = BEFORE + TYPED
_numbers = count(1)


class Desk:
    """An editor with a fresh file in it, and a suggestion behind what was typed."""

    def __init__(self, editor: Editor, scene: Scene) -> None:
        self.editor, self.scene = editor, scene
        self.path, self.ghost = self.suggested()

    def suggested(self) -> tuple[Path, str]:
        path = self.scene.file(BEFORE + "\n", f"file{next(_numbers)}.py")
        self.editor.open(path)
        self.editor.place(1, 4)
        self.editor.type(TYPED)
        ghost = until(lambda: self.editor.text().rstrip("\n") == HERE and self.editor.ghost(), "a suggestion", wait_s=200)
        assert ghost.startswith("urn")
        return path, ghost

    def comes(self, text: str) -> None:
        until(lambda: self.editor.text().rstrip("\n") == text, "the text")

    def holds(self, text: str) -> None:
        """In the editor, and after saving on disk."""
        assert self.editor.text().rstrip("\n") == text
        self.editor.save()
        assert self.path.read_text() == text + "\n"
        assert self.editor.messages() == []


# each editor once: what its other versions differ in does not depend on the model
@pytest.fixture(scope="module", params=["neovim-0.12", "emacs-30", "vscode"])
def started(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, real_model_path: Path
) -> Iterator[tuple[Editor, Scene]]:
    settings = f'model = "{real_model_path}"\nlinger_s = 1\nmax_tokens = 16\nn_threads = 1\n'
    environment = {RUNTIME_VARIABLE: os.environ[RUNTIME_VARIABLE]}
    scene = Scene(tmp_path_factory.mktemp(request.param), environment=environment, settings=settings)
    scene.server = (scene.midfill(), "lsp")
    editor = start(request.param, scene, patience_s=120)  # the model may be slow here; what counts is the text
    try:
        editor.open(scene.file("", "first.py"))
        until(lambda: "ready" in editor.status(), "the model", wait_s=200)
        yield editor, scene
    finally:
        editor.quit()


@pytest.fixture
def desk(started: tuple[Editor, Scene]) -> Desk:
    return Desk(*started)


def test_typed_shown_accepted_saved(desk: Desk) -> None:
    desk.editor.press("accept")
    desk.comes(HERE + desk.ghost)
    desk.holds(HERE + desk.ghost)


def test_word_by_word(desk: Desk) -> None:
    whole, n_presses = HERE + desk.ghost, 0
    while (text := desk.editor.text().rstrip("\n")) != whole:
        assert whole.startswith(text)
        desk.editor.press("word")
        until(lambda: desk.editor.text().rstrip("\n") != text, "a word")
        n_presses += 1
    assert n_presses > 1
    desk.holds(whole)


def test_line_by_line(desk: Desk) -> None:
    desk.editor.press("line")
    desk.comes(HERE + desk.ghost)
    desk.holds(HERE + desk.ghost)


def test_typed_through(desk: Desk) -> None:
    desk.editor.type(desk.ghost[:3])
    assert desk.editor.ghost() == desk.ghost[3:]
    desk.editor.press("accept")
    desk.comes(HERE + desk.ghost)
    desk.holds(HERE + desk.ghost)


def test_something_else_is_typed(desk: Desk) -> None:
    desk.editor.type("%")
    assert not desk.editor.ghost().endswith(desk.ghost)
    desk.holds(HERE + "%")


def test_dismissed(desk: Desk) -> None:
    desk.editor.press("dismiss")
    assert desk.editor.ghost() == ""
    desk.holds(HERE)


def test_undone(desk: Desk) -> None:
    desk.editor.press("accept")
    desk.comes(HERE + desk.ghost)
    desk.editor.press("undo")
    desk.comes(HERE)
    desk.holds(HERE)


def test_edited_elsewhere(desk: Desk) -> None:
    desk.editor.place(0, 14)
    desk.editor.type("x")
    assert not desk.editor.ghost().endswith(desk.ghost)
    desk.holds(HERE.replace(":", ":x"))


def test_files_are_switched(desk: Desk) -> None:
    first = desk.path
    desk.path, ghost = desk.suggested()
    desk.editor.press("accept")
    desk.comes(HERE + ghost)
    desk.holds(HERE + ghost)
    desk.editor.open(first)
    desk.path = first
    desk.editor.place(1, 7)
    desk.editor.type("u")
    ghost = until(lambda: desk.editor.text().rstrip("\n") == HERE + "u" and desk.editor.ghost(), "a suggestion", wait_s=200)
    desk.editor.press("accept")
    desk.comes(HERE + "u" + ghost)
    desk.holds(HERE + "u" + ghost)


def test_closed(desk: Desk) -> None:
    desk.editor.close(desk.path)
    assert desk.path.read_text() == BEFORE + "\n"
    desk.path, desk.ghost = desk.suggested()
    desk.editor.press("accept")
    desk.comes(HERE + desk.ghost)
    desk.holds(HERE + desk.ghost)
