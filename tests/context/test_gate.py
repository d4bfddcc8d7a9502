"""The parser's word on a text put in: only what is wrong for sure, and only what is new."""

from __future__ import annotations

import pytest

from context.gate import MOST_BYTES, Gate
from context.skeleton import skeleton
from context.syntax import SyntaxTree, parse
from context.text import Edit, Text


def gate_of(document: str, language: str = "python") -> Gate:
    before, after = document.split("$0")
    text = Text.of(before + after)
    tree = parse(language, text)
    assert isinstance(tree, SyntaxTree)
    return Gate(language, text, len(before.encode()), tree)


@pytest.mark.parametrize(
    ("language", "document", "inserted", "n_replaced", "error_at"),
    [
        ("python", "def f(a):\n    $0\n", "x = foo(a)\n    return x", 0, None),
        ("python", "def f(a):\n    $0\n", "x = 1\n    y = = 2\n    z = 3", 0, 14),
        ("python", "x = $0\n", "foo(a", 0, None),  # touches its end
        ("python", "def f():\n    $0\n", "x = (1 2", 0, None),  # so does this
        ("python", "def f():\n    $0\n", "x = (1 2\n    z = 1", 0, 5),  # and here it is over
        ("python", "x = f($0)\n", "a) + g(b)", 1, None),
        ("python", "é = 'ü'\nx = $0\n", "[ü] = = 'é'\ny = 1\nz = 2", 0, 7),
        ("go", "func f() {\n\t$0\n}\n", "x := 1\n\tif {\n\t\ty()\n\t}\n\tz()", 0, 8),
        ("rust", "fn f() {\n    $0\n}\n", "let x = 1;\n    let = 2;\n    g();", 0, 19),
    ],
)
def test_first_new_error(language: str, document: str, inserted: str, n_replaced: int, error_at: int | None) -> None:
    look = gate_of(document, language).look(inserted.encode(), n_replaced)
    assert (look.error_at, look.why) == (error_at, "")


def test_code_that_was_broken_before_is_not_judged() -> None:
    look = gate_of("def f(a:\n    b = (\n  class C\n    $0\n").look(b"x = = 1\n    y = 2", 0)
    assert look.error_at is None and "broken before" in look.why


def test_calls_are_names_not_members() -> None:
    look = gate_of("$0\n").look(b"x = foo(bar(1)).baz(2) + self.qux(3) + foo(4)", 0)
    assert look.calls == ("foo", "bar")
    assert gate_of("$0\n", "typescript").look(b"new Foo(bar)", 0).calls == ("Foo",)
    assert gate_of("$0\n", "json").look(b'{"a": 1}', 0).calls == ()


def test_a_look_takes_the_surroundings_whatever_the_length_of_the_file() -> None:
    before = "def f(a):\n    return a\n\n" * 4000
    text = Text.of(before + "x = \n" + before)
    tree = parse("python", text)
    assert isinstance(tree, SyntaxTree)
    offset = len(before) + 4
    moved = tree.edited((Edit(offset, offset, b"f"),), text.edit(offset, offset, b"f"))
    gate = Gate("python", moved.text, offset + 1, moved)
    assert gate.look(b"(1)\ny = = 2\nz = 3", 0).error_at == 8, "a tree that was only moved along will do"
    around = skeleton(moved, offset + 1, MOST_BYTES)
    assert around is not None and len(around[0]) + len(around[1]) < 400
    # without one a short text is parsed, a long one is not
    assert Gate("python", moved.text, offset + 1, None).look(b"(1)\ny = = 2\nz", 0).why == "there is no syntax tree yet"
    short = Text.of(before[: MOST_BYTES // 2])
    assert Gate("python", short, 0, None).look(b"y = = 2\nz = 3\n", 0).error_at == 4
    assert "no grammar" in Gate("klingon", short, 0, None).look(b"y = = 2\n", 0).why


INSIDE = """import os

class First:
    def one(self):
        return 1

{many}

class Second(First):
    top = 1

{methods}

    def there(self, a):
        if a:
            $0
            b = 2
        return a

{methods}

def last():
    pass
"""


@pytest.mark.parametrize("n", [3, 300])
def test_the_surroundings_have_the_structure_of_the_file(n: int) -> None:
    many = "\n".join(f"def f{i}(a):\n    return [a, {i}]\n" for i in range(n))
    methods = "\n".join(f"    def m{i}(self):\n        return {{1: {i}}}\n" for i in range(n))
    before, after = INSIDE.format(many=many, methods=methods).split("$0")
    text = Text.of(before + after)
    tree = parse("python", text)
    assert isinstance(tree, SyntaxTree)
    around = skeleton(tree, len(before), MOST_BYTES)
    assert around is not None
    head, tail = (part.decode() for part in around)
    assert head.endswith("    def there(self, a):\n        if a:\n            ") and "class Second(First):" in head
    assert tail.startswith("\n            b = 2\n        return a\n")
    short = parse("python", Text.of(head + "pass" + tail))
    assert isinstance(short, SyntaxTree) and not short.has_error
    assert n < 10 or len(head) + len(tail) < len(text) / 10
    assert skeleton(tree, len(before), 50) is None, "one statement may be too long"
