"""fim-prompt, special-text-in-source, context-budget: neighbours. Markers once and in order are asserted for every prompt."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from lsp_server.plans.planning import HEALING_TOKENS
from tests.cases.drivers.prompts import tiny_scene
from tests.cases.scene import URI, Scene
from tests.cases.scripted import Model
from tests.support.client import in_loop, span
from tests.support.fake_backend import CONTROL


@pytest.mark.parametrize(
    ("document", "prefix", "typed", "heal", "after"),
    [
        ("$0", "", "", "", ""),
        ("a = 1\n$0\nb\n", "a = 1\n", "", "", "\nb\n"),
        ("    $0", "", "", "    ", ""),
        ("x = foo.ba$0r()\n", "", "x = foo.", "ba", "r()\n"),
        ("x = foo.$0)\n", "", "x = foo", ".", ")\n"),
        ("def f(a,$0)\n", "", "def f(a", ",", ")\n"),
        ("s = 'é🦊$0'\n", "", "s = 'é", "🦊", "'\n"),
        ("x = 1  # über$0\n", "", "x = 1  #", " über", "\n"),
    ],
)
@in_loop
async def test_every_byte_before_the_cursor_stands_in_one_section(
    document: str, prefix: str, typed: str, heal: str, after: str
) -> None:
    before, behind = document.split("$0")
    async with Scene(Model.saying("q")) as scene:
        scene.open(before + behind)
        line = before.count("\n")
        character = len(before.rpartition("\n")[2].encode("utf-16-le")) // 2
        await scene.ask(line, character)
        prompt = scene.prompt
        assert (prompt.prefix, prompt.typed, prompt.heal, prompt.after) == (prefix, typed, heal, after)


@in_loop
async def test_the_plain_layout_sends_all_before_the_suffix_marker() -> None:
    async with Scene(Model.saying("1)"), {"layout": "psm"}) as scene:
        scene.open("a\nx = foo(\nb\n")
        assert await scene.accept(1, 8) == "a\nx = foo(1)\nb\n"
        prompt = scene.prompt
        assert (prompt.prefix, prompt.typed, prompt.heal, prompt.after) == ("a\nx = foo(", "", "", "\nb\n")


@pytest.mark.parametrize(("typed", "says"), [("get_", "count()"), ("ge", "t_x()"), ("g", "o"), ("", "get()"), ("é", "té()")])
@in_loop
async def test_a_word_is_gone_on_with_nothing_lost_or_doubled(typed: str, says: str) -> None:
    async with Scene(Model.saying(says)) as scene:
        scene.open(f"value = {typed}\n")
        assert await scene.accept(0, 8 + len(typed)) == f"value = {typed}{says}\n"
        assert scene.prompt.before == f"value = {typed}"


@in_loop
async def test_a_bracket_that_the_editor_closes_stays_out_of_the_prompt() -> None:
    async with Scene(Model.saying("1)"), {"typed_through": False, "adopt_ms": 0}) as scene:
        scene.open("x = \n")
        await scene.ask(0, 4)
        scene.change({"range": span(0, 4, 0, 4), "text": "f()"})
        assert await scene.accept(0, 6) == "x = f(1)\n"
        assert (scene.prompt.before, scene.prompt.after) == ("x = f(", "\n")


# --- marker-like text


@pytest.mark.parametrize("marker", [*CONTROL, "<|fim_mid", "<fim_middle>", "<｜fim▁hole｜>", "=======", "<<<<<<< HEAD", "</s>"])
@pytest.mark.parametrize("place", ["{}\nx = $0\n", "x = '{}$0'\n", "x = $0 # {}\n", "{}$0"])
@in_loop
async def test_marker_like_text_is_text_wherever_it_stands(place: str, marker: str) -> None:
    before, after = place.format(marker).split("$0")
    async with Scene(Model.saying("1")) as scene:
        scene.open(before + after)
        text = await scene.accept(before.count("\n"), len(before.rpartition("\n")[2]))
        assert text == before + "1" + after
        assert (scene.prompt.before, scene.prompt.after) == (before, after)


@in_loop
async def test_marker_like_text_typed_key_by_key_on_a_real_vocabulary() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with tiny_scene(Path(folder)) as scene:
            scene.open("\n# <|fim_suffix|>\n")
            text = "s = '<|fim_middle|>' + "
            for i, key in enumerate(text):
                scene.change({"range": span(0, i, 0, i), "text": key})
                await scene.ask(0, i + 1)
                assert scene.prompt.before == text[: i + 1]
                assert scene.prompt.after == "\n# <|fim_suffix|>\n"


# --- budgets


@pytest.mark.parametrize("max_tokens", [1, 64, 200, 4096])
@in_loop
async def test_no_request_is_larger_than_the_context_while_a_line_grows(max_tokens: int) -> None:
    async with Scene(Model.saying("+ value"), {"n_ctx": 256, "max_tokens": max_tokens, "adopt_ms": 0}) as scene:
        scene.open("".join(f"v{i} = {i}\n" for i in range(60)) + "x = \n" + "".join(f"w{i} = {i}\n" for i in range(60)))
        column = 4
        for _ in range(12):
            new = "value + foo(bar) + 1234567 + "
            scene.change({"range": span(60, column, 60, column), "text": new})
            column += len(new)
            await scene.ask(60, column)
            n_room = max(256 - max_tokens, 16)
            for request in scene.scripted.requests:
                assert len(request.tokens) <= n_room
            assert scene.prompt.before.endswith(scene.texts[URI].split("\n")[60][:column][-8:])
        assert not scene.logs.above(20)


@pytest.mark.parametrize("at", [0, 5_000, 19_990])
@in_loop
async def test_one_very_long_line(at: int) -> None:
    async with Scene(Model.saying("q"), {"n_ctx": 512}) as scene:
        line = "var a=1;" * 2500
        scene.open(line)
        text = await scene.accept(0, at)
        assert text == line[:at] + "q" + line[at:]
        assert len(scene.prompt.tokens) <= 512 - 64
        assert line.endswith(scene.prompt.after) or scene.prompt.after in line


@in_loop
async def test_typed_text_may_fill_the_context_to_the_last_token() -> None:
    """The largest file that goes in whole leaves room for typing; the largest text pasted there makes a prompt of exactly the
    tokens that the context leaves, and with one more something is left out."""
    n_max = 64
    n_limit = 256 - n_max - HEALING_TOKENS
    options = {"n_ctx": 256, "max_tokens": n_max, "typed_through": False, "adopt_ms": 0}
    async with Scene(Model.saying("q"), options) as scene:
        for n in range(100, 20, -1):
            scene.open("a\n" * n + "x = \n")
            await scene.ask(n, 4)
            if scene.prompt.before + scene.prompt.after == scene.texts[URI]:
                break
        sizes = []
        for n_pasted in range(24, 56):
            scene.open("a\n" * n + "x = \n")
            await scene.ask(n, 4)
            text = ("1+" * n_pasted)[:n_pasted]
            scene.change({"range": span(n, 4, n, 4), "text": text})
            await scene.ask(n, 4 + n_pasted)
            sizes.append(len(scene.prompt.tokens))
            assert scene.prompt.before.endswith(text)
        fullest = sizes.index(n_limit)
        assert max(sizes) == n_limit and sizes[: fullest + 1] == sorted(sizes[: fullest + 1])
        assert max(sizes[fullest + 2 :]) < n_limit, sizes
