"""The completion list's form of a suggestion: the same document afterwards, and an entry that clients keep and show."""

from __future__ import annotations

import asyncio
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lsprotocol import types

from context.text import Text
from context.types import DocumentSnapshot
from lsp_server import forms
from lsp_server.answers.generation import Said
from lsp_server.answers.offer import offer
from lsp_server.plain_completion import MAX_LABEL
from lsp_server.types import Completion, CompletionQuery, Item, Superseded
from tests.lsp_server.conftest import House, Script, build
from tests.support.client import CANCELLED, CONTENT_MODIFIED, INVALID_PARAMS, Json, in_loop, position, span

URI = "file:///w/app/main.py"
METHOD_NOT_FOUND = -32601
ON = {"completion": True}
UNITS = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
WIDTH = {"utf-8": 1, "utf-16": 2, "utf-32": 4}


def applied(text: str, where: types.Range, new: str, encoding: str) -> str:
    """The document after an edit, by way of encoded lines; nothing of the product's own arithmetic."""
    starts = [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]

    def index(at: types.Position) -> int:
        line = re.split(r"\r\n|\r|\n", text[starts[at.line] :])[0].encode(UNITS[encoding])
        return starts[at.line] + len(line[: at.character * WIDTH[encoding]].decode(UNITS[encoding]))

    return text[: index(where.start)] + new + text[index(where.end) :]


PARTS = [
    *("a", "foo", "self.", "x = ", "(", ")", "[", "]", "{", "}", "'", '"', ":", ",", " ", "    ", "\t", "_b", "9"),
    *("é", "e\u0301", "ﬁ", "漢字", "🦊", "👩‍👩‍👧", "\f", "\x85", "\u2028", "\ufeff"),
    *("\n", "\r\n", "\r", "return ", "def f():", "# "),
]
pieces = st.lists(st.sampled_from(PARTS), max_size=12).map("".join)


@settings(max_examples=600, deadline=None)
@given(pieces, pieces, pieces, st.sampled_from(sorted(UNITS)), st.booleans())
@example("x = foo(ba", ")\n", "r, 9)\n", "utf-16", True)
@example("🦊.漢", '")\r\nb\r\n', '字(\n    "🦊")\nreturn', "utf-16", False)
@example("", "", "return 1\n", "utf-8", True)
@example("if a:\r\n    ", "", "return 漢字\n    a", "utf-32", True)
@example("x" * 3000 + "(", ")", "y)", "utf-16", True)
def test_both_forms_lead_to_the_same_document(before: str, after: str, generated: str, encoding: str, whole: bool) -> None:
    text = Text.of(before + after)
    snapshot = DocumentSnapshot(URI, 1, "python", text)
    offset = text.floor(len(before.encode()))
    query = CompletionQuery(snapshot, offset, False, None, 0.0, is_plain=True)
    item, _ = offer(Said(0, generated, whole), query, snapshot, offset)
    if item is None:
        return
    completion = Completion(7, (item,), "")
    (inline,) = forms.INLINE.to_list(completion, query, encoding).items
    listed = forms.PLAIN.to_list(completion, query, encoding)
    (entry,) = listed.items
    edit = entry.text_edit
    assert isinstance(edit, types.TextEdit) and inline.range is not None and isinstance(inline.insert_text, str)
    document = text.bytes().decode()
    assert applied(document, edit.range, edit.new_text, encoding) == applied(
        document, inline.range, inline.insert_text, encoding
    )
    # what the specification and clients ask of it
    assert listed.is_incomplete
    assert edit.range.start.line == edit.range.end.line
    cursor = types.Position(edit.range.start.line, 10**6)
    assert edit.range.start <= edit.range.end <= cursor
    head = text.slice(_offset(document, edit.range.start, encoding), offset).decode()
    assert re.fullmatch(r"\w*", head), "the range begins inside the word before the cursor"
    assert (entry.filter_text or edit.new_text).startswith(head)
    assert "\n" not in entry.label and 0 < len(entry.label) <= MAX_LABEL and entry.label == entry.label.strip()
    assert entry.command == inline.command


