"""utf16-position, line-splitting, sync-range: neighbours, from the editor's position to the prompt and back to the text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases.editor import accepted, index
from tests.cases.scene import URI, Scene
from tests.cases.scripted import Model
from tests.support.client import Json, in_loop, position, span

FOX, FAMILY = "🦊", "👩\u200d👩\u200d👧"


def cursor_of(text: str, at: int) -> Json:
    """UTF-16 position of a character index."""
    head = text[:at]
    line_start = max(head.rfind("\n"), head.rfind("\r")) + 1
    line = head.replace("\r\n", "\n").replace("\r", "\n").count("\n")
    return position(line, len(head[line_start:].encode("utf-16-le")) // 2)


@pytest.mark.parametrize(
    "document",
    [
        f"x = '$0{FOX}{FOX}', '{FOX}'\n",
        f"x = '{FOX}$0{FOX}', 1\n",
        f"x = '{FOX}{FOX}{FOX}$0'",
        f"x = '{FAMILY}$0'  # {FAMILY}\n{FOX}",
        f"{FOX}\n{FOX}{FOX}\r\ny = '$0{FOX}'",
        "e\u0301 = 'ﬁ漢$0é'",
    ],
)
@in_loop
async def test_wide_characters_on_both_sides_of_the_cursor(document: str) -> None:
    before, after = document.split("$0")
    cursor = cursor_of(before + after, len(before))
    async with Scene(Model.saying("w🚀z")) as scene:
        scene.open(before + after)
        text = await scene.accept(**cursor)
        assert text.startswith(before + "w🚀z")
        assert text[len(before) + 3 :] in (after, after.removeprefix("'")), text
        assert scene.prompt.before == before.replace("\r\n", "\n")
        assert scene.prompt.after == after.replace("\r\n", "\n")


@pytest.mark.parametrize("shift", range(5))
@pytest.mark.parametrize("eol", ["\n", "\r\n"])
@in_loop
async def test_no_look_behind_the_cursor_ends_inside_a_character(eol: str, shift: int) -> None:
    after = eol + "a" * shift + FOX * 1300 + eol
    async with Scene(Model.saying("w")) as scene:
        scene.open(f"x = {after}")
        assert await scene.accept(0, 4) == f"x = w{after}"
        scene.open(f"é{after}x = ")
        assert await scene.accept(2, 4) == f"é{after}x = w"
        scene.open(f"é{eol}x = {FOX}")
        assert (await scene.accept(1, 4)).startswith(f"é{eol}x = w")
        assert not scene.logs.above(20)


@pytest.mark.parametrize(("encoding", "column"), [("utf-8", 9), ("utf-16", 7), ("utf-32", 6)])
@in_loop
async def test_the_same_place_in_every_encoding(encoding: str, column: int) -> None:
    async with Scene(Model.saying("' + b"), capabilities={"general": {"positionEncodings": [encoding]}}) as scene:
        scene.client.open(URI, f"x = '{FOX}'")
        (item,) = (await scene.client.inline(URI, 0, column))["result"]["items"]
        assert item["range"]["start"] == position(0, 0) and item["range"]["end"] in (
            position(0, column), position(0, column + 1)
        )  # fmt: skip
        assert item["insertText"] == f"x = '{FOX}' + b"
        assert scene.prompt.before == f"x = '{FOX}"


@in_loop
async def test_a_place_inside_a_pair_is_before_it() -> None:
    async with Scene(Model.saying("1")) as scene:
        scene.open(f"a = {FOX}{FOX}")
        await scene.ask(0, 7)
        assert (scene.prompt.before, scene.prompt.after) == (f"a = {FOX}", FOX)


# --- what ends a line, and what does not


@pytest.mark.parametrize("odd", ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
@in_loop
async def test_characters_that_end_no_line(odd: str) -> None:
    async with Scene(Model.saying("9")) as scene:
        scene.open(f"a{odd}b = 1{odd}\n{odd}\nn = \n")
        scene.change({"range": span(2, 0, 2, 1), "text": "total"})
        assert await scene.accept(2, 8) == f"a{odd}b = 1{odd}\n{odd}\ntotal = 9\n"
        assert scene.server_text() == scene.texts[URI]
        assert scene.prompt.before == f"a{odd}b = 1{odd}\n{odd}\ntotal = "


@in_loop
async def test_a_lone_carriage_return_ends_a_line() -> None:
    async with Scene(Model.saying("9")) as scene:
        scene.open("a = 1\rb = 2\r\rn = ")
        scene.change({"range": span(1, 4, 1, 5), "text": "3"})
        assert await scene.accept(3, 4) == "a = 1\rb = 3\r\rn = 9"


# --- ranges that end where nothing is


@pytest.mark.parametrize(
    ("text", "changes", "want"),
    [
        ("a\nb\n", [{"range": span(0, 0, 2, 0), "text": ""}, {"range": span(0, 0, 0, 0), "text": "x\n"}], "x\n"),
        ("a\nb", [{"range": span(0, 0, 99, 0), "text": ""}, {"range": span(0, 0, 5, 5), "text": "y"}], "y"),
        ("", [{"range": span(0, 0, 1, 0), "text": "z\n"}], "z\n"),
        ("a\nbb\n", [{"range": span(0, 1, 0, 99), "text": "!"}, {"range": span(1, 1, 1, 2**31 - 1), "text": ""}], "a!\nb\n"),
        ("a\r\nb\r\n", [{"range": span(0, 1, 1, 0), "text": ""}], "ab\r\n"),
        ("a\nb", [{"range": span(7, 7, 7, 7), "text": "c"}], "a\nbc"),
        (f"{FOX}\n", [{"range": span(0, 2, 0, 3), "text": "x"}], f"{FOX}x\n"),
        ("ab\ncd", [{"range": span(1, 1, 0, 1), "text": "x"}], "ab\ncd"),
        (f"{FOX}b", [{"range": span(0, 1, 0, 2), "text": "x"}], f"{FOX}b"),
        (f"{FOX}b", [{"range": span(0, 2, 0, 3), "text": "c"}, {"range": span(0, 1, 0, 1), "text": "x"}], f"{FOX}b"),
    ],
)
@in_loop
async def test_edits_at_the_edges(text: str, changes: list[Json], want: str) -> None:
    async with Scene() as scene:
        scene.open(text)
        scene.change(*changes)
        end = cursor_of(want, len(want))
        await scene.ask(**end)
        assert scene.server_text() == scene.texts[URI] == want
        assert scene.prompt.before == want.replace("\r\n", "\n")


ALPHABET = ["a", " ", "é", "漢", FOX, FAMILY, "\n", "\r\n", "\r", "\x0c", "\u2028", "\x85", "(", "'"]
texts = st.lists(st.sampled_from(ALPHABET), max_size=8).map("".join)
edits = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), texts), min_size=1, max_size=3)


@settings(max_examples=60, deadline=None)
@given(texts, st.lists(edits, max_size=4), st.floats(0, 1))
def test_after_any_edits_prompt_and_item_are_of_the_editors_text(
    text: str, batches: list[list[tuple[float, float, str]]], at: float
) -> None:
    @in_loop
    async def run() -> None:
        async with Scene(Model.saying("q")) as scene:
            scene.open(text)
            for batch in batches:
                changes: list[Json] = []
                now = scene.texts[URI]
                for start, end, new in batch:
                    a, b = sorted((whole(now, int(start * len(now))), whole(now, int(end * len(now)))))
                    changes.append({"range": {"start": cursor_of(now, a), "end": cursor_of(now, b)}, "text": new})
                    now = now[:a] + new + now[b:]
                scene.change(*changes)
                assert scene.texts[URI] == now
            now = scene.texts[URI]
            cursor = cursor_of(now, whole(now, int(at * len(now))))
            items = await scene.ask(**cursor, invoked=True)  # unasked it says nothing where a file looks finished
            assert scene.server_text() == now
            split = index(now, cursor)
            prompt: Any = scene.prompt
            assert prompt.before == now[:split].replace("\r\n", "\n")
            assert prompt.after == now[split:].replace("\r\n", "\n")
            for item in items:
                assert accepted(now, item, cursor)[: split + 1] == now[:split] + "q"

    run()


def whole(text: str, at: int) -> int:
    """Not between the halves of a CRLF: no position is there."""
    return at - 1 if text[at - 1 : at + 1] == "\r\n" else at
