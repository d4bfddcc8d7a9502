"""The typist's keys, seen as an editor's content changes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.edits import Change, Position, apply, offset_at, position_at
from bench.languages import LANGUAGES
from bench.material import load, names
from bench.typist import Key, type_block


def keys_of(block: str, text: str = "", *, language: str = "python", slip_rate: float = 0.0) -> tuple[Key, ...]:
    return type_block(text, block, len(text), language=language, slip_rate=slip_rate)


def screens(block: str, text: str = "", **options: object) -> list[str]:
    """The whole text after each key, the cursor shown as ‸."""
    shown, now = [], text
    for key in keys_of(block, text, **options):  # type: ignore[arg-type]
        now = apply(now, key.changes)
        at = offset_at(now, key.cursor)
        shown.append(now[:at] + "‸" + now[at:])
    return shown


def check(text: str, block: str, offset: int, language: str, seed: int, slip_rate: float) -> tuple[Key, ...]:
    """Replaying gives the text with the block; every cursor is a place of the text; the last one is behind the block."""
    keys = type_block(text, block, offset, language=language, seed=seed, slip_rate=slip_rate)
    now = text
    for key in keys:
        now = apply(now, key.changes)
        assert position_at(now, offset_at(now, key.cursor)) == key.cursor
        assert bool(key.changes) == (key.kind != "move")
    assert now == text[:offset] + block + text[offset:]
    if keys:
        assert offset_at(now, keys[-1].cursor) == offset + len(block)
    return keys


LINES = st.lists(
    st.text(alphabet="ab (){}[]\"'`\\:#,=f\t/*é😋", max_size=12).map(lambda line: line.rstrip(" \t")), min_size=1, max_size=6
)


@settings(max_examples=300, deadline=None)
@given(
    before=LINES,
    block=LINES,
    after=st.sampled_from(["", "\n", ")", "x\n", "\n    }\n", '"']),
    language=st.sampled_from(sorted(LANGUAGES)),
    seed=st.integers(0, 9),
    slip_rate=st.sampled_from([0.0, 0.03, 0.5]),
)
def test_replaying_the_keys_inserts_the_block(
    before: list[str], block: list[str], after: str, language: str, seed: int, slip_rate: float
) -> None:
    start = "\n".join(before)
    check(start + after, "\n".join(block), len(start), language, seed, slip_rate)


@pytest.mark.parametrize("name", names())
def test_the_material_is_typed_as_written(name: str) -> None:
    material = load(name)
    keys = check(material.text, material.block, material.offset, material.language, 7, 0.03)
    kinds = {key.kind for key in keys}
    assert {"char", "pair", "overtype", "enter", "backspace"} <= kinds
    assert 250 <= (material.text + material.block).count("\n") <= 320
    assert 18 <= material.block.count("\n") <= 32


def test_equal_seeds_type_equally_and_others_do_not() -> None:
    material = load(names()[0])
    first, again, other = (
        type_block(material.text, material.block, material.offset, language=material.language, seed=seed) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_slips_are_about_as_many_as_asked_for() -> None:
    keys = keys_of("word " * 400, slip_rate=0.03)
    assert 30 <= sum(key.kind == "backspace" for key in keys) <= 90


def test_a_pair_is_one_change_and_its_closer_is_typed_over_by_itself() -> None:
    keys = keys_of("f(x)")
    assert [key.kind for key in keys] == ["char", "pair", "char", "overtype"]
    at = Position(0, 1)
    assert keys[1] == Key("pair", (Change(at, at, "()"),), Position(0, 2))
    assert keys[3] == Key("overtype", (Change(Position(0, 3), Position(0, 4), ")"),), Position(0, 4))


def test_columns_are_utf16() -> None:
    keys = keys_of("😋é(")
    assert keys[2].changes[0].start == Position(0, 3)


def test_a_quote_in_a_word_a_comment_or_a_string_is_not_closed() -> None:
    assert "‸'" not in "".join(screens("# don't 'so"))
    assert screens("x = d['k']")[6] == "x = d['‸']"
    assert screens("f\"{d['k']}\"")[4] == 'f"{d[‸]}"'
    assert screens("f\"{d['k']}\"")[5] == 'f"{d[\'‸]}"'


def test_an_unwanted_closer_is_deleted_at_once() -> None:
    assert screens("a = '('")[-4:] == ["a = '‸'", "a = '(‸)'", "a = '(‸'", "a = '('‸"]


def test_enter_after_a_colon_indents_in_the_same_change() -> None:
    keys = keys_of("if x:\n    y\n\nz")
    enters = [key for key in keys if key.kind == "enter"]
    assert enters[0].changes == (Change(Position(0, 5), Position(0, 5), "\n    "),)
    # the blank line's white space goes with the Enter that leaves it
    assert enters[2].changes == (
        Change(Position(2, 4), Position(2, 4), "\n    "),
        Change(Position(2, 0), Position(2, 4), ""),
    )
    assert screens("if x:\n    y\n\nz")[-2:] == ["if x:\n    y\n\n‸", "if x:\n    y\n\nz‸"]


def test_enter_between_brackets_makes_two_lines_and_the_closer_is_passed_by_a_move() -> None:
    shown = screens("f(\n    x,\n)")
    assert shown[1:3] == ["f(‸)", "f(\n    ‸\n)"]
    assert shown[-1] == "f(\n    x,\n)‸"
    last = keys_of("f(\n    x,\n)")[-1]
    assert (last.kind, last.changes) == ("move", ())


def test_a_dedent_is_one_backspace_per_tab_stop() -> None:
    kinds = [key.kind for key in keys_of("def f():\n    if x:\n        y\nz")]
    assert kinds[-3:] == ["backspace", "backspace", "char"]


def test_deeper_than_the_editor_thinks_is_a_tab() -> None:
    assert [key.kind for key in keys_of("a\n    b")] == ["char", "enter", "tab", "char"]


def test_typescript_indents_by_two_and_closes_no_bracket_before_a_quote() -> None:
    assert screens("g() {\n  h;\n}", language="typescript")[5] == "g() {\n  ‸\n}"
    assert screens('"("', language="typescript")[1] == '"(‸"'


@pytest.mark.parametrize(("text", "block"), [("a\r\n", "b"), ("", "a\r\nb"), ("", "a\n  \nb"), ("", "a\n  ")])
def test_what_vs_code_would_change_is_refused(text: str, block: str) -> None:
    with pytest.raises(ValueError):
        type_block(text, block, len(text))
