"""What a text replaces behind the cursor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.rules.fitting import fit, n_overlap


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
def test_fit(text: str, rest: str, n: int) -> None:
    assert fit(text, rest) == (text, n)


@given(st.text("ab()[]{}'\"\\ \n"), st.text("ab()[]'\"; "))
def test_fit_replaces_a_beginning_of_the_rest(text: str, rest: str) -> None:
    got, n = fit(text, rest)
    assert got == text and 0 <= n <= len(rest)
    # only closers, quotes and blanks are replaced, or a tail that the text repeats
    assert all(c in ")]}'\"`; " for c in rest[:n]) or text.endswith(rest[:n])


@pytest.mark.parametrize(
    ("text", "rest", "n"),
    [
        ("x, bar", "bar, baz)", 3),
        ("bar", "bar, baz)", 3),
        ("x, bar", "barn, baz)", 0),  # half a word
        ("foobar", "bar)", 0),
        ("2 * x", "x)", 1),
        ("x, None", ", None)", 6),
        ("x,", ", y)", 0),
        ("x", "", 0),
    ],
)
def test_overlap(text: str, rest: str, n: int) -> None:
    assert n_overlap(text, rest) == n
