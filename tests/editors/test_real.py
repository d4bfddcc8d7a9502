"""The product as it is installed, with the real 0.5B: what is shown is what is on disk after accepting it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from inference.runtime_dir import RUNTIME_VARIABLE
from tests.editors.conftest import start
from tests.editors.editor import Scene, until

pytestmark = pytest.mark.real_model

BEFORE = "def add(a, b):\n    "


def test_typed_shown_accepted_saved(name: str, tmp_path: Path, real_model_path: Path) -> None:
    settings = f'model = "{real_model_path}"\nlinger_s = 1\nmax_tokens = 16\nn_threads = 1\n'
    scene = Scene(tmp_path, environment={RUNTIME_VARIABLE: os.environ[RUNTIME_VARIABLE]}, settings=settings)
    scene.server = (scene.midfill(), "lsp")
    editor = start(name, scene, patience_s=120)  # the model may be slow here; what counts is the text
    try:
        path = scene.file(BEFORE + "\n")
        editor.open(path)
        until(lambda: "ready" in editor.status(), "the model", wait_s=120)
        editor.place(1, 4)
        editor.type("ret")
        ghost = until(editor.ghost, "a suggestion", wait_s=200)
        assert ghost.startswith("urn")
        editor.press("accept")
        until(lambda: not editor.ghost() or editor.text().rstrip("\n") == BEFORE + "ret" + ghost, "the text")
        assert editor.text().rstrip("\n") == BEFORE + "ret" + ghost
        editor.save()
        assert path.read_text() == BEFORE + "ret" + ghost + "\n"
        assert editor.messages() == []
    finally:
        editor.quit()
