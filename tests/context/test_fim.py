"""Rendering and healing."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context.fim import MAX_HEAL_BYTES, render, split_healing, stable_tokens
from context.plan import make_plan
from context.text import Text
from context.types import DocumentSnapshot, Limits
from tests.context.conftest import ANCHORED, decode, new_table
from tests.support.fixture import cursor_in
from tests.support.layouts import layout

LIMITS = Limits(n_prefix=200, n_suffix=60, n_total=400)


def test_order_of_the_markers() -> None:
    assert stable_tokens(ANCHORED, (), (10, 11), (12,)) == (1, 10, 11, 2, 12, 3)
    assert stable_tokens(layout("anchored", bos=4), (), (), ()) == (4, 1, 2, 3)
    assert stable_tokens(ANCHORED, (7, 8), (10,), (12,)) == (7, 8, 1, 10, 2, 12, 3)
    assert stable_tokens(layout("spm", bos=4), (7,), (10, 11), (12,)) == (4, 7, 2, 12, 1, 10, 11)
    assert layout("spm").tail == (3,)
    assert stable_tokens(layout("ltr", bos=4), (7,), (10,), (12,)) == (4, 10)


@pytest.mark.parametrize(
    ("typed", "sent", "healed"),
    [
        ("", "", ""),
        ("foo", "", "foo"),
        ("    return", "   ", " return"),
        ("x = foo.ba", "x = foo.", "ba"),
        ("foo(", "foo", "("),
        ("foo(x, ", "foo(x,", " "),
        ("if x:\n", "if x:", "\n"),
        ("if x:\n    ", "if x:", "\n    "),
        ("        ", "", "        "),
        ("a +=", "a ", "+="),
        ("名前", "", "名前"),
        ("a 😋", "a ", "😋"),
        ("x\n", "x", "\n"),
        ("_a1", "", "_a1"),
        ("x" * 100, "x" * 36, "x" * 64),
        (" " * 100, " " * 36, " " * 64),
        ("é" * 100, "é" * 68, "é" * 32),
        ("漢" * 2000, "漢" * 1979, "漢" * 21),
        ("a" + "😋" * 300, "a" + "😋" * 284, "😋" * 16),
    ],
)
def test_what_is_healed(typed: str, sent: str, healed: str) -> None:
    assert split_healing(typed.encode()) == (sent.encode(), healed.encode())


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.text(max_size=6), st.sampled_from(["word", " ", "\n", "((", "é" * 40])), max_size=8).map("".join))
def test_healing_is_the_end_of_what_was_typed(typed: str) -> None:
    data = typed.encode()
    sent, healed = split_healing(data)
    assert sent + healed == data
    sent.decode()
    assert len(healed) <= MAX_HEAL_BYTES
    assert bool(healed) == bool(typed)
    last = healed.decode()
    assert re.fullmatch(r" ?\w+|\s+|[^\w\s]+", last) or not typed
    takes_a_blank = last.startswith(" ") and not last.isspace()
    if sent and len(healed) < MAX_HEAL_BYTES - 3 and not takes_a_blank:  # not cut: what stands before is of another kind
        assert not re.fullmatch(r"\w\w|\s\s|[^\w\s][^\w\s]", sent.decode()[-1] + last[0])


def test_pieces_of_a_prompt() -> None:
    text, cursor = cursor_in("\ufeffdef é():\r\n    a = 1\r\n    return a.b$0)\r\n\r\nx\r\n")
    snapshot = DocumentSnapshot("d", 1, "python", Text.of(text))
    table = new_table()
    plan = make_plan(snapshot, cursor, LIMITS, table, layout("anchored", bos=4))
    prompt = render(plan, snapshot, cursor, table)
    data = text.encode()
    parts = [(p.name, data[p.start : p.end].decode(), p.n_tokens) for p in prompt.pieces]
    assert [(name, part) for name, part, _ in parts] == [
        ("marker", ""),
        ("marker", ""),
        ("prefix", "\ufeffdef é():\r\n    a = 1\r\n"),
        ("marker", ""),
        ("suffix", ")\r\n\r\nx\r\n"),
        ("marker", ""),
        ("typed", "    return a."),
        ("healing", "b"),
    ]
    assert sum(n for _, _, n in parts) == len(prompt.tokens)
    assert prompt.typed == b"    return a.b"
    assert prompt.heal == b"b"
    assert decode(prompt.tokens[2 : 2 + plan.n_prefix]) == "def é():\n    a = 1\n".encode()
    assert decode(prompt.tokens[prompt.n_stable :]) == b"    return a."


def test_healing_over_crlf() -> None:
    text = Text.of("if x:\r\n    ")
    snapshot = DocumentSnapshot("d", 1, "python", text)
    table = new_table()
    plan = make_plan(snapshot, 5, LIMITS, table, ANCHORED)
    prompt = render(plan, snapshot, len(text), table)
    assert prompt.heal == b"\n    "
    assert [(p.start, p.end) for p in prompt.pieces if p.name == "healing"] == [(5, 11)]


def test_plain_layout_has_nothing_typed() -> None:
    text, cursor = cursor_in("a = 1\nfoo(ba$0)\n")
    snapshot = DocumentSnapshot("d", 1, "python", Text.of(text))
    table = new_table()
    plan = make_plan(snapshot, cursor, LIMITS, table, layout("psm"))
    prompt = render(plan, snapshot, cursor, table)
    assert (prompt.typed, prompt.heal, prompt.n_typed) == (b"", b"", 0)
    assert prompt.tokens == (1, *table.encode(b"a = 1\nfoo(ba"), 2, *table.encode(b")\n"), 3)
    with pytest.raises(ValueError):
        render(plan, snapshot, cursor + 1, table)


def test_a_cursor_before_the_anchor_is_refused() -> None:
    text, cursor = cursor_in("a = 1\nfoo$0\n")
    snapshot = DocumentSnapshot("d", 1, "python", Text.of(text))
    plan = make_plan(snapshot, cursor, LIMITS, new_table(), ANCHORED)
    with pytest.raises(ValueError):
        render(plan, snapshot, 2, new_table())
