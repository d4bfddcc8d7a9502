"""From what was said to the item: its range, its line ends, and that typing on changes nothing."""

from __future__ import annotations

import asyncio

import pytest

from context.syntax import SyntaxTree, parse
from context.text import Edit, Text
from context.types import DocumentSnapshot
from lsp_server.answers import offer as offer_module
from lsp_server.answers.generation import Said
from lsp_server.answers.offer import as_if_selected, judge_of, offer, offers, place_at, wants_line
from lsp_server.rules.confidence import silent_below
from lsp_server.rules.judge import Judge
from lsp_server.rules.settled import Settled
from lsp_server.types import CompletionQuery, Item, Selected
from tests.lsp_server.test_session import Bench, virtual


def query_of(document: str, language: str = "python", *, invoked: bool = False) -> CompletionQuery:
    before, after = document.split("$0")
    snapshot = DocumentSnapshot("file:///a.py", 1, language, Text.of(before + after))
    return CompletionQuery(snapshot, len(before.encode()), invoked, None, 0.0)


def item_of(document: str, rest: str, language: str = "python", *, whole: bool = True) -> Item | None:
    query = query_of(document, language)
    return offer(Said(0, rest, whole), query, query.snapshot, query.offset)[0]


@pytest.mark.parametrize(
    ("document", "says", "want"),
    [
        ("x = $0\n", "1", Item(0, 4, "x = 1")),
        ("    x = $0\n", "1", Item(4, 8, "x = 1")),
        ("f($0)\n", "x", Item(0, 2, "f(x")),
        ("f($0)\n", "x)", Item(0, 3, "f(x)")),
        ("f($0);\n", "x)", Item(0, 4, "f(x);")),  # up to the line's end
        ("f($0)  \n", "x)", Item(0, 3, "f(x)")),
        ("f(g($0))\n", "x)", Item(0, 6, "f(g(x))")),
        ("f($0, y)\n", "x", Item(0, 2, "f(x")),
        ("é = f($0ü)\n", "1, ü", Item(0, 10, "é = f(1, ü)")),
        ("if x:\r\n    $0\r\nend\r\n", "a\n    b", Item(11, 11, "a\r\n    b")),
        ("a = [$0]\rb = ]\r", "1]]", Item(0, 6, "a = [1]")),  # a lone CR ends a line, and no range goes over it
        ("\ufeffx = $0\n", "1", Item(0, 7, "\ufeffx = 1")),
    ],
)
def test_ranges(document: str, says: str, want: Item) -> None:
    assert item_of(document, says) == want


def test_a_very_long_line_is_looked_at_as_far_as_it_counts() -> None:
    item = item_of("x = [" + "1, " * 5000 + "$0" + "2, " * 5000 + "]\n", "3, ")
    assert item == Item(15005, 15005, "3, ") or item == Item(15005, 15005, "3,")
    place = place_at(query_of("a\n" * 5000 + "$0" + "b\n" * 5000).snapshot, 10_000)
    assert not place.is_start and not place.is_end and len(place.before) < 5000


def test_what_is_typed_on_does_not_change_what_is_left() -> None:
    whole = "total = read(item)\n    if total:\n        return total\n    return 0\n\n\ndef other"
    query = query_of("def foo(item):\n    $0\n")
    first, settled = offer(Said(0, whole, False, is_line=False), query, query.snapshot, query.offset)
    assert first is not None and settled.rules == ("scope",)
    shown = first.text[: first.text.index("return 0") + 8]
    for n in range(1, len(shown)):
        since = whole[:n]
        now = query_of("def foo(item):\n    " + since + "$0\n")
        left, _ = offer(Said(0, whole[n:], False, since, is_line=False), now, now.snapshot, now.offset)
        assert left is not None
        assert since + left.text.encode()[now.offset - left.start :].decode() == shown, since
    now = query_of("def foo(item):\n    " + shown + "$0\n")
    left, settled = offer(Said(0, whole[len(shown) :], False, shown, is_line=False), now, now.snapshot, now.offset)
    assert left is None


def test_who_types_a_suggestion_through_has_it_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []

    class Counted(Judge):
        def settle(self, *, is_whole: bool = False) -> Settled:
            judged.append(self.text)
            return super().settle(is_whole=is_whole)

    monkeypatch.setattr(offer_module, "Judge", Counted)
    whole = "counted = read(item)"
    for n in range(1, len(whole)):
        query = query_of(f"def count(item):\n    {whole[:n]}$0\n")
        item, _ = offer(Said(0, whole[n:], True, whole[:n]), query, query.snapshot, query.offset)
        assert item is not None and item.text == whole
    assert judged == [whole]
    offer(Said(0, whole[n:] + "[0]", True, whole[:n]), query, query.snapshot, query.offset)
    assert judged == [whole, whole + "[0]"], "more was said"


