"""Which editors there are.

A plain `pytest` collects nothing here: `python -m tests.editors`, which is `make e2e`, fetches the editors first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.editors.editor import Editor, Scene, until
from tests.editors.emacs import Emacs
from tests.editors.installed import PROGRAMS
from tests.editors.neovim import Neovim

collect_ignore_glob = [] if "MIDFILL_TEST_EDITORS" in os.environ else ["test_*.py"]


def start(name: str, scene: Scene, **more: Any) -> Editor:
    """A new process of the editor `name`."""
    program = PROGRAMS[name]()
    return Neovim(program, scene, **more) if name.startswith("neovim") else Emacs(program, scene, **more)


@pytest.fixture(scope="module", params=list(PROGRAMS))
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Editor, Scene]]:
    """One process of each editor for a module, in a workspace of its own."""
    scene = Scene(tmp_path_factory.mktemp(request.param))
    editor = start(request.param, scene)
    editor.open(scene.file("", "first.py"))
    until(lambda: "ready" in editor.status(), "the server", wait_s=60)
    yield editor, scene
    editor.quit()


@pytest.fixture(params=list(PROGRAMS))
def name(request: pytest.FixtureRequest) -> str:
    """For tests that start editors of their own."""
    return str(request.param)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)
