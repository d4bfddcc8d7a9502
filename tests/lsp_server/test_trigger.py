"""When the model is asked by itself, when not and why, and how long that waits. Times are told, not measured."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from context.syntax import SyntaxTree, parse
from context.text import Edit, Text
from inference.types import Costs
from lsp_server.asking import trigger
from lsp_server.asking.literals import inside
from lsp_server.asking.pace import ASSUMED_MS, Pace, place_factor
from lsp_server.asking.reluctance import HALF_LIFE_S, Kind, Reluctance, place_of
from lsp_server.asking.trigger import LastEdit, last_edit, narrowed, why_not
from lsp_server.config import ServerConfig, Sources, load
from lsp_server.types import Superseded
from tests.lsp_server.test_session import Bench, virtual

FAST, SLOW = Costs(0.1, 3.0), Costs(10.0, 30.0)
AS_SHIPPED: dict[str, Any] = {
    "after_delete": "off", "inside_words": "off", "in_comments": "off", "in_strings": "auto", "wait_ms": 150,
    "back_off_ms": 1000,
}  # fmt: skip

PLACES = [
    ("python", 'x = "ab$0c"\n', "string"),
    ("python", 'x = "abc"$0\n', "code"),
    ("python", "x = 1  # a$0\n", "comment"),
    ("python", "x = 1  # a\n$0y", "code"),
    ("python", 'f"a{x$0}b"\n', "code"),
    ("python", 'f"a$0{x}b"\n', "string"),
    ("python", 'def f():\n    """doc\n    mo$0re"""\n', "string"),
    ("python", 'def f():\n    """doc"""\n    x$0\n', "code"),
    ("python", "x = 'a$0\n", "string"),
    ("python", "$0", "code"),
    ("javascript", "const a = `x${y$0}z`;\n", "code"),
    ("javascript", "const a = `x$0${y}z`;\n", "string"),
    ("javascript", "/* a\n b$0 */ x\n", "comment"),
    ("javascript", "/* a\n b */ x$0\n", "code"),
    ("rust", "fn f<'a>(x$0: &'a str) {}\n", "code"),
    ("rust", "/// d$0\nfn f() {}\n", "comment"),
    ("go", "var r = `raw$0\nb`\n", "string"),
    ("ruby", 's = "a#{b$0}c"\n', "code"),
    ("csharp", 'class A { string t = $"a{b$0}c"; }\n', "code"),
    ("lua", "--[[ a\nb$0 ]]\n", "comment"),
    ("cobol", 'say "hel$0lo"\n', "string"),
]


@pytest.mark.parametrize(("language", "marked", "what"), PLACES)
def test_code_string_or_comment_with_a_tree_with_a_moved_one_and_without(language: str, marked: str, what: str) -> None:
    before, after = marked.split("$0")
    text, offset = Text.of(before + after), len(before.encode())
    assert inside(language, text, offset, None) == what
    tree = parse(language, text)
    if not isinstance(tree, SyntaxTree):
        assert language == "cobol"
        return
    assert inside(language, text, offset, tree) == what
    if before and before[-1] != "\n":  # as it is right behind a key
        earlier = text.edit(offset - 1, offset, b"")
        moved = parse(language, earlier)
        assert isinstance(moved, SyntaxTree)
        moved = moved.edited([Edit(offset - 1, offset - 1, text.slice(offset - 1, offset))], text)
        assert inside(language, text, offset, moved) == what


@pytest.mark.parametrize(
    ("language", "marked", "last", "why"),
    [
        ("python", "value = 1$0\n", LastEdit(1, 0, 9), trigger.AFTER_DELETE),
        ("python", "value = 1$0\n", LastEdit(1, 0, 3), ""),  # the cursor has gone elsewhere
        ("python", "value = 1$0\n", LastEdit(1, 1, 9), ""),
        ("python", "val$0ue = 1\n", None, trigger.INSIDE_WORD),
        ("python", "val$0(ue)\n", None, ""),
        ("python", "x$0é = 1\n", None, trigger.INSIDE_WORD),
        ("python", "x = 1\n\n\n$0", None, trigger.AT_END),
        ("python", "x = 1\n\n$0\n", None, trigger.AT_END),
        ("python", "x = 1\n\n$0\n\n", None, ""),
        ("python", "# sort a list in place\n$0", None, ""),
        ("python", "def f():\n    $0\n", None, ""),
        ("python", "# so$0\n", None, trigger.IN_COMMENT),
        ("python", "x = 'so$0'\n", None, trigger.IN_STRING),
        ("json", '{"a": "so$0"}\n', None, ""),
        ("markdown", "# so$0\n", None, ""),
    ],
)
def test_where_nobody_wants_one_unasked(language: str, marked: str, last: LastEdit | None, why: str) -> None:
    before, after = marked.split("$0")
    text, offset = Text.of(before + after), len(before.encode())
    tree = parse(language, text)
    assert isinstance(tree, SyntaxTree)
    for known in (tree, None):
        assert why_not(text, offset, language, last, ServerConfig(), known) == why
    wanted = ServerConfig(after_delete="on", inside_words="on", in_comments="on", in_strings="on")
    assert why_not(text, offset, language, last, wanted, tree) in ("", trigger.AT_END)


def test_an_edit_is_what_it_changes() -> None:
    text = Text.of("värde = 10\n")
    assert narrowed(text, Edit(0, len("värde".encode()), "värd".encode())) == Edit(5, 6, b"")
    assert narrowed(text, Edit(1, 3, "á".encode())) == Edit(1, 3, "á".encode()), "half a character"
    told = last_edit(text, (Edit(0, 6, "värd".encode()), Edit(4, 5, b"")))
    assert told == LastEdit(2, 0, 4) and told.is_deletion
    assert last_edit(text, (Edit(0, 1, b"v"),)) is None


def test_the_wait_counts_from_the_first_key_and_hides_the_model() -> None:
    pace = Pace()
    assert pace.interval_ms == ASSUMED_MS and 0 < pace.wait_ms(1.0, FAST, 1000) < ASSUMED_MS
    assert pace.wait_ms(1.0, SLOW, 1000) == 0, "a model that is slower than the typing is asked at once"
    assert pace.wait_ms(1.0, FAST, 20) == 20 and pace.wait_ms(1.0, FAST, 0) == 0
    assert pace.wait_ms(place_factor("x = foo(", ""), FAST, 1000) < pace.wait_ms(place_factor("x = fo", ""), FAST, 1000)
    for key in range(30):
        pace.typed(key * 0.1)
    assert 100 <= pace.interval_ms < 110
    before = pace.interval_ms
    pace.typed(100.0)
    assert pace.interval_ms == before, "a pause is no rhythm"
    for _ in range(30):
        pace.answered(90.0)
    assert pace.wait_ms(1.0, FAST, 1000) < 30


def test_rejections_grow_by_kind_and_place_and_fade() -> None:
    told = Reluctance()
    line, block = Kind("python", "line", place_of("x = ", "")), Kind("python", "block", place_of("    ", ""))
    other = Kind("rust", "line", line.place)
    waits = []
    for _ in range(6):
        told.rejected(line, 0.0)
        waits.append(told.extra_ms(line, 0.0, 1000))
    assert waits == sorted(waits) and waits[0] == 100 and waits[-1] == 1000 > waits[2]
    assert told.extra_ms(block, 0.0, 1000) == told.extra_ms(other, 0.0, 1000) == 0
    told.rejected(block, 0.0)
    assert told.extra_ms(line, 3 * HALF_LIFE_S, 1000) < 200 and told.extra_ms(line, 60 * HALF_LIFE_S, 1000) == 0
    told.accepted(line, 0.0)
    assert told.extra_ms(line, 0.0, 1000) == 0 < told.extra_ms(block, 0.0, 1000) < 100
    assert len({place_of("", ""), place_of("x = ", ""), place_of("fo", ""), place_of("f(", ")"), place_of("  ", "x")}) == 5


def test_all_of_it_may_differ_by_language() -> None:
    config, problems = load(Sources(options={"inComments": "on", "byLanguage": {"rust": {"inComments": "off", "waitMs": 0}}}))
    assert not problems and dict(config.server.by_language)["rust"] == (("in_comments", "off"), ("wait_ms", 0))
    for table in ({"rust": {"model": "x"}}, {"rust": {"wait_ms": -1}}, {"rust": 1}, 3):
        kept, problems = load(Sources(options={"by_language": table}))
        assert kept.server.by_language == () and "by_language must be a table of language ids" in problems[0]


@virtual
async def test_the_model_is_asked_when_the_wait_is_over_and_not_for_keys_that_come_before() -> None:
    b = Bench("x = ", script="al\n", **AS_SHIPPED)
    b.client._costs = FAST
    tasks = []
    for key in "to":
        b.type(key)
        tasks.append(b.start())
        await asyncio.sleep(0.02)
    b.type("t")
    asked = b.now
    assert not b.client.requests, "superseded before it was asked"
    assert b.accept(await b.ask()) == "x = total\n" and b.n_typing() == 1
    assert all(isinstance(task.exception(), Superseded) for task in tasks)
    assert 0 < b.record["waited_ms"] <= 150 and b.now - asked >= b.record["waited_ms"] / 1000
    # by hand, after a move of the cursor, or known already: at once
    b.type("X ")
    await b.ask(invoked=True)
    assert b.record["waited_ms"] == 0
    b.type("\ny = 1")
    b.move(0)
    await b.ask()
    assert b.record["waited_ms"] == 0


@virtual
async def test_what_is_refused_is_told_and_asked_by_hand_all_the_same() -> None:
    b = Bench("value = 10", script=" + 1\n", **AS_SHIPPED)
    b.delete(1)
    got = await b.ask()
    assert not got.items and got.reason == trigger.AFTER_DELETE == b.record["reason"] and not b.client.requests
    got = await b.ask()
    assert got.reason == trigger.AFTER_DELETE, "asking again is no other case"
    assert (await b.ask(invoked=True)).items
    b.type("  # s")
    assert (await b.ask()).reason == trigger.IN_COMMENT


@virtual
async def test_rejections_make_an_answer_late_by_what_they_add() -> None:
    b = Bench("x = ", script="total + value\n", **AS_SHIPPED)
    for _ in range(4):
        b.completer._learned.asking.reluctance.rejected(Kind("python", "line", "a line's end"), b.now)
    asked = b.now
    assert (await b.ask()).items
    extra = b.record["waited_ms"] / 1000
    assert extra == 1.0 and asked + extra < b.now <= asked + extra + 0.4 + b.client.step_s(64)
