"""Prompt form: piecewise conversion, and the way back to lengths in the document."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context.prompt_form import BOM, n_document_head, n_document_tail, to_prompt
from context.text import Text

FRAGMENTS = ["\ufeff", "\r", "\n", "\r\n", "a", "é", "\r\r\n"]
texts = st.lists(st.sampled_from(FRAGMENTS), max_size=12).map(lambda p: "".join(p).encode())


@pytest.mark.parametrize(
    ("data", "at_start", "expected"),
    [
        (b"a\r\nb\r\n", True, b"a\nb\n"),
        (BOM + b"a", True, b"a"),
        (BOM + b"a", False, BOM + b"a"),
        (b"a" + BOM, True, b"a" + BOM),
        (b"a\rb\n\r", True, b"a\rb\n\r"),
        (b"", True, b""),
    ],
)
def test_what_is_dropped(data: bytes, at_start: bool, expected: bytes) -> None:
    assert to_prompt(data, at_start) == expected


@settings(max_examples=200, deadline=None)
@given(texts, st.data())
def test_pieces_join(data: bytes, draw: st.DataObject) -> None:
    text = Text.of(data)
    cut = text.floor(draw.draw(st.integers(0, len(data))))
    whole = to_prompt(data, True)
    assert to_prompt(data[:cut], True) + to_prompt(data[cut:], cut == 0) == whole
    begin = max(cut, len(BOM) if data.startswith(BOM) else 0)  # the mark has no length in the prompt form
    assert n_document_head(data, True, len(to_prompt(data[:cut], True))) == begin
    assert len(data) - n_document_tail(data, len(to_prompt(data[cut:], cut == 0))) == begin


def test_lengths() -> None:
    assert n_document_head(BOM + b"a\r\nb", True, 2) == 6
    assert n_document_head(b"a\r\nb", False, 99) == 4
    assert n_document_tail(b"a\r\n  ", 3) == 4
    assert n_document_tail(b"a\r\n", 99) == 3
