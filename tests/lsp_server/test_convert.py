"""Positions against a reference that knows nothing of bytes, over texts that break naive arithmetic."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lsprotocol import types

from context.text import Text
from context.types import DocumentSnapshot
from lsp_server.convert import offset_of, position_of, to_list, to_query
from lsp_server.types import Completion, Item

ENCODINGS = ("utf-8", "utf-16", "utf-32")
# one, two, three and four bytes; combining; what str.splitlines takes for line ends; the real line ends; a byte order mark
ALPHABET = [
    *("a", " ", "é", "e\u0301", "ﬁ", "漢", "🦊", "👩‍👩‍👧"),
    *("\f", "\v", "\x1c", "\x85", "\u2028", "\u2029", "\n", "\r\n", "\r", "\ufeff"),
]
texts = st.lists(st.sampled_from(ALPHABET), max_size=20).map("".join)
encodings = st.sampled_from(ENCODINGS)


def lines_of(text: str) -> list[str]:
    return re.split(r"\r\n|\r|\n", text)


def starts_of(text: str) -> list[int]:
    return [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]


def n_units(text: str, encoding: str) -> int:
    return {"utf-8": len(text.encode()), "utf-16": len(text.encode("utf-16-le")) // 2, "utf-32": len(text)}[encoding]


def reference(text: str, line: int, character: int, encoding: str) -> tuple[int, bool]:
    """(byte offset, was it inside a character), one character at a time."""
    lines, starts = lines_of(text), starts_of(text)
    if line >= len(lines):
        return len(text.encode()), False
    taken = ""
    for one in lines[line]:
        if n_units(taken + one, encoding) > character:
            break
        taken += one
    inside = n_units(taken, encoding) < character < n_units(lines[line], encoding)
    return len(text[: starts[line]].encode()) + len(taken.encode()), inside


LONG = {"ascii": "abc" * 3000, "wide": "é漢🦊a" * 1000, "late": "a" * 5000 + "🦊" * 5, "tabs": "\t" * 4000 + "x"}


@pytest.mark.parametrize("name", list(LONG))
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_columns_of_a_long_line(name: str, encoding: str) -> None:
    """Longer than a leaf of the text: columns are counted over its borders."""
    line = LONG[name]
    document = Text.of(f"x\n{line}\r\ny")
    assert document.n_leaves > 2
    at, units = 2, 0
    for character in line:
        assert offset_of(document, 1, units, encoding) == at
        if at % 7 == 0:
            assert position_of(document, at, encoding) == types.Position(1, units)
        if n_units(character, encoding) == 2:  # inside a pair, or of bytes
            assert offset_of(document, 1, units + 1, encoding) == at
            with pytest.raises(ValueError, match="inside a character"):
                offset_of(document, 1, units + 1, encoding, strict=True)
        at, units = at + len(character.encode()), units + n_units(character, encoding)
    for beyond in (0, 1, 1000):
        assert offset_of(document, 1, units + beyond, encoding, strict=True) == at
    assert position_of(document, at, encoding) == types.Position(1, units)


@settings(max_examples=200, deadline=None)
@given(texts, st.integers(0, 12), st.integers(0, 40), encodings)
@example("🦊🦊 = 1\n", 0, 3, "utf-16")
@example("only line", 1, 0, "utf-16")
@example("a\r\nb", 0, 2, "utf-8")
def test_offset_equals_the_reference(text: str, line: int, character: int, encoding: str) -> None:
    wanted, inside = reference(text, line, character, encoding)
    document = Text.of(text)
    assert offset_of(document, line, character, encoding) == wanted
    if inside:
        with pytest.raises(ValueError, match="inside a character"):
            offset_of(document, line, character, encoding, strict=True)
    else:
        assert offset_of(document, line, character, encoding, strict=True) == wanted


@settings(max_examples=200, deadline=None)
@given(texts, encodings)
def test_every_place_between_characters_goes_there_and_back(text: str, encoding: str) -> None:
    document = Text.of(text)
    for line, (start, content) in enumerate(zip(starts_of(text), lines_of(text), strict=True)):
        for i in range(len(content) + 1):
            offset = len(text[: start + i].encode())
            position = position_of(document, offset, encoding)
            assert (position.line, position.character) == (line, n_units(content[:i], encoding))
            assert offset_of(document, line, position.character, encoding, strict=True) == offset


@settings(max_examples=100, deadline=None)
@given(texts, encodings, st.integers(0, 200))
def test_any_offset_has_a_position_at_or_before_it(text: str, encoding: str, offset: int) -> None:
    document = Text.of(text)
    offset = min(offset, len(document))
    position = position_of(document, offset, encoding)
    assert offset_of(document, position.line, position.character, encoding, strict=True) <= offset


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_long_line_beyond_one_chunk(encoding: str) -> None:
    text = "é🦊a" * 5000
    document = Text.of(text)
    for n in (0, 1, 4999, 5000):
        at = n * n_units("é🦊a", encoding)
        assert offset_of(document, 0, at, encoding) == 7 * n
        assert position_of(document, 7 * n, encoding).character == at


def snapshot(text: str) -> DocumentSnapshot:
    return DocumentSnapshot("file:///a.py", 1, "python", Text.of(text))


def params(line: int, character: int, info: types.SelectedCompletionInfo | None = None) -> types.InlineCompletionParams:
    return types.InlineCompletionParams(
        types.InlineCompletionContext(types.InlineCompletionTriggerKind.Automatic, info),
        types.TextDocumentIdentifier("file:///a.py"),
        types.Position(line, character),
    )


@settings(max_examples=100, deadline=None)
@given(texts, st.integers(0, 200), st.text(alphabet="ab🦊\n", max_size=8), encodings)
def test_an_item_is_applied_by_the_client_as_we_meant_it(text: str, at: int, new: str, encoding: str) -> None:
    """The client replaces the range on its own copy; the range lies on one line and the item begins with the text before."""
    document = Text.of(text)
    offset = document.floor(min(at, len(document)))
    line = document.line_of(offset)
    start, end = document.line_start(line), document.line_end(line)
    offset = min(offset, end)
    item = Item(start, end, document.slice(start, offset).decode() + new)
    sent = to_list(Completion(3, (item,), ""), snapshot(text), encoding).items[0]
    assert sent.range is not None
    first, last = sent.range.start, sent.range.end
    assert first.line == last.line
    a, _ = reference(text, first.line, first.character, encoding)
    b, _ = reference(text, last.line, last.character, encoding)
    raw = text.encode()
    assert isinstance(sent.insert_text, str)
    assert sent.insert_text.startswith(raw[a:offset].decode())
    applied = raw[:a] + sent.insert_text.encode() + raw[b:]
    assert applied == raw[:offset] + new.encode() + raw[end:]


def test_a_reversed_selection_is_no_selection() -> None:
    span = types.Range(types.Position(0, 3), types.Position(0, 1))
    query = to_query(params(0, 3, types.SelectedCompletionInfo(span, "x")), snapshot("abc"), "utf-16", 1.5)
    assert query.selected is None
    assert (query.offset, query.received, query.invoked) == (3, 1.5, False)


@pytest.mark.parametrize("span", [((0, 0), (1, 1)), ((1, 0), (1, 2)), ((0, 0), (0, 1)), ((5, 0), (6, 0))])
def test_a_selection_away_from_the_cursor_or_over_lines_is_no_selection(span: tuple[tuple[int, int], tuple[int, int]]) -> None:
    chosen = types.SelectedCompletionInfo(types.Range(types.Position(*span[0]), types.Position(*span[1])), "x")
    assert to_query(params(0, 3, chosen), snapshot("abcd\nefgh\n"), "utf-16", 0.0).selected is None


def test_a_selection_at_the_cursor_is_taken() -> None:
    chosen = types.SelectedCompletionInfo(types.Range(types.Position(0, 1), types.Position(0, 3)), "bcd")
    selected = to_query(params(0, 3, chosen), snapshot("abcd\n"), "utf-16", 0.0).selected
    assert selected is not None and (selected.start, selected.end, selected.text) == (1, 3, "bcd")


def test_a_request_inside_a_pair_is_rounded_down() -> None:
    assert to_query(params(0, 1), snapshot("🦊"), "utf-16", 0.0).offset == 0
