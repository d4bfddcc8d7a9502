"""Helix has no ghost text: with the settings of editors/helix.md the suggestion stands in its completion menu."""

from __future__ import annotations

import re

from tests.editors.editor import ROOT, Scene, until
from tests.editors.installed import helix
from tests.editors.terminal import Terminal


def test_taken_from_the_menu(scene: Scene) -> None:
    scene.say("value = 12")
    page = (ROOT / "editors/helix.md").read_text()
    settings = re.search(r"```toml\n(.*?)```", page, re.S)
    assert settings is not None
    words = ", ".join(f'"{word}"' for word in scene.server[1:])
    languages = re.sub(
        r"^command = .*\n^args = .*$", f'command = "{scene.server[0]}"\nargs = [{words}]', settings[1], flags=re.M
    )
    folder = scene.folder / "home/helix"
    folder.mkdir()
    (folder / "languages.toml").write_text(languages)
    program = helix("trixie")
    path = scene.file("\n")
    terminal = Terminal(
        [*program.command, str(path)], scene.environ(**program.environment, TERM="xterm-256color"), scene.workspace
    )
    try:
        until(lambda: scene.heard("open"), "didOpen")
        assert scene.heard("open")[0]["language"] == "python"
        terminal.send("i")
        terminal.send("val")
        until(lambda: b"value = 12" in terminal.screen, "the entry")
        terminal.send("\t\r")
        shown = len(terminal.screen)
        terminal.send("\x1b")  # alone, or it would be a part of the next key
        until(lambda: b"NOR" in terminal.screen[shown:], "normal mode")
        terminal.send(":w\r")
        until(lambda: path.read_text() != "\n", "the file")
        assert path.read_text() == "value = 12\n"
    finally:
        terminal.send(":q!\r")
        terminal.close()