def _offset(document: str, at: types.Position, encoding: str) -> int:
    marked = applied(document, types.Range(at, at), "\0", encoding)
    return len(marked[: marked.index("\0")].encode())


Entry = types.CompletionItem


def listed(before: str, text: str, after: str = "\n", start: int | None = None, n_behind: int = 0) -> Entry | None:
    """The entry for an item that replaces the line's text before the cursor (or from `start`) by `text`."""
    snapshot = DocumentSnapshot(URI, 1, "python", Text.of(before + after))
    offset = len(before.encode())
    first = before.rfind("\n") + 1 if start is None else start
    query = CompletionQuery(snapshot, offset, False, None, 0.0, is_plain=True)
    entries = forms.PLAIN.to_list(Completion(3, (Item(first, offset + n_behind, text),), ""), query, "utf-16").items
    return entries[0] if entries else None


def test_an_entry() -> None:
    entry = listed("    x = foo(ba", "    x = foo(bar, baz)", after=")\n", n_behind=1)
    assert entry == types.CompletionItem(
        label="bar, baz)",
        kind=types.CompletionItemKind.Text,
        detail="midfill",
        preselect=False,
        sort_text="!",
        filter_text="bar, baz)",
        insert_text_format=types.InsertTextFormat.PlainText,
        insert_text_mode=types.InsertTextMode.AsIs,
        text_edit=types.TextEdit(types.Range(types.Position(0, 12), types.Position(0, 15)), "bar, baz)"),
        command=types.Command("Suggestion accepted", "midfill.accepted", arguments=[3]),
    )


def test_more_lines_are_shown_beside_the_list() -> None:
    entry = listed("if a:", "if a:\r\n\tfirst()\r\n\tsecond()")
    assert entry is not None
    assert (entry.label, entry.filter_text) == ("first()", None)
    assert entry.documentation == "\n\tfirst()\n\tsecond()"


def test_a_long_line_is_shortened_and_shown_in_full_beside_the_list() -> None:
    entry = listed("x = ", "x = " + "word " * 40)
    assert entry is not None
    assert len(entry.label) <= MAX_LABEL and entry.label.endswith("word…")
    assert entry.documentation == "word " * 40 == entry.filter_text


@pytest.mark.parametrize(
    ("before", "text", "start", "n_behind"),
    [("a\nb", "a\nbc", 0, 0), ("ab", "xbc", 0, 0), ("ab", "b", 3, 0), ("ab", "abc", 0, 2)],
    ids=["begins on another line", "says something else", "begins behind the cursor", "ends on another line"],
)
def test_what_no_entry_can_hold_is_left_out(before: str, text: str, start: int, n_behind: int) -> None:
    assert listed(before, text, start=start, n_behind=n_behind) is None


# --- the method


async def started(client: object, text: str = "a = ", options: object = ON) -> Json:
    answer: Json = await client.initialize(options=options)  # type: ignore[attr-defined]
    client.open(URI, text)  # type: ignore[attr-defined]
    capabilities: Json = answer["result"]["capabilities"]
    return capabilities


@in_loop
async def test_it_is_off_unless_asked_for(house: House) -> None:
    async with house.client() as client:
        assert "completionProvider" not in await started(client, options=None)
        assert (await client.plain(URI, 0, 4))["error"]["code"] == METHOD_NOT_FOUND
        assert house.script.queries == []
        assert (await client.inline(URI, 0, 4))["result"]["items"]


@in_loop
async def test_it_is_advertised_and_answers_beside_inline_completion(house: House) -> None:
    async with house.client() as client:
        capabilities = await started(client, "a = foo\n")
        assert capabilities["completionProvider"] == {"triggerCharacters": ["."], "resolveProvider": False}
        assert "inlineCompletionProvider" in capabilities
        result = (await client.plain(URI, 0, 7, triggerKind=3))["result"]
        assert result["isIncomplete"] is True
        (entry,) = result["items"]
        assert entry["textEdit"] == {"range": span(0, 4, 0, 7), "newText": "foox"}
        assert (await client.inline(URI, 0, 7))["result"]["items"][0]["insertText"] == "a = foox"
        assert [query.is_plain for query in house.script.queries] == [True, False]
        await client.command(entry["command"]["command"], *entry["command"]["arguments"])
        assert house.script.of("accepted") == [("accepted", 8)]


