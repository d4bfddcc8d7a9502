"""What every client does, in every editor: typed, shown, taken, saved; with a scripted model, so that each text is exact.

A file is written with `$0` where the cursor is put. What the model says behind a text is the same in all tests, since the
engine remembers it. Whatever was accepted, the file on disk is compared byte by byte.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.editors.editor import Editor, Scene, until

_numbers = count(1)


class Desk:
    """An editor with a fresh file in it."""

    def __init__(self, editor: Editor, scene: Scene) -> None:
        self.editor, self.scene = editor, scene
        self.path = Path()

    def open(self, content: str, name: str = "file{}.py") -> Path:
        """content: with `$0`, and with the line ends that the file has."""
        before, _, after = content.partition("$0")
        self.path = self.scene.file(before + after, name.format(next(_numbers)))
        self.editor.open(self.path)
        self.wait_heard("open", self.path)
        line = before.count("\n")
        self.editor.place(line, len(before.rpartition("\n")[2]))
        return self.path

    def wait_heard(self, event: str, path: Path) -> None:
        def was_heard() -> bool:
            return any(unquote(one["uri"]).endswith(f"/{path.name}") for one in self.scene.heard(event))

        until(was_heard, f"{event} of {path.name}")

    def wait_last(self, event: str, **wanted: int) -> None:
        """The server's last event of that name has these values."""
        until(lambda: any(wanted.items() <= one.items() for one in self.scene.heard(event)[-1:]), f"{event} {wanted}")

    def is_asked(self, before: str) -> bool:
        """The model was asked to go on behind this text."""
        return any(one["before"].endswith(before) for one in self.scene.heard("generation"))

    def shows(self, ghost: str) -> None:
        try:
            until(lambda: self.editor.ghost() == self.editor.as_shown(ghost), "it")
        except AssertionError:
            raise AssertionError(f"{self.editor.ghost()!r} is shown instead of {ghost!r}") from None

    def shows_rest(self, ghost: str) -> None:
        """What is left after a line was taken; whether the line's end was taken with it is the editor's way."""

        def is_shown() -> bool:
            shown = self.editor.ghost().removeprefix("\n")
            return shown == self.editor.as_shown(ghost)

        until(is_shown, f"the ghost {ghost!r}")

    def take_words(self, rest: str) -> None:
        """Word by word until `rest` is left; what a word is, is the editor's way."""
        while (shown := self.editor.ghost()) != rest:
            assert shown.endswith(rest) and shown != "", shown
            self.editor.press("word")
            self._wait_other(shown)

    def _wait_other(self, shown: str) -> None:
        until(lambda: self.editor.ghost() not in ("", shown), "the rest")

    def shows_nothing(self) -> None:
        assert self.editor.ghost() == ""

    def holds(self, content: str) -> None:
        """The editor's text, the cursor if `$0` is in it, and after saving the file on disk."""
        before, mark, after = content.partition("$0")
        assert self.editor.text().rstrip("\n") == (before + after).replace("\r\n", "\n").rstrip("\n")
        if mark:
            assert self.editor.cursor() == (before.count("\n"), len(before.rpartition("\n")[2]))
        self.editor.save()
        assert self.path.read_bytes().decode() == before + after

    @property
    def n_accepted(self) -> int:
        return len(self.scene.heard("accepted"))


@pytest.fixture
def desk(running: tuple[Editor, Scene]) -> Desk:
    running[1].say()
    return Desk(*running)


def test_typed_shown_accepted_saved(desk: Desk) -> None:
    desk.scene.say("    return a + b")
    desk.open("def add(a, b):\n    $0\n")
    told = desk.n_accepted
    desk.editor.type("re")
    desk.shows("turn a + b")
    desk.editor.press("accept")
    desk.shows_nothing()
    until(lambda: desk.n_accepted == told + 1, "midfill.accepted")
    assert isinstance(desk.scene.heard("accepted")[-1]["arguments"][0], int)
    desk.holds("def add(a, b):\n    return a + b$0\n")