@pytest.mark.parametrize("n", range(1, len("(value")))
def test_a_closer_that_came_behind_the_cursor_while_one_typed_on_is_not_doubled(n: int) -> None:
    """The text began before the bracket was typed, which the editor has closed."""
    whole, line = "(value)", "    print"
    now = query_of("def foo(item):\n" + line + whole[:n] + "$0)\n")
    left, settled = offer(Said(0, whole[n:], True, whole[:n], is_line=True), now, now.snapshot, now.offset)
    assert left is not None and settled.n_replaced == 1
    text = now.snapshot.text.edit(left.start, left.end, left.text.encode())
    assert text.slice(0, len(text)).decode() == "def foo(item):\n    print(value)\n"


def test_the_popups_entry_is_parsed_as_if_it_was_typed() -> None:
    text = Text.of("import os\n\nx = o\n")
    snapshot = DocumentSnapshot("file:///a.py", 1, "python", text)
    query = CompletionQuery(snapshot, 16, False, Selected(15, 16, "os"), 0.0)
    tree = parse("python", text)
    assert isinstance(tree, SyntaxTree)
    as_typed, offset = as_if_selected(query)
    item, settled = offer(Said(0, ".path = = 1 + 2 3", True), query, as_typed, offset, tree)
    assert "syntax" in settled.rules and settled.notes == ()
    item, _ = offer(Said(0, ".path", True), query, as_typed, offset, tree)
    assert item == Item(15, 16, "os.path")


def test_a_text_that_has_changed_meanwhile() -> None:
    query = query_of("a\nlast = $0\nb\n")
    said = [Said(0, "1", True)]
    for edit, fits in (
        (Edit(9, 9, b"1"), True),  # typed on
        (Edit(11, 11, b"c"), True),  # below
        (Edit(0, 1, b"b"), True),  # above
        (Edit(0, 1, b"bcd"), True),
        (Edit(0, 0, b"c\n"), False),  # it has moved
        (Edit(1, 9, b""), False),  # its line is gone
        (Edit(2, 6, b"LAST"), False),
    ):
        now = query.snapshot.text.edit(edit.start, edit.end, edit.new)
        told = offers(said, query, query.snapshot, query.offset, now=now)
        assert bool(told.items) is fits, edit
        assert fits or told.reason == "the text has changed meanwhile"


def test_what_the_model_is_not_sure_of_is_shown_to_who_asks_by_hand() -> None:
    assert silent_below("qwen2.5-coder-0.5b") == -1.0 and silent_below("fake") is None, "it is another model"
    unsure = [Said(0, "1", True, mean_logprob=-2.0)]
    query = query_of("x = $0\n")
    told = offers(unsure, query, query.snapshot, query.offset, least=-1.0)
    assert not told.items and "not sure enough (-2.30" in told.reason and told.notes == ("rules: confidence",)
    assert offers(unsure, query, query.snapshot, query.offset).items
    query = query_of("x = $0\n", invoked=True)
    assert offers(unsure, query, query.snapshot, query.offset, least=-1.0).items


def test_how_sure_it_is_of_a_text_does_not_change_while_one_types_it() -> None:
    """And is asked of what is offered, not of what was said behind it."""
    text, tokens = "foo(bar)\nnonsense", ((3, -0.5), (4, -0.1), (8, -0.6), (9, -9.0), (17, -9.0))
    for n in (0, 2, 4, 6):
        query = query_of("x = " + text[:n] + "$0\n")
        said = Said(0, text[n:], False, text[:n], None, True, "line", tokens)
        item, settled = offer(said, query, query.snapshot, query.offset, least=-0.5)
        assert item is not None and settled.confidence == pytest.approx(-0.4), n
        item, settled = offer(said, query, query.snapshot, query.offset, least=-0.3)
        assert item is None and "not sure enough" in settled.reason, n


@virtual
async def test_an_automatic_request_is_silent_where_the_model_guesses_and_says_why() -> None:
    for script, shown in (("value\n", True), (None, False)):  # without a script it is the likeliest of many
        b = Bench("x = ", script=script, reply_deadline_ms=0)
        b.client.model_name = "qwen2.5-coder-0.5b"
        automatic = await b.ask()
        assert bool(automatic.items) is shown
        assert shown or "not sure enough" in b.record["reason"], b.record["reason"]
        assert b.client.requests[-1].n_logprobs == 16
        assert (await b.ask(invoked=True)).items, "by hand all is shown"
    b = Bench("x = ", script=None, reply_deadline_ms=0)
    assert (await b.ask()).items and b.client.requests[-1].n_logprobs == 0, "another model"


