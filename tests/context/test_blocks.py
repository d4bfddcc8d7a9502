"""Blocks and statement ends, on small code with marks: [ ] around blocks, ; behind statements (as ¦)."""

from __future__ import annotations

import pytest

from context.blocks import block_openers, statement_ends
from context.syntax import SyntaxTree, parse

# «opener‹block›: the construct begins at «, its block is between ‹ and ›. ¦ stands behind each statement.
CODE = {
    "python": "«def f(a):\n    ‹«if a:\n        ‹return 'é'¦›¦\n    # c\n    b = 2¦; c = 3¦›¦\nx = 1¦\n",
    "javascript": "«function f(a) ‹{\n  «if (a) ‹{ g('é');¦ }›¦\n  «for (;;) ‹{ h();¦ }›¦ // c\n}›¦\n",
    "go": 'package p¦\nfunc_\n'.replace("func_", "«func f(a int) ‹{\n\t«if a > 1 ‹{\n\t\tg(\"é\")¦\n\t}›¦\n\treturn¦\n}›¦"),
    "rust": "«fn f(a: i32) -> i32 ‹{\n    let x = 'é';¦\n    «if a ‹{ g();¦ }›¦\n    x¦\n}›¦\n",
    "java": "«class A ‹{\n  «int f(int a) ‹{\n    «if (a) ‹{ g(\"é\");¦ }›¦\n    return 1;¦\n  }›¦\n}›¦\n",
    "lua": "«function f(a)\n  ‹«if a then\n    ‹g('é')¦›\n  end¦\n  return 1¦›\nend¦\n",
    "css": "«.é ‹{ b: c;¦ d: e;¦ }›¦\n",
}  # fmt: skip
_MARKS = "«‹›¦"


def unmarked(code: str) -> tuple[bytes, dict[str, list[int]]]:
    data, places = b"", {mark: list[int]() for mark in _MARKS}
    for character in code:
        if character in _MARKS:
            places[character].append(len(data))
        else:
            data += character.encode()
    return data, places


def tree_of(language: str, data: bytes) -> SyntaxTree:
    tree = parse(language, data)
    assert isinstance(tree, SyntaxTree) and not tree.has_error
    return tree


@pytest.mark.parametrize("language", CODE)
def test_blocks_and_statements(language: str) -> None:
    data, places = unmarked(CODE[language])
    tree = tree_of(language, data)
    blocks = block_openers(tree)
    assert [block.opener for block in blocks] == places["«"]
    assert [block.start for block in blocks] == places["‹"]
    assert sorted(block.end for block in blocks) == sorted(places["›"])
    assert list(statement_ends(tree)) == sorted(set(places["¦"]))


def test_a_stretch_tells_what_lies_in_it() -> None:
    data = b"".join(b"def f%d():\n    a()\n    b()\n\n\n" % i for i in range(50))
    tree = tree_of("python", data)
    at = data.index(b"def f20")
    end = data.index(b"\n\n\ndef f21")
    assert [data[block.opener :].split(b":")[0] for block in block_openers(tree, at, end)] == [b"def f20()"]
    assert [data[:place].rsplit(b"\n", 1)[1].strip() for place in statement_ends(tree, at, end)] == [b"a()", b"b()"]
    assert statement_ends(tree, at, at + 5) == ()


def test_a_language_without_blocks_has_none() -> None:
    tree = tree_of("json", b'{"a": [1]}\n')
    assert block_openers(tree) == () and statement_ends(tree) == ()