def test_word_by_word(desk: Desk) -> None:
    desk.scene.say("total = first_one(x) + 1")
    desk.open("$0\n")
    told = desk.n_accepted
    desk.editor.type("to")
    desk.shows("tal = first_one(x) + 1")
    desk.editor.press("word")
    desk.shows(" = first_one(x) + 1")
    assert desk.editor.text().rstrip("\n") == "total"
    desk.take_words("(x) + 1")
    assert desk.n_accepted == told  # not all of it
    desk.editor.press("accept")
    until(lambda: desk.n_accepted == told + 1, "midfill.accepted")
    desk.holds("total = first_one(x) + 1$0\n")


def test_line_by_line(desk: Desk) -> None:
    desk.scene.say("def twice(x):\n    y = x * 2\n    return y")
    desk.open("$0\n")
    desk.editor.type("de")
    # a line with something before the cursor is completed by one line
    desk.shows("f twice(x):")
    desk.editor.press("line")
    desk.holds("def twice(x):$0\n")


def test_several_lines(desk: Desk) -> None:
    desk.scene.say("# of three lines\none = 1\n\ttwo = 2\nthree = 3")
    desk.open("# of three lines\n$0\nend()\n")
    desk.editor.place(1, 0)
    desk.editor.press("trigger")
    desk.shows("one = 1\n\ttwo = 2\nthree = 3")
    desk.editor.press("line")
    desk.shows_rest("\ttwo = 2\nthree = 3")
    desk.editor.press("line")
    desk.shows_rest("three = 3")
    desk.editor.press("accept")
    desk.holds("# of three lines\none = 1\n\ttwo = 2\nthree = 3$0\nend()\n")


def test_typed_through(desk: Desk) -> None:
    desk.scene.say("    return a + b")
    desk.open("def add(a, b):\n    $0\n")
    desk.editor.type("re")
    desk.shows("turn a + b")
    desk.editor.type("tur")
    assert desk.editor.ghost() == "n a + b"  # at once, without an answer
    desk.editor.type("n a")
    assert desk.editor.ghost() == " + b"
    desk.editor.press("accept")
    desk.holds("def add(a, b):\n    return a + b$0\n")


def test_something_else_is_typed(desk: Desk) -> None:
    desk.scene.say("value = 12")
    desk.open("$0\n")
    desk.editor.type("val")
    desk.shows("ue = 12")
    desk.editor.type("x")
    desk.shows_nothing()
    desk.holds("valx$0\n")


def test_dismissed(desk: Desk) -> None:
    desk.scene.say("value = 12")
    desk.open("$0\n")
    desk.editor.type("val")
    desk.shows("ue = 12")
    desk.editor.press("dismiss")
    desk.shows_nothing()
    assert desk.editor.text().rstrip("\n") == "val"
    desk.editor.type("u")
    desk.shows("e = 12")
    desk.editor.press("accept")
    desk.holds("value = 12$0\n")


def test_undone(desk: Desk) -> None:
    desk.scene.say("value = 12")
    desk.open("$0\n")
    desk.editor.type("val")
    desk.shows("ue = 12")
    desk.editor.press("accept")
    assert desk.editor.text().rstrip("\n") == "value = 12"
    desk.editor.press("undo")
    desk.holds("val\n")


def test_edited_elsewhere(desk: Desk) -> None:
    desk.scene.say("value = 12")
    desk.open("$0\nother\n")
    desk.editor.type("val")
    desk.shows("ue = 12")
    desk.editor.place(1, 5)
    desk.editor.type("!")
    desk.shows_nothing()
    desk.holds("val\nother!$0\n")


def test_files_are_switched(desk: Desk) -> None:
    desk.scene.say("value = 12", "number = 3")
    first = desk.open("$0\n")
    desk.editor.type("val")
    desk.shows("ue = 12")
    second = desk.open("$0\n")
    desk.shows_nothing()
    desk.editor.type("num")
    desk.shows("ber = 3")
    desk.editor.press("accept")
    desk.holds("number = 3$0\n")
    desk.editor.open(first)
    desk.path = first
    desk.editor.place(0, 3)
    desk.editor.type("u")
    desk.shows("e = 12")
    desk.editor.press("accept")
    desk.holds("value = 12$0\n")
    assert second.read_text() == "number = 3\n"


