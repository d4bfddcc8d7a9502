"""partial-utf8, stop-token-leak: neighbours. What a model may end with, and what of it is text."""

from __future__ import annotations

import pytest

from tests.cases.scene import URI, Scene
from tests.cases.scripted import Model
from tests.support.client import in_loop
from tests.support.fake_backend import CONTROL


def pieces(*parts: str) -> Model:
    return Model.of_tokens([bytes.fromhex(part) for part in parts])


@pytest.mark.parametrize(
    ("parts", "max_tokens", "want"),
    [
        (("f0", "9f", "a6", "8a"), 64, "🦊"),
        (("41f0", "9fa6", "8a42"), 64, "A🦊B"),
        (("c3", "a9"), 64, "é"),
        (("6f6b20", "f09fa6"), 2, "ok"),
        (("6f6b", "f0", "9f", "a6", "8a"), 4, "ok"),
        (("6f6b", "f0", "9f", "a6", "8a"), 5, "ok🦊"),
        (("6f6b", "f09f"), 64, "ok"),  # the model itself stops inside a character
        (("6f6b", "ff", "21"), 64, "ok!"),
        (("6f6b", "f09f", "6f6b"), 64, "okok"),
        (("6f6b", "c3", "c3", "a9"), 64, "oké"),
        (("f09f8fb3", "efb88f", "e2808d", "f09f8c88"), 64, "🏳\ufe0f\u200d🌈"),
    ],
)
@in_loop
async def test_characters_over_several_tokens(parts: tuple[str, ...], max_tokens: int, want: str) -> None:
    async with Scene(pieces(*parts), {"max_tokens": max_tokens}) as scene:
        scene.open("msg = ''\n")
        text = await scene.accept(0, 7)
        assert text in (f"msg = '{want}'\n", f"msg = '{want} '\n")
        assert "\ufffd" not in text
        assert not scene.logs.above(20)


@in_loop
async def test_nothing_but_half_a_character_is_nothing() -> None:
    async with Scene(pieces("f09f"), {"max_tokens": 1}) as scene:
        scene.open("msg = ''\n")
        assert await scene.ask(0, 7) == []


@in_loop
async def test_healing_bytes_of_a_character_that_spans_tokens() -> None:
    async with Scene(Model.saying("漢字()")) as scene:
        scene.open("名前 = 漢\n")
        assert await scene.accept(0, 6) == "名前 = 漢漢字()\n"
        assert scene.prompt.heal == " 漢"


# --- control tokens


@pytest.mark.parametrize("control", CONTROL)
@pytest.mark.parametrize(("says", "want"), [("1{}", "1"), ("1 {}", "1"), ("1{}2{}", "1"), ("é{}🦊", "é"), ("1\n{}y = 2", "1")])
@in_loop
async def test_any_control_token_ends_the_text(control: str, says: str, want: str) -> None:
    async with Scene(Model.saying(says.replace("{}", control))) as scene:
        scene.open("x = \n")
        assert await scene.accept(0, 4) == f"x = {want}\n"


@pytest.mark.parametrize("control", CONTROL)
@in_loop
async def test_a_control_token_alone_is_silence_with_a_reason(control: str) -> None:
    async with Scene(Model.saying(control)) as scene:
        scene.open("x = \n")
        assert await scene.ask(0, 4) == []
        assert await scene.reason() == "the model ends here"


@in_loop
async def test_a_marker_spelled_in_letters_is_what_the_model_wrote() -> None:
    """A file about such models may hold its name; in one that does not, it has leaked."""
    model = Model()
    model.says = (model.vocab.encode(b"'<|fim_pad|>'"),)
    async with Scene(model) as scene:
        scene.open("PAD = '<|fim_pad|>'\nx = \n")
        assert await scene.accept(1, 4) == "PAD = '<|fim_pad|>'\nx = '<|fim_pad|>'\n"


@in_loop
async def test_a_block_ends_at_the_control_token_too() -> None:
    async with Scene(Model.saying("a = 1\n    b = 2<|file_sep|>c.py\nd = 3")) as scene:
        scene.open("def f():\n    ")
        assert await scene.accept(1, 4, invoked=True) == "def f():\n    a = 1\n    b = 2"
        assert scene.server_text() == scene.texts[URI]
