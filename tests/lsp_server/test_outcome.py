"""What became of what was offered: told exactly, and read off what real editors sent (`recordings/`, made by
`python -m tests.editors.recording`)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context.text import Edit, Text
from lsp_server.asking.reluctance import Kind, Reluctance
from lsp_server.convert import offset_of
from lsp_server.learning.feedback import read
from lsp_server.learning.outcome import Fate, Following, Outcome, Said
from lsp_server.learning.outcomes import Outcomes
from lsp_server.types import Item
from tests.lsp_server.test_results import Typist
from tests.lsp_server.test_session import virtual

KIND = Kind("python", "line", "a line's end")
RECORDINGS = sorted((Path(__file__).parent / "recordings").glob("*.json"))


class Writer:
    """A document, and what the state machine says of the offers in it."""

    def __init__(self, before: str, after: str = "\n") -> None:
        self.text, self.cursor, self.now = Text.of(before + after), len(before.encode()), 0.0
        self.told: list[Outcome] = []
        self.following = Following(self._tell)

    def _tell(self, outcome: Outcome, corrects: Outcome | None) -> None:
        if corrects is not None:
            self.told.remove(corrects)
        self.told.append(outcome)

    def offer(self, rest: str, n_behind: int = 0, request_id: int = 1) -> None:
        start = self.text.line_start(self.text.line_of(self.cursor))
        item = Item(start, self.cursor + n_behind, self.text.slice(start, self.cursor).decode() + rest)
        self.following.offered(request_id, item, self.text, self.cursor, KIND, self.now)

    def edit(self, start: int, end: int, new: str) -> bool:
        edits = (Edit(start, end, new.encode()),)
        taken = self.following.edited(self.text, edits, self.now)
        self.text, self.cursor = self.text.edit(start, end, new.encode()), start + len(new.encode())
        return taken

    def type(self, keys: str, wait_s: float = 0.2) -> None:
        for key in keys:
            self.now += wait_s
            self.edit(self.cursor, self.cursor, key)

    @property
    def fate(self) -> tuple[str, int, int]:
        (told,) = self.told
        return told.fate.value, told.n_accepted, told.n_typed


def test_whole_words_typed_and_something_else() -> None:
    w = Writer("to")
    w.offer("tal = 1")
    assert w.edit(w.cursor, w.cursor, "tal = 1") and w.fate == ("whole", 7, 0)

    w = Writer("to")
    w.offer("tal = 1")
    assert w.edit(w.cursor, w.cursor, "tal") and not w.told
    w.offer(" = 1", request_id=2)
    assert w.edit(w.cursor, w.cursor, " =")
    w.type("9")
    assert w.fate == ("partly", 5, 0) and w.told[0].n_offered == 7 and w.told[0].request_id == 2

    w = Writer("to")
    w.offer("tal = 1")
    w.type("tal = 1")
    assert w.fate == ("typed", 0, 7)

    w = Writer("to")
    w.offer("tal = 1")
    w.type("ta")
    w.edit(w.cursor, w.cursor, "l = 1")
    assert w.fate == ("whole", 5, 2)

    w = Writer("to")
    w.offer("tal = 1")
    w.type("tX")
    assert w.fate == ("diverged", 0, 1)
    assert w.told[0].seen_s == pytest.approx(0.4)


def test_the_whole_line_told_again_and_closers_behind() -> None:
    w = Writer("call(", ")\n")
    w.offer("a, b)", n_behind=1)
    w.edit(0, 6, "call(a, b)")  # as some editors send it
    assert w.fate == ("whole", 5, 0)
    w = Writer("f", "\n")
    w.offer("oo(bar)")
    w.type("oo")
    w.edit(w.cursor, w.cursor, "()")  # the editor closes it
    w.cursor -= 1
    w.type("bar")
    assert w.fate == ("typed", 0, 7)


def test_deleted_soon_or_kept() -> None:
    w = Writer("to")
    w.offer("tal = 1")
    w.edit(w.cursor, w.cursor, "tal = 1")
    w.now = 9.0
    w.edit(2, 9, "")
    assert w.told[0].deleted
    w.now = 31.0
    w.following.passed(w.now)
    assert w.told[0].n_kept == 0

    w = Writer("to")
    w.offer("tal = 1")
    w.edit(w.cursor, w.cursor, "tal = 1")
    w.edit(0, 0, "# é\n")
    w.edit(w.text.line_start(1) + 2, w.text.line_start(1) + 4, "xyz")  # two of its characters are others now
    w.now = 30.0
    w.following.passed(w.now)
    (told,) = w.told
    assert (told.n_kept, told.deleted) == (5, False) and not w.following.is_open


def test_elsewhere_back_again_and_another_answer() -> None:
    w = Writer("a\nto", "\nb\n")
    w.offer("tal")
    w.edit(0, 0, "x")  # above
    assert not w.told
    w.edit(len(w.text) - 1, len(w.text) - 1, "x")
    assert w.fate == ("ignored", 0, 0)

    w = Writer("to")
    w.offer("tal")
    w.type("t")
    w.edit(2, 3, "")
    assert not w.told, "typed back to where it was offered"
    w.edit(1, 2, "")
    assert w.fate == ("ignored", 0, 0)

    w = Writer("to")
    w.offer("ta")
    w.offer("tal = 1")  # more of the same
    assert not w.told
    w.offer("p")
    assert w.fate == ("replaced", 0, 0)

    w = Writer("to", "\n\nx\n")
    w.offer("tal")
    w.following.asked(len(w.text) - 1, 1.0)
    assert w.fate == ("ignored", 0, 0)


def test_a_client_only_confirms() -> None:
    w = Writer("tota")
    w.offer("l")
    w.edit(w.cursor, w.cursor, "l")
    assert w.fate == ("typed", 0, 1)
    w.following.confirmed(1, Said.ACCEPTED, w.now)
    assert w.fate == ("whole", 1, 0)
    w = Writer("to")
    w.offer("tal", request_id=7)
    w.following.confirmed(6, Said.DISMISSED, w.now)
    assert not w.told
    w.following.confirmed(7, Said.DISMISSED, w.now)
    assert w.fate == ("dismissed", 0, 0)
    w = Writer("to")
    w.offer("t = 1")
    w.edit(w.cursor, w.cursor, "t")
    w.following.confirmed(1, Said.PARTLY, w.now)
    w.following.closed(w.now)
    assert w.fate == ("partly", 1, 0)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3), st.sampled_from(["", "t", "tal", "é", "\n", "x y"])), max_size=12)
)
def test_any_edits_end_in_one_fate_and_what_is_kept_stands_there(edits: list[tuple[int, int, str]]) -> None:
    w = Writer("to", " é\nx\n")
    w.offer("tal é")
    for at, n, new in edits:
        start = w.text.floor(min(at, len(w.text)))
        w.now += 1
        w.edit(start, w.text.floor(min(start + n, len(w.text))), new)
    w.following.closed(w.now)
    (told,) = w.told
    assert 0 <= told.n_accepted + told.n_typed <= told.n_offered == 5
    assert told.is_taken or not told.n_accepted
    assert told.n_kept is None or told.n_kept <= 5


def test_they_are_counted_by_language_and_shape_and_teach_when_to_wait() -> None:
    told = Reluctance()
    outcomes = Outcomes(lambda: 0.0, told)
    whole = Outcome(1, KIND, Fate.WHOLE, 9, 9, 0, 1.0)
    outcomes.tell(whole, None)
    kept = Outcome(1, KIND, Fate.WHOLE, 9, 9, 0, 1.0, n_kept=7)
    outcomes.tell(kept, whole)
    assert outcomes.counts() == {
        "python": {"line": {
            "whole": 1, "characters_offered": 9, "characters_accepted": 9, "followed": 1, "characters_kept": 7,
            "characters_of_them": 9,
        }}
    }  # fmt: skip
    assert told.extra_ms(KIND, 0.0, 1000) == 0
    waits = []
    for fate, seen_s, deleted in (
        (Fate.IGNORED, 9.0, False), (Fate.DIVERGED, 0.1, False), (Fate.DIVERGED, 0.3, False), (Fate.DIVERGED, 1.0, False),
        (Fate.DISMISSED, 1.0, False), (Fate.WHOLE, 1.0, True),
    ):  # fmt: skip
        outcomes.tell(Outcome(2, KIND, fate, 9, 0, 0, seen_s, deleted), None)
        waits.append(told.extra_ms(KIND, 0.0, 10_000))
    assert waits[:2] == [0, 0] and waits[2:] == sorted(set(waits[2:])) and waits[2] > 0
    outcomes.tell(whole, None)
    assert told.extra_ms(KIND, 0.0, 1000) == 0


# --- what editors send


def replay(stream: dict[str, Any]) -> list[Outcome]:
    """The outcomes of a recorded stream, and of its time afterwards."""
    told: list[Outcome] = []

    def tell(outcome: Outcome, corrects: Outcome | None) -> None:
        if corrects is None:
            told.append(outcome)
        else:
            told[told.index(corrects)] = outcome

    following, text, now = Following(tell), Text.of(stream["text"]), 0.0
    for event in stream["events"]:
        now = event["t"]
        if "changes" in event:
            edits = []
            before = text
            for change in event["changes"]:
                if change["range"] is None:
                    edit = Edit(0, len(text), change["text"].encode())
                else:
                    first, a, last, b = change["range"]
                    start, end = (offset_of(text, line, column, event["encoding"]) for line, column in ((first, a), (last, b)))
                    edit = Edit(start, end, change["text"].encode())
                edits.append(edit)
                text = text.edit(edit.start, edit.end, edit.new)
            following.edited(before, tuple(edits), now)
        elif "asked" in event:
            cursor = offset_of(text, *event["asked"], event["encoding"])
            following.asked(cursor, now)
            for item in event["items"][:1]:
                line, a, last, b = item["range"]
                start, end = (offset_of(text, line, column, event["encoding"]) for column in (a, b))
                if start <= cursor <= end:
                    following.offered(item["id"], Item(start, end, item["text"]), text, cursor, KIND, now)
        else:
            following.confirmed(event["accepted"], Said.ACCEPTED, now)
    following.passed(now + 31)
    following.closed(now + 31)
    return told


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
def test_what_was_done_in_an_editor_is_inferred_from_what_it_sent(recording: Path) -> None:
    streams = json.loads(recording.read_text())
    assert len(streams) >= 10
    wrong = []
    for stream in streams:
        wanted, told = stream["wanted"], replay(stream)
        first = told[0] if told else None
        got = first and {"fate": first.fate.value, "n_accepted": first.n_accepted, "deleted": first.deleted}
        if wanted["n_accepted"] is None and got:
            got["n_accepted"] = None
        if got != wanted:
            wrong.append(f"{stream['deed']}: {got} instead of {wanted}")
    assert not wrong, "\n".join(wrong)


def test_there_are_recordings_of_each_editor() -> None:
    assert {path.stem.split("-")[0] for path in RECORDINGS} >= {"neovim", "emacs", "vscode"}


# --- in the server


@virtual
async def test_the_server_counts_them_and_knows_what_was_accepted() -> None:
    b = Typist("x = ", script="total + value\n", background="off")
    assert (await b.ask()).items
    await asyncio.sleep(1)
    b.edit(b.cursor, b.cursor, b"total ")
    assert b.completer._session("file:///a.py")._last_edit.is_accepted  # type: ignore[union-attr]
    b.cursor = len("x = total ")
    await b.ask()
    await asyncio.sleep(1)
    b.type("9")
    b.type("9")
    await b.ask()
    figures = b.completer.counts()["outcomes"]["python"]["line"]  # type: ignore[index]
    assert figures["partly"] == 1 and figures["characters_accepted"] == 6
    assert "whole" not in figures
    await asyncio.sleep(31)
    assert b.completer.counts()["outcomes"]["python"]["line"]["characters_kept"] == 6  # type: ignore[index]


@virtual
async def test_a_dismissal_is_told_by_the_client_and_makes_the_next_one_wait() -> None:
    b = Typist("x = ", script="total\n", back_off_ms=1000)
    first = await b.ask()
    b.completer.told(first.request_id, Said.SHOWN)
    b.completer.told(first.request_id, Said.DISMISSED)
    assert b.completer.counts()["outcomes"]["python"]["line"]["dismissed"] == 1  # type: ignore[index]
    b.type("\ny = ")
    b.say("9\n")
    await b.ask()
    assert b.record["waited_ms"] == 100


def test_what_is_no_feedback_is_passed_over() -> None:
    assert read({"requestId": 3, "kind": "dismissed"}) == (3, Said.DISMISSED)
    for params in (
        None,
        [],
        {},
        {"requestId": True, "kind": "shown"},
        {"requestId": 1, "kind": "x"},
        {"requestId": 1, "kind": []},
    ):
        assert read(params) is None