def test_closed(desk: Desk) -> None:
    desk.scene.say("value = 12")
    path = desk.open("$0\n")
    desk.editor.type("val")
    desk.shows("ue = 12")
    desk.editor.close(path)
    desk.wait_heard("close", path)
    desk.shows_nothing()
    assert path.read_text() == "\n"
    desk.open("$0\n")
    desk.editor.type("valu")
    desk.shows("e = 12")


def test_pairs_of_utf16_before_the_cursor(desk: Desk) -> None:
    desk.scene.say('# 😀😀 é = "🦊 ok"')
    desk.open("é😀 = 1  $0\n")
    desk.editor.type("# 😀😀 é = ")
    desk.shows('"🦊 ok"')
    desk.editor.press("accept")
    desk.holds('é😀 = 1  # 😀😀 é = "🦊 ok"$0\n')


def test_crlf(desk: Desk) -> None:
    desk.scene.say("# two lines\none = 1\ntwo = 2")
    desk.open("# two lines\r\n$0\r\nend()\r\n")
    desk.editor.place(1, 0)
    desk.editor.press("trigger")
    desk.shows("one = 1\ntwo = 2")
    desk.editor.press("accept")
    desk.holds("# two lines\r\none = 1\r\ntwo = 2\r\nend()\r\n")


def test_tabs(desk: Desk) -> None:
    desk.scene.say("\tif a:\tb = 2")
    desk.open("def f():\n\t$0\n")
    desk.editor.type("if")
    desk.shows(" a:\tb = 2")
    desk.editor.press("accept")
    desk.holds("def f():\n\tif a:\tb = 2$0\n")


def test_text_behind_the_cursor(desk: Desk) -> None:
    desk.scene.say("call(first, second")
    desk.open("call($0, third) + 1\n")
    desk.editor.type("fi")
    desk.shows("rst, second")
    desk.editor.press("accept")
    desk.holds("call(first, second$0, third) + 1\n")


def test_inside_a_word(desk: Desk) -> None:
    desk.scene.say("read_line")
    desk.open("re$0_all()\n")
    desk.editor.type("ad")
    desk.shows("_line")
    desk.editor.press("accept")
    desk.holds("read_line$0_all()\n")


def test_the_tail_is_not_doubled(desk: Desk) -> None:
    desk.scene.say("print(value)")
    desk.open("$0\n")
    desk.editor.bracket_pairs()
    desk.editor.type("print(")
    assert desk.editor.text().rstrip("\n") == "print()"
    desk.editor.type("va")
    desk.shows("lue")
    desk.editor.press("accept")
    desk.holds("print(value)$0\n")


def test_a_bracket_is_closed_by_the_editor_while_one_types_through(desk: Desk) -> None:
    desk.scene.say("print(value)")
    desk.open("$0\n")
    desk.editor.bracket_pairs()
    desk.editor.type("pri")
    desk.shows("nt(value)")
    desk.editor.type("nt(", then="accept")  # what is shown was made for a line without the closer
    text = desk.editor.text().rstrip("\n")
    assert text == "print(value)" or text.expandtabs(1).replace(" ", "") == "print()", text  # the key's own, if it was too late
    desk.editor.save()
    assert desk.path.read_text() == text + "\n"


def test_typed_on_just_before_accepting(desk: Desk) -> None:
    desk.scene.say("    return a + b")
    desk.open("def add(a, b):\n    $0\n")
    desk.editor.type("re")
    desk.shows("turn a + b")
    desk.editor.type("tu", then="accept")
    desk.holds("def add(a, b):\n    return a + b$0\n")