@pytest.mark.parametrize(
    ("place", "context", "invoked"),
    [
        (4, {"triggerKind": 1}, True),  # behind a blank nobody asks but by hand
        (7, {"triggerKind": 1}, False),  # may be a word that is being typed
        (4, {"triggerKind": 2, "triggerCharacter": "."}, False),
        (4, {"triggerKind": 3}, False),
        (4, {}, False),
    ],
)
@in_loop
async def test_what_was_asked_for_by_hand(place: int, context: Json, invoked: bool) -> None:
    house = build()
    async with house.client() as client:
        await started(client, "a = foo\n")
        assert (await client.plain(URI, 0, place, **context))["result"]["items"]
        assert house.script.queries[0].invoked is invoked


@pytest.mark.parametrize(
    "params",
    [
        None,
        {"textDocument": {"uri": URI}},
        {"textDocument": {"uri": URI}, "position": position(0, -1)},
        {"position": position(0, 0)},
        {"textDocument": {"uri": URI}, "position": position(0, 0), "context": {"triggerKind": "often"}},
    ],
)
@in_loop
async def test_parameters_that_make_no_sense(params: object) -> None:
    house = build()
    async with house.client() as client:
        await started(client)
        assert (await client.request("textDocument/completion", params))["error"]["code"] == INVALID_PARAMS
        assert (await client.plain(URI, 0, 4))["result"]["items"]


@in_loop
async def test_silence_is_an_incomplete_list_and_has_its_reason(house: House) -> None:
    nothing = {"isIncomplete": True, "items": []}
    async with house.client() as client:
        await started(client)
        for uri, reason in [("file:///w/app/.env", "exclude"), ("file:///w/other.py", "not open")]:
            if "env" in uri:
                client.open(uri, "KEY=")
            assert (await client.plain(uri, 0, 4))["result"] == nothing
            assert reason in (await client.command("midfill.explain"))["result"]["reason"]
        assert house.script.queries == []


@in_loop
async def test_a_fault_is_an_empty_list() -> None:
    def fail(_query: CompletionQuery) -> Completion:
        raise ValueError("zz-inner-zz")

    house = build(Script(reply=fail))
    async with house.client() as client:
        await started(client)
        answer = await client.plain(URI, 0, 4)
        assert answer["result"] == {"isIncomplete": True, "items": []}
        assert "ValueError" in (await client.command("midfill.explain"))["result"]["reason"]


@in_loop
async def test_cancelled_and_superseded_have_their_codes() -> None:
    def superseded(_query: CompletionQuery) -> Completion:
        raise Superseded

    house = build(Script(reply=superseded, gate=asyncio.Event()))
    async with house.client() as client:
        await started(client)
        first, second = client.ask_plain(URI, 0, 4), client.ask_plain(URI, 0, 4)
        client.cancel(first)
        assert (await client.answer(first))["error"]["code"] == CANCELLED
        assert house.script.gate is not None
        house.script.gate.set()
        assert (await client.answer(second))["error"]["code"] == CONTENT_MODIFIED
        assert client.answers[first] == client.answers[second] == 1


@in_loop
async def test_a_setting_that_comes_too_late_is_told(house: House) -> None:
    async with house.client(configuration=[{"completion": True}]) as client:
        await client.initialize(capabilities={"workspace": {"configuration": True}})
        message = await client.until(lambda m: m.get("method") == "window/showMessage")
        assert "initializationOptions" in message["params"]["message"]
        assert (await client.plain(URI, 0, 0))["error"]["code"] == METHOD_NOT_FOUND
