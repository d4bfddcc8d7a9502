"""Text: after any edits, bytes, lines and lookups equal those of a text made from the final bytes."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context.leaf import LEAF, leaf_size
from context.text import CHUNK, Edit, Text

FRAGMENTS = ["a", "xyz ", "\n", "\r", "\r\n", "é", "漢字", "😋", "\x0c", "\x85", "\u2028", "\n\r", "line of code\r\n", "\n\n"]

pieces = st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join)
documents = st.tuples(pieces, st.sampled_from([0, 1, 2, 17, 90, 400])).map(lambda t: (t[0] * t[1])[:3500])
news = st.one_of(pieces, st.just(""), st.tuples(pieces, st.just(200)).map(lambda t: (t[0] * t[1])[:4000]))
edits = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.booleans(), news), min_size=1, max_size=5)


def borders(data: bytes) -> list[int]:
    """Offsets that don't split a character."""
    return [i for i in range(len(data) + 1) if i == len(data) or data[i] & 0xC0 != 0x80]


def lines_of(data: bytes) -> list[tuple[int, int]]:
    """(start, end) of each line, found byte by byte."""
    lines, start, i = [], 0, 0
    while i < len(data):
        if data[i : i + 2] == b"\r\n":
            lines.append((start, i))
            i = start = i + 2
        elif data[i] in b"\r\n":
            lines.append((start, i))
            i = start = i + 1
        else:
            i += 1
    return [*lines, (start, len(data))]


def check(text: Text, data: bytes) -> None:
    """Everything that holds for a text with these bytes."""
    assert len(text) == len(data)
    assert text.bytes() == data
    expected = lines_of(data)
    assert text.n_lines == len(expected)
    assert [(text.line_start(k), text.line_end(k)) for k in range(text.n_lines)] == expected
    starts = [start for start, _ in expected]
    for k, (start, end) in enumerate(expected):
        assert text.line_of(start) == text.line_of(end) == k
        if end + 1 not in starts and end < len(data):
            assert text.line_of(end + 1) == k  # between CR and LF
    sizes = text.leaf_sizes()
    assert sum(sizes) == len(data)
    assert all(0 < size <= LEAF for size in sizes)
    assert len(sizes) <= len(data) // 250 + 2
    at = 0
    for size in sizes:
        assert text.floor(at) == at
        at += size
    fresh = Text.of(data)
    assert text == fresh
    assert hash(text) == hash(fresh)


@settings(max_examples=100, deadline=None)
@given(documents, edits)
def test_edits_equal_a_fresh_text(document: str, changes: list[tuple[float, float, bool, str]]) -> None:
    data = document.encode()
    text = Text.of(document)
    check(text, data)
    for at, to, at_leaf, new in changes:
        places = borders(data)
        if at_leaf:  # many mistakes live where leaves meet
            sums = [sum(text.leaf_sizes()[:k]) for k in range(text.n_leaves + 1)]
            start = sums[int(at * (len(sums) - 1))]
        else:
            start = places[int(at * (len(places) - 1))]
        rest = [p for p in places if p >= start]
        end = rest[int(to * to * to * (len(rest) - 1))]
        before, old = text, data
        edit = Edit(start, end, new.encode())
        data = old[:start] + edit.new + old[end:]
        text = before.edit(edit.start, edit.end, edit.new)
        assert text.n_copied <= len(edit.new) + CHUNK
        assert before.bytes() == old
        check(text, data)


@settings(max_examples=100, deadline=None)
@given(documents, st.floats(0, 1), st.floats(0, 1))
def test_slices_and_floor(document: str, a: float, b: float) -> None:
    data = document.encode()
    text = Text.of(data)
    places = borders(data)
    start, end = sorted((places[int(a * (len(places) - 1))], places[int(b * (len(places) - 1))]))
    assert text.slice(start, end) == data[start:end]
    any_offset = int(a * (len(data) + 4)) - 2
    expected = max((p for p in places if p <= any_offset and data[p - 1 : p + 1] != b"\r\n"), default=0)
    assert text.floor(any_offset) == expected


def test_typing_into_a_large_file_copies_little() -> None:
    text = Text.of("some line of code, as in most files\n" * 58_000)
    at = text.line_start(30_000)
    for i in range(3000):
        text = text.edit(at + i, at + i, b"x")
        assert text.n_copied <= 1 + CHUNK
    for i in range(3000, 0, -1):
        text = text.edit(at + i - 1, at + i, b"")
        assert text.n_copied <= CHUNK
    check_sizes = text.leaf_sizes()
    assert len(check_sizes) <= len(text) // 250 + 2
    assert text == Text.of("some line of code, as in most files\n" * 58_000)


@settings(max_examples=60, deadline=None)
@given(documents, edits)
def test_longer_leaves_hold_the_same(document: str, changes: list[tuple[float, float, bool, str]]) -> None:
    """As in a text of megabytes, where a leaf has more bytes."""
    with mock.patch("context.leaf._MANY", 1):
        text, data = Text.of(document), document.encode()
        for at, to, _, new in changes:
            places = borders(data)
            start = places[int(at * (len(places) - 1))]
            rest = [p for p in places if p >= start]
            end = rest[int(to * to * to * (len(rest) - 1))]
            longest = max(leaf_size(len(data)), leaf_size(len(new.encode())))
            data = data[:start] + new.encode() + data[end:]
            text = text.edit(start, end, new.encode())
            assert text.n_copied <= len(new.encode()) + 4 * longest
            assert text.bytes() == data and text == Text.of(data)
            assert [(text.line_start(k), text.line_end(k)) for k in range(text.n_lines)] == lines_of(data)


