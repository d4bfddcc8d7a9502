"""Planted faults, each of which has to be found, and innocent texts beside them."""

from __future__ import annotations

import pytest

from bench.faults import Offer, control_tokens, duplicates, repetition
from bench.places import Place


def place(
    before: str, truth: str, after: str = "\n", *, closers: str = "", kind: str = "mid_line", language: str = "go"
) -> Place:
    at = before.rfind("\n") + 1
    return Place("it", kind, language, "it", "it", before[:at], before[at:], closers, after, truth)


BODY = place(
    "def total(items):\n    ", "x = 1\n    return x", "\n\n\nprint(total([]))\n", kind="block_start", language="python"
)
BRACED = place("func f() {\n\t", "x := 1", "\n}\n\nfunc g() {\n}\n", kind="block_start")
CALL = place("foo(", "a, b)", "\n", closers=")", kind="closer")


@pytest.mark.parametrize(
    ("where", "offer", "what"),
    [
        (BODY, Offer("x = 1\n    return x\n\n\nprint(total([]))"), "line"),
        (BODY, Offer("x = 1\n    return x\n\n\nprint(total([]))\n"), "line"),
        (BODY, Offer("x = 1\n    return x"), ""),
        (BRACED, Offer("x := 1\n}"), "closer"),
        (BRACED, Offer("if a {\n\t\tb()\n\t}"), ""),
        (BRACED, Offer("x := 1\n}\n\nfunc g() {"), "text"),
        (CALL, Offer("a, b)"), "closer"),
        (CALL, Offer("a, b)", 1), ""),
        (CALL, Offer("a, b"), ""),
        (CALL, Offer("a, g(b)"), ""),
        (CALL, Offer("a, g(b))"), "closer"),
        (CALL, Offer('a, ")")', 1), ""),  # the bracket in the string closes nothing
        (place("x = foo(", "1)", " + several.words()\n"), Offer("1) + several.words()"), "text"),
        (place("x = foo(", "1)", " + several.words()\n"), Offer("1) + other"), ""),
        (place("// and ", "so on)", "\n)\n", kind="comment"), Offer("so on)"), ""),
        # the true remainder says the next line too
        (place("a()\n", "b()\nb()", "\nb()\n", kind="line_start"), Offer("b()"), ""),
        (place("a(", "x)\n", "\nbb(x)\n"), Offer("y)\nbb(x)"), "line"),
        # it only goes on with a line that has begun: `x = bar(a)`
        (place("x = ", "b", "\nbar(a)\n"), Offer("bar(a)"), ""),
        # what it closes too much does not stand behind it
        (place("if a {\n\tb()\n", "} else {", "\n}\n"), Offer("}) else {"), ""),
    ],
)
def test_duplicates(where: Place, offer: Offer, what: str) -> None:
    assert duplicates(where, offer) == what


HERE = place("x = ", "1", "\n")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a()\nb()\nb()\nb()\n", "lines"),
        ("a()\nb()\nb()\n", ""),
        ("a[0] = f(0)\na[1] = f(1)\na[2] = f(2)\na[3] = f(3)\na[4] = f(4)\na[5] = f(5)\n", "counter"),
        ("a[0] = f(0)\na[1] = f(1)\nb = 1\na[2] = f(2)\n", ""),
        (2 * "function first() {\n}\nfunction other() {\n}\n", "group"),
        (3 * "first(value)\nother(value)\n", "group"),
        (2 * "first(value)\nother(value)\n", ""),
        (2 * "}\n)\n;\n", ""),
        (20 * "ab, ", "period"),
        (8 * "if (x) { y(); } ", "period"),
        ("1 + 1 + 1", ""),
        (60 * "-", ""),
        ("}\n}\n}\n", ""),
    ],
)
def test_repetition(text: str, what: str) -> None:
    assert repetition(HERE, Offer(text)) == what


def test_a_repetition_of_the_true_remainder_is_none() -> None:
    table = "\n".join(f"    {{{i}, {i + 1}}}," for i in range(8))
    assert repetition(place("x = {\n", table), Offer(table)) == ""


@pytest.mark.parametrize("token", ["<|fim_middle|>", "<|endoftext|>", "</s>", "<fim_suffix>", "[INST]", "<MID>", "\ufffd"])
def test_control_tokens(token: str) -> None:
    assert control_tokens(HERE, Offer(f"1 {token} 2")) == token
    assert control_tokens(place(f"# {token}\nx = ", "1"), Offer(f"1 {token} 2")) == "", "the document holds it itself"


def test_what_is_no_control_token() -> None:
    for text in ("a < b > c", "x<T>(y)", "List<String>", "a <| b |> c", "<s-name>", "arr[INST]"):
        assert control_tokens(HERE, Offer(text)) in ("", "[INST]" if "[INST]" in text else "")


def test_the_document_with_it_accepted() -> None:
    assert Offer("a)", 1).document(CALL) == ("foo(a)\n", 4, 6)
    assert Offer("a", 0).document(CALL, ", b") == ("foo(a, b)\n", 4, 5)
    assert Offer("a", 0).line(CALL) == "a)"
    assert Offer("a)  ", 1).line(CALL) == "a)"
