"""large-input: neighbours. Nothing here depends on how long a text or a line is but the walk to a column."""

from __future__ import annotations

import random

import pytest

from tests.cases.drivers.large import MOST_COPIED, MOST_ENCODED, Work
from tests.cases.drivers.trees import tree_in
from tests.cases.editor import accepted, changed
from tests.cases.scene import URI, Scene, items_of
from tests.cases.scripted import Model
from tests.support.client import in_loop, span

LINE = "    total = total + value_of(items[index])  # a line\n"


@in_loop
async def test_requests_all_over_a_long_document_cost_what_one_costs_in_a_short_one() -> None:
    costs = []
    for n_lines in (4_000, 400_000):
        text = LINE * n_lines
        async with Scene(Model.saying("sum(vs)")) as scene:
            scene.client.open(URI, text)
            await scene.client.settle()
            await tree_in(scene, URI)  # it is made beside the requests, and reads all there is
            rng, most = random.Random(3), (0, 0)
            for _ in range(10):
                n_before = scene.model.vocab.n_encoded_bytes
                with Work() as work:
                    (item,) = items_of(await scene.client.inline(URI, rng.randrange(200, n_lines - 200), 12))
                assert item["insertText"] == "total = sum(vs)"
                most = max(most[0], work.copied + work.looked_at), max(most[1], scene.model.vocab.n_encoded_bytes - n_before)
            costs.append(most)
            assert not scene.logs.above(20)
    (small, small_encoded), (large, large_encoded) = costs
    assert large <= 1.2 * small < MOST_COPIED and large_encoded <= 1.2 * small_encoded < MOST_ENCODED, f"{costs}"


@in_loop
async def test_edits_at_the_ends_and_of_many_lines_keep_the_copy() -> None:
    text = LINE * 150_000
    assert len(text) > 6_000_000
    async with Scene(Model.saying("1")) as scene:
        scene.client.open(URI, text)
        pasted = "é = '🦊'\r\n" * 200_000
        changes = [
            {"range": span(0, 0, 0, 0), "text": "x = "},
            {"range": span(150_000, 0, 150_000, 0), "text": "y\r\n"},
            {"range": span(70_000, 4, 70_000, 9), "text": pasted},
            {"range": span(200_000, 2, 200_001, 1), "text": ""},
            {"range": span(10, 0, 260_000, 0), "text": "z = \n"},
            {"range": span(0, 0, 0, 2**31 - 1), "text": "\ufeff"},
        ]
        for change in changes:
            text = changed(text, [change])
            scene.client.change(URI, change)
        await scene.client.settle()
        assert scene.server_text() == text
        (item,) = items_of(await scene.client.inline(URI, 10, 4))
        assert item["insertText"] == "z = 1"
        assert not scene.logs.above(20)


@in_loop
async def test_a_client_that_always_sends_everything_copies_only_what_differs() -> None:
    text = LINE * 100_000
    async with Scene(Model.saying("1")) as scene:
        scene.client.open(URI, text)
        await scene.client.settle()
        at = len(LINE) * 50_000 + 10
        for new in ("é", "漢字", ""):
            text = text[:at] + new + text[at + 5 :]
            with Work() as work:
                scene.client.change(URI, {"text": text})
                await scene.client.settle()
            assert work.copied <= 8192 + 64 and len(work.edits) == 1, f"{work.copied} bytes copied"
            assert work.edits[0][0] < 100_000, f"{work.edits[0][0]} bytes copied"
            assert scene.server_text() == text
        scene.client.change(URI, {"text": "wholly = "})
        (item,) = items_of(await scene.client.inline(URI, 0, 9))
        assert item["insertText"] == "wholly = 1"


@pytest.mark.parametrize("unit", ["x=1;", "é=1;", "🦊,"])
@in_loop
async def test_one_line_of_megabytes(unit: str) -> None:
    """Minified code, a base64 blob, a dump: typing in the middle of it."""
    line = unit * 500_000
    n_units = len(line.encode("utf-16-le")) // 2
    async with Scene(Model.saying("7", " + 7")) as scene:
        scene.client.open(URI, f"a\n{line}\nb = \n")
        middle = n_units // 2
        cut = len(line) // 2
        for i, key in enumerate("k = "):
            scene.client.change(URI, {"range": span(1, middle + i, 1, middle + i), "text": key})
        await scene.client.settle()
        line = line[:cut] + "k = " + line[cut:]
        assert scene.server_text() == f"a\n{line}\nb = \n"
        n_before = scene.model.vocab.n_encoded_bytes
        with Work() as work:
            items = items_of(await scene.client.inline(URI, 1, middle + 4))
        assert [item["insertText"] for item in items] == ["7"]
        start = items[0]["range"]["start"]
        assert start == {"line": 1, "character": middle + 4}, "the range needn't go back to the line's start"
        assert work.copied < MOST_COPIED and scene.model.vocab.n_encoded_bytes - n_before < MOST_ENCODED
        (item,) = items_of(await scene.client.inline(URI, 2, 4))
        assert item["insertText"] == "b =  + 7"
        assert not scene.logs.above(20)


@in_loop
async def test_an_indentation_longer_than_a_leaf() -> None:
    text = " " * 5000 + "a = "
    async with Scene(Model.saying("1")) as scene:
        scene.open(f"{text}\n")
        (item,) = await scene.ask(0, len(text))
        assert accepted(scene.texts[URI], item, {"line": 0, "character": len(text)}) == f"{text}1\n"
        scene.open(" " * 5000 + "\n")
        (item,) = await scene.ask(0, 5000, invoked=True)
        assert item["insertText"].lstrip(" ") == "1", "behind blanks alone it is no single-line place"


@in_loop
async def test_what_stands_far_behind_the_cursor_on_its_line_is_neither_replaced_nor_repeated() -> None:
    async with Scene(Model.saying("f(x)", "f(x)", "f(x)")) as scene:
        for rest in (")" + " " * 5000 + "end", ")" + "y" * 5000, ")" + " " * 9000):
            scene.open(f"a = f({rest}\n")
            n = len("a = f(")
            text = await scene.accept(0, n)
            assert text.endswith((f"{rest}\n", f"{rest[1:]}\n")), f"{text[:40]!r}"
            assert text.startswith("a = f(f(x)")


@in_loop
async def test_what_the_rest_begins_with_is_not_said_again() -> None:
    """Whether the line ends there, behind many blanks, or goes on."""
    async with Scene(Model.saying("a + total", "a + total")) as scene:
        for rest, want in (("total" + " " * 9000, "b = a + total"), ("total" + " " * 9000 + "+ c", "b = a + total")):
            scene.open(f"b = {rest}\n")
            text = await scene.accept(0, 4)
            assert text.rstrip(" \n").removesuffix("+ c").rstrip() == want


@in_loop
async def test_a_document_above_the_limit_gets_a_reason_and_comes_back_when_it_shrinks() -> None:
    async with Scene(Model.saying("1"), {"max_file_bytes": 100_000}) as scene:
        scene.client.open(URI, LINE * 4000)
        assert items_of(await scene.client.inline(URI, 3, 4)) == []
        assert "max_file_bytes" in await scene.reason()
        scene.client.change(URI, {"text": "a = "})
        (item,) = items_of(await scene.client.inline(URI, 0, 4))
        assert item["insertText"] == "a = 1"