LONG_LITERALS = [
    ("python", '"""', "def f():\n    return 1\n", '"""Say (it.\n' + "It's more of {it.\n" * 300 + '"""\n'),
    ("javascript", "`", "f({a: 1});\n", "const a = `(\n" + "it's {more\n" * 500 + "`;\n"),
    ("go", "/*", "var x = f(1)\n", "/* (\n" + "it's {more\n" * 500 + "*/\n"),
]


@pytest.mark.parametrize(("language", "opener", "code", "literal"), LONG_LITERALS)
def test_a_look_back_that_begins_inside_of_a_string_or_comment(language: str, opener: str, code: str, literal: str) -> None:
    """The tree tells so, also one that was only moved along; a line below is code, with the brackets that are open there."""
    for more in (code, "", 2 * code):
        document = code + literal + more + "g([h("
        text = Text.of(document)
        tree = parse(language, Text.of(document.removesuffix("h(")))
        assert isinstance(tree, SyntaxTree)
        tree = tree.edited((Edit(len(text) - 2, len(text) - 2, b"h("),), text)
        snapshot = DocumentSnapshot("file:///a", 1, language, text)
        place = place_at(snapshot, len(text), tree=tree)
        assert place.lead == opener and len(place.before) < len(document)
        assert (place.scanner().inside, place.scanner().open) == ("", ["(", "[", "("])
        inside = place_at(snapshot, len(text) - len(more + "g([h(") - 8, tree=tree)
        assert inside.lead == opener and inside.scanner().inside
        far = place_at(snapshot, len(text))
        assert far.lead == "" and far.before == place.before


def test_a_tree_changes_nothing_where_the_text_tells_the_same() -> None:
    document = 'import os\n\n\ndef f(a, b=("x", 1)):\n    """Say it."""\n    s = f"{a} # {b}"\n    return [s, {"k": a}]  # so\n'
    text = Text.of(document)
    tree = parse("python", text)
    assert isinstance(tree, SyntaxTree)
    snapshot = DocumentSnapshot("file:///a", 1, "python", text)
    for offset in range(len(text) + 1):
        with_tree, without = place_at(snapshot, offset, tree=tree).scanner(), place_at(snapshot, offset).scanner()
        assert (with_tree.inside, with_tree.open, with_tree.closer) == (without.inside, without.open, without.closer), offset


def test_a_block_is_wanted_after_an_accept() -> None:
    query = query_of("def f():\n    x = read(item)$0\n")
    assert wants_line(query.snapshot, query.offset) and not wants_line(query.snapshot, query.offset, accepted=True)
    judge = judge_of(query.snapshot, query.offset, single_line=False)
    judge.push("\n    return x\n\n\ndef g")
    assert judge.stop is not None and judge.text[: judge.stop.n_kept].rstrip() == "\n    return x"


@virtual
async def test_a_generation_ends_for_everybody_where_nothing_more_is_worth_having() -> None:
    said = "value = 1\n    return value\n\n\ndef foo():\n    print(value)\n" * 2
    b = Bench("def bar():\n    ", script=said, reply_deadline_ms=0, max_tokens=200)
    first = b.start()
    await asyncio.sleep(0.1)
    assert b.accept(await b.ask()) == "def bar():\n    value = 1\n    return value\n"
    assert b.record["source"] == "adopted" and b.record["finish"] == "stop"
    assert any("rules: scope" in note for note in b.record["notes"])
    await b.client.idle()
    n = len(b.client.vocab.encode(said[: said.index("def foo")].encode()))
    assert b.client.counters().generated <= n + 2
    assert first.done()
    b.type("value = 1")
    n_steps = b.client.counters().n_steps
    assert b.accept(await b.ask()) == "def bar():\n    value = 1\n    return value\n"
    assert b.client.counters().n_steps == n_steps


@virtual
async def test_why_nothing_is_offered_is_told_also_where_a_rule_has_ended_it() -> None:
    b = Bench(
        "def foo():\n    ", "\n    total = read(item)\n", script="total = read(item)\n    value = 1\n", reply_deadline_ms=0
    )
    assert (await b.ask()).reason == b.record["reason"] == "what was generated stands on the lines below already"
    b = Bench("x = ", script="<|fim_middle|>1\n", reply_deadline_ms=0)
    assert (await b.ask()).reason == "the model ends here"
