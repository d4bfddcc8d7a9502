"""The public reports of the kinds that people see in their editor, as each editor shows them: `item-range`,
`suffix-duplication`, `indent`, `trigger`, `process-exit`. Texts, cursors and what the model says are those of the reports.

`process-exit-02` is of a client that closes one pipe and lives on, which none of these editors can be brought to do.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from tests.cases.case import BUNDLED, Case, load
from tests.editors.conftest import start
from tests.editors.editor import ASKED_AT_ONCE, Editor, Scene, until
from tests.editors.installed import PROGRAMS
from tests.editors.test_behaviours import Desk

CASES: dict[str, Case] = {case.id: case for case in load(BUNDLED)}
DOCUMENTS = [
    name for name, case in CASES.items()
    if case.kind in ("item-range", "suffix-duplication", "indent") and "document" in case.input
]  # fmt: skip


@pytest.fixture(scope="module", params=list(PROGRAMS))
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Editor, Scene]]:
    scene = Scene(tmp_path_factory.mktemp(request.param), asked=ASKED_AT_ONCE.replace('after_delete = "on"', ""))
    editor = start(request.param, scene)
    editor.open(scene.file("", "first.py"))
    until(lambda: "ready" in editor.status(), "the server", wait_s=200)
    yield editor, scene
    editor.quit()


@pytest.fixture
def desk(running: tuple[Editor, Scene]) -> Desk:
    running[1].say()
    return Desk(*running)


def _split(text: str, cursor: Any) -> tuple[str, str]:
    lines = text.split("\n")
    before = "\n".join([*lines[: cursor["line"]], lines[cursor["line"]][: cursor["character"]]])
    return before, text[len(before) :]


@pytest.mark.parametrize("case_id", DOCUMENTS)
def test_reported(desk: Desk, case_id: str) -> None:
    case = CASES[case_id]
    document, expected = case.input["document"], case.expected
    before, behind = _split(document["text"], document["cursor"])
    desk.scene.say(before + case.input["model"]["outputs"][0])
    kind = document["uri"].rpartition(".")[2]
    path = desk.open(f"{before}$0{behind}", "report{}." + kind)
    until(lambda: "ready" in desk.editor.status(), "the server", wait_s=200)  # Emacs has one for each kind of file
    n_found = len(desk.scene.heard("found"))
    desk.editor.press("trigger")
    found = until(lambda: desk.scene.heard("found")[n_found:], "the answer")[-1]
    if expected.get("items_empty"):
        assert found["texts"] == []
        desk.shows_nothing()
        return
    until(desk.editor.ghost, "the ghost")
    desk.editor.press("accept")
    desk.shows_nothing()
    desk.editor.save()
    assert path.read_text() == expected["document_after_accept"]


def test_the_first_character_is_typed_and_it_is_accepted_at_once(desk: Desk) -> None:
    """item-range-01"""
    desk.scene.say("catalog()")
    desk.open("$0\n")
    desk.editor.type("cat")
    desk.shows("alog()")
    desk.editor.type("a", then="accept")
    desk.holds("catalog()$0\n")


def test_the_line_is_gone_when_the_answer_comes(desk: Desk) -> None:
    """item-range-02"""
    desk.scene.say("last = 1", slow_column=4)
    desk.open("a\n$0\n")
    n_answers = len(desk.scene.heard("answer"))
    desk.editor.type("last")
    desk.wait_last("found", column=4)
    desk.editor.type("\b" * 5 if not _is_emacs(desk) else "\x7f" * 5)
    desk.scene.say("last = 1")
    until(lambda: any(one["column"] == 4 for one in desk.scene.heard("answer")[n_answers:]), "the late answer")
    desk.editor.type("b")
    desk.shows_nothing()
    assert not [said for said in desk.editor.messages() if "midfill" in said.lower()]
    desk.holds("ab$0\n")


def test_deleting_asks_no_model(desk: Desk) -> None:
    """trigger-01"""
    desk.scene.say("deleted = 2000")  # nothing at the place where an editor may ask before a key is pressed
    desk.open("deleted = 10$0\n")
    desk.editor.type("\x7f\x7f" if _is_emacs(desk) else "\b\b")
    desk.wait_last("answer", column=10)
    assert not desk.is_asked("deleted = 1") and not desk.is_asked("deleted = ")
    desk.editor.press("trigger")  # by hand it is asked
    until(lambda: desk.is_asked("deleted = "), "a generation")


@pytest.mark.parametrize(
    ("content", "says", "ghost"),
    [
        ("# sort a list in place$0", "# sort a list in place\nxs.sort()", "xs.sort()"),
        ("def f():\n    return 1\n$0\n", "\n\nguess()", ""),
        ("def f():$0\n", "def f():\n    return 1", "return 1"),
    ],
)
def test_on_a_blank_line(desk: Desk, content: str, says: str, ghost: str) -> None:
    """trigger-02"""
    desk.scene.say(says)
    desk.open(content)
    n_answers = len(desk.scene.heard("answer"))
    desk.editor.type("\n")
    if ghost:
        desk.shows(ghost)
        return
    line = content.partition("$0")[0].count("\n") + 1
    until(lambda: any(one["line"] == line for one in desk.scene.heard("answer")[n_answers:]), "an answer")
    assert not desk.is_asked(content.partition("$0")[0] + "\n")
    desk.shows_nothing()


def test_an_editor_that_is_killed_leaves_no_server(name: str, scene: Scene) -> None:
    """process-exit-01"""
    scene.say("number = 12", slow_column=3)
    editor = start(name, scene)
    try:
        editor.open(scene.file("\n"))
        until(lambda: "ready" in editor.status(), "the server", wait_s=200)
        editor.place(0, 0)
        editor.type("num")
        until(lambda: any(one["column"] == 3 for one in scene.heard("found")), "a generation")
        server = scene.heard("start")[-1]["pid"]
        os.kill(psutil.Process(server).ppid(), signal.SIGKILL)
        until(lambda: not psutil.pid_exists(server), "the server's end")
    finally:
        editor.quit()


def _is_emacs(desk: Desk) -> bool:
    return type(desk.editor).__name__ == "Emacs"
