"""The text rules, one line each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.postprocess import settle, trim


@pytest.mark.parametrize(
    ("text", "single", "whole", "after", "want"),
    [
        ("a + b\n    c\n", True, True, "\nrest", "a + b"),
        ("a + b  ", True, False, "\nrest", "a + b"),
        ("\n    next", True, True, "\n", ""),
        ("   ", False, True, "", ""),
        ("a\nb\nhalf a li", False, False, "\n", "a\nb"),
        ("half a li", False, False, "\n", "half a li"),
        ("a\nb\n", False, True, "\nmore", "a\nb"),
        ("print('hi')\n", False, True, "", "print('hi')\n"),
        ("x = 1\nx = 1\nx = 1\nx = 1", False, True, "\n", "x = 1"),
        ("x = 1\n\n\n\ny = 2", False, True, "\n", "x = 1\n\n\n\ny = 2"),
        ("a = 1\ndef after():\n    pass", False, True, "\n\ndef after():\n    return", "a = 1"),
        ("a = 1\n}\nb", False, True, "\n}\n", "a = 1\n}\nb"),  # too short to be told apart
    ],
)
def test_trim(text: str, single: bool, whole: bool, after: str, want: str) -> None:
    assert trim(text, single_line=single, is_whole=whole, after=after) == want


@pytest.mark.parametrize(
    ("text", "rest", "n"),
    [
        ("argv", ")", 0),
        ("a, b)", ")", 1),
        ("a, (b))", ")", 1),
        ("a, (b", ")", 0),
        ("a)", ");", 1),
        ("a);", ");", 2),
        ("ok", "'", 0),
        ("ok'", "'", 1),
        ("ok')", "')", 2),
        ("f('x')", ")", 0),  # its closer is its own
        ("f('x'))", ")", 1),
        ("a[0]", "]", 0),
        ("b + c", " + c", 4),
        ("f(x);", ";", 1),
        ("'a' + b", "", 0),
        ("x", " + y", 0),
        ("1], 2", "])", 1),
        ("", ")", 0),
        ("it's)", ")", 1),
    ],
)
def test_settle(text: str, rest: str, n: int) -> None:
    assert settle(text, rest) == (text, n)


@given(st.text("ab()[]{}'\"\\ \n"), st.text("ab()[]'\"; "))
def test_settle_replaces_a_beginning_of_the_rest(text: str, rest: str) -> None:
    got, n = settle(text, rest)
    assert got == text and 0 <= n <= len(rest)
    # only closers, quotes and blanks are replaced, or a tail that the text repeats
    assert all(c in ")]}'\"`; " for c in rest[:n]) or text.endswith(rest[:n])
