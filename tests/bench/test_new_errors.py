"""Planted syntax errors and unknown names, and texts that only look like them."""

from __future__ import annotations

import pytest

from bench.faults import Offer
from bench.new_errors import breaks_code, syntax_error, undefined_names
from bench.places import Place
from tests.bench.test_faults import place

HEAD = "def total(items):\n    result = 0\n    "
BODY = place(
    HEAD, "for item in items:\n        result += item\n    return result", "\n\n\nprint(total([]))\n", language="python"
)
JS = place("function f(a) {\n  return g(", "a, 1);", "\n}\n", closers=")", kind="closer", language="javascript")


@pytest.mark.parametrize(
    ("where", "offer", "is_error"),
    [
        (BODY, Offer("for item in items:\n        result += item\n    return result"), False),
        (BODY, Offer("for item in items:"), False),  # the true rest follows
        (BODY, Offer("for each in items:"), False),  # some true rest would do
        (BODY, Offer("for item in in items:\n        result += item"), True),
        (BODY, Offer("result = (1 +* 2)\n    return result"), True),
        (BODY, Offer("result = foo(items"), False),  # unfinished: the rest can close it
        (BODY, Offer("result = 1))"), True),
        (JS, Offer("a, 1);", 1), False),
        (JS, Offer("a, 1", 0), False),
        (JS, Offer("a, }, 1"), True),
        (JS, Offer("a, 1);\n}\n}\n", 1), True),
    ],
)
def test_syntax_errors(where: Place, offer: Offer, is_error: bool) -> None:
    assert bool(syntax_error(where, offer)) is is_error
    assert not is_error or breaks_code(where, offer)


def test_an_error_is_told_with_its_text() -> None:
    assert "in" in syntax_error(BODY, Offer("for item in in items:\n        result += item"))


def test_code_that_is_broken_elsewhere() -> None:
    """The error begins behind the text: it is none inside, but the code is broken."""
    where = place("f(", "1,\n  2)", "\ng()\n", language="python")
    assert syntax_error(where, Offer("1)")) == ""
    assert not breaks_code(where, Offer("1)"))
    open_string = place("x = ", "1", '\ny = "a"\nz = 2\n', language="python")
    assert breaks_code(open_string, Offer('"""a'))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("return len(items)", ()),
        ("return summed(items)", ("summed",)),
        ("return total(items)", ()),
        ("return items.summed()", ()),
        ("x = 'summed(items)'", ()),
        ("def summed(a):\n        return a\n    return summed(items)", ()),
        ("return first(second(items))", ("first", "second")),
    ],
)
def test_undefined_names(text: str, names: tuple[str, ...]) -> None:
    assert undefined_names(BODY, Offer(text)) == names


def test_names_that_may_come_from_anywhere_are_not_judged() -> None:
    starred = place("from math import *\n\nx = ", "1", "\n", language="python")
    assert undefined_names(starred, Offer("whatever(1)")) == ()
    assert undefined_names(place("int x = ", "1;", "\n", language="c"), Offer("whatever(1);")) == ()
    assert undefined_names(JS, Offer("parseInt(a), helper(a)")) == ("helper",)
