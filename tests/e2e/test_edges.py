"""document-edge, eol-encoding: neighbours."""

from __future__ import annotations

import pytest

from tests.cases.scene import URI, Scene
from tests.cases.scripted import Model
from tests.support.client import in_loop, span

BOM = "\ufeff"


@pytest.mark.parametrize(
    ("text", "line", "character", "want"),
    [
        ("\r\n", 0, 0, "x = 1\r\n"),
        ("\r\n", 1, 0, "\r\nx = 1"),
        ("\n\n", 2, 0, "\n\nx = 1"),
        (BOM, 0, 0, f"x = 1{BOM}"),
        (BOM, 0, 1, f"{BOM}x = 1"),
        (f"{BOM}\r\n", 0, 1, f"{BOM}x = 1\r\n"),
        ("   ", 0, 3, "   x = 1"),
        ("\t", 0, 0, "x = 1\t"),
        ("a", 0, 99, "ax = 1"),
        ("a\n", 99, 0, "a\nx = 1"),
        ("a", 2**31 - 1, 2**31 - 1, "ax = 1"),
    ],
)
@in_loop
async def test_at_the_edges_of_small_documents(text: str, line: int, character: int, want: str) -> None:
    async with Scene(Model.saying("x = 1")) as scene:
        scene.open(text)
        (item,) = await scene.ask(line, character)
        scene.change({"range": item["range"], "text": item["insertText"]})
        await scene.client.settle()
        assert scene.server_text() == scene.texts[URI] == want
        assert not scene.logs.above(20)


@in_loop
async def test_emptied_and_filled_again() -> None:
    async with Scene(Model.saying("2")) as scene:
        scene.open("a = 1\n")
        await scene.ask(0, 5)
        scene.change({"range": span(0, 0, 1, 0), "text": ""})
        assert await scene.ask(0, 0) is not None
        scene.change({"range": span(0, 0, 0, 0), "text": "b = "})
        assert await scene.accept(0, 4) == "b = 2"
        scene.change({"text": ""})
        scene.change({"text": "c = \r\n"})
        assert await scene.accept(0, 4) == "c = 2\r\n"


# --- line ends


@pytest.mark.parametrize(
    ("text", "line", "want"),
    [
        ("if x:\r\n    \r\nend\r\n", 1, "if x:\r\n    a = 1\r\n    b = 2\r\nend\r\n"),
        ("if x:\r\n    ", 1, "if x:\r\n    a = 1\r\n    b = 2"),
        ("if x:\n    \nend\r\n", 1, "if x:\n    a = 1\n    b = 2\nend\r\n"),
        ("if x:\n    \r\nend\n", 1, "if x:\n    a = 1\r\n    b = 2\r\nend\n"),
        (f"{BOM}if x:\r\n    \r\n", 1, f"{BOM}if x:\r\n    a = 1\r\n    b = 2\r\n"),
    ],
)
@in_loop
async def test_inserted_lines_end_as_the_lines_around(text: str, line: int, want: str) -> None:
    async with Scene(Model.saying("a = 1\n    b = 2")) as scene:
        scene.open(text)
        assert await scene.accept(line, 4, invoked=True) == want
        assert all("\r" not in prompt.before + prompt.after for prompt in scene.prompts)


@in_loop
async def test_a_text_that_turns_from_lf_to_crlf_keeps_its_prompt() -> None:
    async with Scene(Model.saying("1")) as scene:
        scene.open("a = 0\nb = \nc = 3\n")
        await scene.ask(1, 4)
        lf = scene.prompt
        scene.change({"text": scene.texts[URI].replace("\n", "\r\n")})
        assert await scene.accept(1, 4) == "a = 0\r\nb = 1\r\nc = 3\r\n"
        scene.open(scene.texts[URI])
        await scene.ask(1, 4)
        assert scene.prompt == lf


@in_loop
async def test_what_a_model_says_with_crlf_stays_one_line_end() -> None:
    async with Scene(Model.saying("a = 1\r\n    b = 2")) as scene:
        scene.open("if x:\r\n    \r\n")
        assert await scene.accept(1, 4, invoked=True) == "if x:\r\n    a = 1\r\n    b = 2\r\n"


@in_loop
async def test_typing_in_the_first_line_behind_a_byte_order_mark() -> None:
    async with Scene(Model.saying("os")) as scene:
        scene.open(f"{BOM}\nx\n")
        for i, key in enumerate("import "):
            scene.change({"range": span(0, 1 + i, 0, 1 + i), "text": key})
            await scene.ask(0, 2 + i)
            assert scene.prompt.before == "import "[: i + 1]
        assert await scene.accept(0, 8) == f"{BOM}import os\nx\n"