def test_a_long_text_has_longer_leaves_and_not_many_more() -> None:
    line = "some line of code, as in most files\n"
    short, long = Text.of(line * 58_000), Text.of(line * 580_000)
    assert max(short.leaf_sizes()) <= LEAF and short.n_leaves > 2000
    assert LEAF < max(long.leaf_sizes()) <= leaf_size(len(long)) and long.n_leaves <= 4400
    at = long.line_start(300_000)
    for i in range(300):
        long = long.edit(at + i, at + i, b"x")
        assert long.n_copied <= 1 + 4 * leaf_size(len(long))
    assert long.n_leaves <= 4400
    whole = long.edit(0, len(long), b"a\n")
    assert whole.bytes() == b"a\n" and whole.n_leaves == 1
    assert Text.of("a\n").edit(0, 2, long.bytes()).n_leaves <= 4400, "a whole text that comes as an edit"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([*FRAGMENTS, "\ud83d", "\ude0b", "\ud83d\ude0b"]), max_size=12).map("".join), st.integers(2, 5))
def test_a_string_that_is_encoded_in_blocks_is_the_same(document: str, block: int) -> None:
    whole = Text.of(document)
    with mock.patch("context.text._BLOCK", block):
        text = Text.of(document)
    assert text == whole and text.n_lines == whole.n_lines
    assert [text.floor(i) for i in range(len(text))] == [whole.floor(i) for i in range(len(text))]


@settings(max_examples=100, deadline=None)
@given(documents, st.floats(0, 1), st.floats(0, 1))
def test_pieces_joined_are_the_slice(document: str, a: float, b: float) -> None:
    data = document.encode()
    text, places = Text.of(data), borders(data)
    start, end = sorted((places[int(a * (len(places) - 1))], places[int(b * (len(places) - 1))]))
    pieces = list(text.pieces(start, end))
    assert b"".join(pieces) == data[start:end] and all(pieces)
    assert [text.splits(i) for i in range(len(data) + 1)] == [i not in places for i in range(len(data) + 1)]


def test_deleting_everywhere_leaves_no_crumbs() -> None:
    data = b"0123456789abcde\n" * 4096
    text = Text.of(data)
    while len(text) > 64:
        for at in range(len(text) - len(text) % 32 - 32, -1, -32):
            text = text.edit(at, at + 16, b"")
        assert text.n_leaves <= len(text) // 250 + 2


@pytest.mark.parametrize("forwards", [True, False])
def test_emptying_one_leaf_after_the_other_leaves_no_crumbs(forwards: bool) -> None:
    text = Text.of(b"x" * 200_000)
    for _ in range(text.n_leaves):
        sizes = text.leaf_sizes()
        full = [k for k, size in enumerate(sizes) if size > 900]
        if not full:
            break
        k = full[0 if forwards else -1]
        at = sum(sizes[:k])
        text = text.edit(at + 20, at + sizes[k], b"")
    assert len(text) < 20_000
    assert text.n_leaves <= len(text) // 250 + 2


def test_crlf_comes_together_and_apart() -> None:
    text = Text.of(b"a" * (LEAF * 3 - 24) + b"\r" + b"b" * 5000)
    assert text.n_lines == 2
    joined = text.edit(text.line_end(0) + 1, text.line_end(0) + 1, b"\n")
    check(joined, text.bytes().replace(b"\r", b"\r\n"))
    apart = joined.edit(joined.line_end(0) + 1, joined.line_end(0) + 1, b"x")
    check(apart, text.bytes().replace(b"\r", b"\rx\n"))


def test_only_three_line_ends() -> None:
    text = Text.of("a\x0cb\x0bc\x85d\u2028e\u2029f\x1cg\nh\r\ni\rj")
    assert text.n_lines == 4


def test_surrogates() -> None:
    assert Text.of("a\ud83d\ude0bb").bytes() == "a😋b".encode()
    assert Text.of("\udc80a\ud83d").bytes() == "\ufffda\ufffd".encode()
    assert Text.of("\ude0b\ud83d").bytes() == "\ufffd\ufffd".encode()


def test_equality_is_of_content() -> None:
    one = Text.of(b"abc" * 1000)
    other = Text.of(b"abc" * 999).edit(0, 0, b"abc")
    assert one == other
    assert hash(one) == hash(other)
    assert one != other.edit(5, 6, b"x")
    assert one != Text.of(b"abc")
    assert one != "abc"


def test_no_content_in_the_representation() -> None:
    assert "secret" not in repr(Text.of("secret = 1\n"))


@pytest.mark.parametrize(("start", "end"), [(3, 2), (-1, 2), (0, 99), (5, 6), (6, 7), (4, 5)])
def test_bad_ranges(start: int, end: int) -> None:
    text = Text.of("abcd😋\n")  # the character takes bytes 4 to 8
    with pytest.raises(ValueError):
        text.edit(start, end, b"x")
    with pytest.raises(ValueError):
        text.slice(start, end)
    assert text.bytes() == "abcd😋\n".encode()


def test_bad_bytes_and_lines() -> None:
    with pytest.raises(ValueError):
        Text.of(b"a\xff")
    with pytest.raises(ValueError):
        Text.of(b"ab").edit(1, 1, b"\xe6")
    with pytest.raises(ValueError):
        Text.of(b"a\nb").line_start(2)
    with pytest.raises(ValueError):
        Text.of(b"a\nb").line_end(-1)
    with pytest.raises(ValueError):
        Text.of(b"a\nb").line_of(4)
