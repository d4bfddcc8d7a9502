"""Which editors there are.

A plain `pytest` collects only what needs no editor: `python -m tests.editors`, which is `make e2e`, fetches them first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.editors.editor import Editor, Scene, until
from tests.editors.emacs import Emacs
from tests.editors.installed import PROGRAMS
from tests.editors.neovim import Neovim
from tests.editors.vscode import VSCode

collect_ignore_glob = [] if "MIDFILL_TEST_EDITORS" in os.environ else ["test_[!m]*.py"]


def start(name: str, scene: Scene, **more: Any) -> Editor:
    """A new process of the editor `name`."""
    kinds: dict[str, Callable[..., Editor]] = {"neovim": Neovim, "emacs": Emacs, "vscode": VSCode}
    return kinds[name.partition("-")[0]](PROGRAMS[name](), scene, **more)


@pytest.fixture(scope="module", params=list(PROGRAMS))
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Editor, Scene]]:
    """One process of each editor for a module, in a workspace of its own."""
    scene = Scene(tmp_path_factory.mktemp(request.param))
    editor = start(request.param, scene)
    editor.open(scene.file("", "first.py"))
    until(lambda: "ready" in editor.status(), "the server", wait_s=200)
    yield editor, scene
    editor.quit()


@pytest.fixture(params=list(PROGRAMS))
def name(request: pytest.FixtureRequest) -> str:
    """For tests that start editors of their own."""
    return str(request.param)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)
