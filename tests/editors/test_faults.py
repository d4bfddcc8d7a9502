"""A server that is missing, hangs, dies or has no model: the editor goes on, and the user is told once what to do."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil

from tests.editors.conftest import start
from tests.editors.editor import Editor, Scene, until


def _is_usable(editor: Editor, scene: Scene, name: str) -> None:
    """Typing, the accept key and saving do what they do without a client."""
    path = scene.file("\n", name)
    editor.open(path)
    editor.place(0, 0)
    editor.type("value")
    editor.press("accept")
    editor.type("x")
    text = editor.text().rstrip("\n")
    assert text.split() in (["value", "x"], ["valuex"])  # the key is a blank, or an indentation that is there already
    editor.save()
    assert path.read_text() == text + "\n"


def _told(editor: Editor, *words: str) -> list[str]:
    return [sentence for sentence in editor.messages() if all(word in sentence for word in words)]


def test_missing(name: str, scene: Scene) -> None:
    scene.server = ("/nowhere/midfill", "lsp")
    editor = start(name, scene)
    try:
        _is_usable(editor, scene, "one.py")
        _is_usable(editor, scene, "two.py")
        assert len(_told(editor, "/nowhere/midfill", "install")) == 1
        assert len(editor.messages()) == 1
    finally:
        editor.quit()


def test_no_model(name: str, tmp_path: Path) -> None:
    lacking = 'model = "qwen2.5-coder-14b"\nmodels_dir = "/nowhere"\n'
    scene = Scene(tmp_path, settings=lacking)
    scene.server = (scene.midfill(), "lsp")
    editor = start(name, scene)
    try:
        _is_usable(editor, scene, "one.py")
        until(lambda: _told(editor, "qwen2.5-coder-14b"), "what is missing")
        _is_usable(editor, scene, "two.py")
        assert len(_told(editor, "qwen2.5-coder-14b", "midfill models pull")) == 1
        assert len(editor.messages()) == 1
        until(lambda: "error" in editor.status(), "the state")
    finally:
        editor.quit()


def test_hangs_then_dies_then_is_restarted_then_ends(name: str, scene: Scene) -> None:
    scene.say("number = 12")
    editor = start(name, scene, patience_s=1)
    try:
        editor.open(scene.file("\n", "zero.py"))
        until(lambda: "ready" in editor.status(), "the server", wait_s=200)
        process = scene.heard("start")[-1]["pid"]
        scene.say("number = 12", hangs=True)
        _is_usable(editor, scene, "one.py")
        editor.place(0, 0)
        editor.type("number")
        until(lambda: _told(editor, "has not answered"), "that it hangs")
        _is_usable(editor, scene, "two.py")
        os.kill(process, signal.SIGKILL)
        scene.say("number = 12")
        until(lambda: _told(editor, "has ended"), "that it has died")
        _is_usable(editor, scene, "three.py")
        assert len(_told(editor, "has not answered", "estart")) == 1
        assert len(_told(editor, "has ended", "again")) == 1
        editor.command("restart")
        until(lambda: len(scene.heard("start")) > 1, "another server")
        until(lambda: "ready" in editor.status(), "the server", wait_s=200)
        editor.open(scene.file("\n", "four.py"))
        until(lambda: any(one["uri"].endswith("four.py") for one in scene.heard("open")), "the file")
        editor.place(0, 0)
        editor.type("num")
        until(lambda: editor.ghost() == "ber = 12", "the ghost")
    finally:
        editor.quit()
    left = [one["pid"] for one in scene.heard("start")]
    until(lambda: not any(map(psutil.pid_exists, left)), "the end of the servers")