def test_deleted_just_before_accepting(desk: Desk) -> None:
    desk.scene.say("value = 12", least=3)
    desk.open("$0\n")
    desk.editor.type("valu")
    desk.shows("e = 12")
    desk.editor.type("\x7f" if type(desk.editor).__name__ == "Emacs" else "\x08", then="accept")
    desk.holds("value = 12\n")


def test_indented_by_the_editor(desk: Desk) -> None:
    desk.scene.say("def f():\n    return 1")
    desk.open("$0\n")
    desk.editor.type("def f():\n")
    desk.shows("return 1")
    desk.editor.press("accept")
    desk.holds("def f():\n    return 1$0\n")


def test_a_late_answer_to_an_older_text(desk: Desk) -> None:
    desk.scene.say("colony = 7", "column = 12", slow_column=3)
    desk.open("$0\n")
    n_answers = len(desk.scene.heard("answer"))
    desk.editor.type("col")
    desk.wait_last("found", column=3)
    desk.editor.type("u")
    desk.shows("mn = 12")
    desk.scene.say("colony = 7", "column = 12")  # now the first one is answered, unless it was cancelled
    until(lambda: any(one["column"] == 3 for one in desk.scene.heard("answer")[n_answers:]), "the late answer")
    time.sleep(0.3)  # it has come, or never does
    assert desk.editor.ghost() == "mn = 12"
    desk.editor.press("accept")
    desk.holds("column = 12$0\n")


def test_candidates(desk: Desk) -> None:
    desk.scene.say("value = 12", others={"value = 12": ["value = 34", "value = 56"]})
    desk.open("$0\n")
    desk.editor.type("val")
    desk.shows("ue = 12")
    desk.editor.press("trigger")
    desk.wait_last("request", kind=1)
    desk.shows("ue = 12")

    def cycled(action: str, ghost: str) -> Callable[[], bool]:
        def is_there() -> bool:
            desk.editor.press(action)  # type: ignore[arg-type]
            return desk.editor.ghost() == ghost

        return is_there

    until(cycled("next", "ue = 34"), "the second")
    desk.editor.press("next")
    desk.shows("ue = 56")
    desk.editor.press("next")
    desk.shows("ue = 12")
    desk.editor.press("previous")
    desk.shows("ue = 56")
    desk.editor.press("accept")
    desk.holds("value = 56$0\n")


def test_the_key_does_what_it_did_where_nothing_is_shown(desk: Desk) -> None:
    desk.open("$0\n", "notes{}.txt")
    desk.editor.type("a")
    desk.editor.press("accept")
    desk.editor.type("b")
    assert desk.editor.text().rstrip("\n").replace("\t", "").replace(" ", "") == "ab"
    assert len(desk.editor.text().rstrip("\n")) > 2


def test_the_state_is_shown(desk: Desk) -> None:
    desk.scene.say("value = 12")
    desk.open("$0\n")
    desk.editor.type("val")
    desk.shows("ue = 12")
    until(lambda: "ready" in desk.editor.status(), "the state")
    assert desk.editor.messages() == []


def test_paused_and_resumed(desk: Desk) -> None:
    desk.scene.say("value = 12")
    path = desk.open("$0\n")
    desk.editor.command("pause")
    until(lambda: "paused" in desk.editor.status(), "the pause")
    desk.editor.place(0, 0)
    asked = len(desk.scene.heard("request"))
    desk.editor.type("val")
    until(lambda: len(desk.scene.heard("request")) > asked, "a request")
    desk.shows_nothing()
    desk.editor.command("resume")
    until(lambda: "ready" in desk.editor.status(), "the end of the pause")
    desk.editor.place(0, 3)
    desk.editor.type("u")
    desk.shows("e = 12")
    assert path.read_text() == "\n"


def test_explained(desk: Desk) -> None:
    desk.scene.say("value = 12")
    path = desk.open("$0\n")
    desk.editor.type("val")
    desk.shows("ue = 12")
    desk.editor.command("explain")
    until(lambda: path.name in desk.editor.beside(), "the page")
    desk.editor.open(path)
