"""Skeletons: what stays, what goes, and that they parse no worse than their files."""

from __future__ import annotations

from pathlib import Path

import pytest
import tree_sitter
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import index_tree
from context.languages import LANGUAGES, language_of
from context.symbols import symbols_of
from context.syntax import NoTree, nodes, parse
from context.trim import Trimmed, skeleton

ROOT = Path(__file__).resolve().parent.parent.parent
SNIPPETS = {
    part.split("\n", 1)[0]: part.split("\n", 1)[1].split("\n~~~~~\n")[0] + "\n"
    for part in (Path(__file__).parent / "symbols.txt").read_text().split("===== ")[1:]
}
DICE = index_tree._Dice(5)
MADE = {
    "a.ts": index_tree._typescript(DICE, 1), "a.go": index_tree._go(DICE, 1), "a.java": index_tree._java(DICE, 1),
    "a.rs": index_tree._rust(DICE, 1), "a.c": index_tree._c(DICE, 1),
}  # fmt: skip
FILES = [
    "context/ranking.py",
    "bench/heart.py",
    "lsp_server/plans/planning.py",
    "bench/material/accounts.ts",
    "editors/neovim/lua/midfill/server.lua",
]


def check(
    text: str | bytes, language: str, keep: str = "", focus: tuple[int, int] | None = None, grades: str = "BC", calls: str = ""
) -> Trimmed:
    """The skeleton, with what holds for every one."""
    data = text.encode() if isinstance(text, str) else text
    names, called = frozenset(keep.split()), frozenset(calls.split())
    made = skeleton(data, language, keep=names, calls=called, focus=focus, grades=grades)
    assert made == skeleton(data, language, keep=names, calls=called, focus=focus, grades=grades)
    place, line = 0, 1
    for piece in made.pieces:
        assert (piece.start, piece.line) == (place, line) and piece.end > place and piece.grade in "ABC"
        assert piece.is_cut or piece.text == data[piece.start : piece.end]
        place, line = piece.end, line + data.count(b"\n", piece.start, piece.end)
    assert place == len(data)
    assert made.numbered().count(b"\n") == made.text.count(b"\n")
    before, after = parse(language, data), parse(language, made.text)
    if not isinstance(before, NoTree):
        assert not isinstance(after, NoTree)
        errors = [sum(node.is_error or node.is_missing for node in nodes(tree.root)) for tree in (before, after)]
        assert errors[1] <= errors[0]
    return made


def shown(
    text: str, language: str, keep: str = "", focus: tuple[int, int] | None = None, grades: str = "BC", calls: str = ""
) -> str:
    return check(text, language, keep, focus, grades, calls).text.decode()


def outer(data: bytes, language: str) -> set[tuple[str, tuple[str, ...], str]]:
    """What others can use: not what stands in a function."""
    symbols = symbols_of(language, data)
    inside = {(*each.scope, each.name) for each in symbols.definitions if each.kind in ("function", "method")}
    return {
        (each.name, each.scope, each.signature if each.kind in ("function", "method", "class") else "")
        for each in symbols.definitions
        if not any(each.scope[:n] in inside for n in range(1, len(each.scope) + 1))
    }


@pytest.mark.parametrize("name", [*FILES, *MADE])
def test_names_and_signatures_of_real_files_stay_and_most_of_the_rest_goes(name: str) -> None:
    data = MADE[name].encode() if name in MADE else (ROOT / name).read_bytes()
    language = language_of(name, data)
    made = check(data, language)
    assert made.notes == ()
    assert name in MADE or len(made.text) < 0.66 * len(data)
    told = outer(made.text, language)
    for name, scope, signature in outer(data, language):
        # a body that is a comment alone is none to some grammars, so the signature seems to go on
        assert any(other[:2] == (name, scope) and other[2].startswith(signature) for other in told), (name, scope, signature)


@pytest.mark.parametrize("language", sorted(SNIPPETS))
def test_every_language_has_a_skeleton_that_parses(language: str) -> None:
    data = SNIPPETS[language].encode()
    made = check(data, language)
    assert {name for name, _, _ in outer(data, language)} <= {name for name, _, _ in outer(made.text, language)}


PYTHON = '''"""Boxes.

How they are counted.
"""

import json
import os
from typing import Any

TABLE = {
    "a": 1,
    "b": 2,
    "c": 3,
}


# A box.
# It is empty at first.
# It is never closed twice.
class Box:
    """Holds things.

    Not for many threads.
    """

    def __init__(self, size: int) -> None:
        if size < 0:
            raise ValueError("a box of nothing")
        self.size = size
        self.things: list[Any] = []

    def add(self, thing: Any) -> bool:
        """Put a thing in.

        Returns whether there was room.
        """
        if len(self.things) >= self.size:
            return False
        self.things.append(thing)
        log(f"{thing} is in")
        return True

    def _count(self) -> int:
        """Of all things, and of those in them."""
        n = 0
        for thing in self.things:
            n += 1
        return n


def log(text: str) -> None:
    print(json.dumps(text))
'''


def test_python() -> None:
    assert (
        shown(PYTHON, "python")
        == '''"""Boxes."""

import json
from typing import Any

TABLE = {...}


# A box.
# It is never closed twice.
class Box:
    """Holds things.
    Not for many threads."""

    def __init__(self, size: int) -> None:
        ...
        self.size = size
        self.things: list[Any] = []

    def add(self, thing: Any) -> bool:
        """Put a thing in."""
        ...

    def _count(self) -> int: ...


def log(text: str) -> None:
    print(json.dumps(text))
'''
    )


def test_what_is_wanted_stays_whole_and_its_calls_are_shown() -> None:
    wanted = shown(PYTHON, "python", "_count")
    assert "            n += 1\n        return n\n" in wanted and "is in" not in wanted
    called = shown(PYTHON, "python", calls="log")
    assert '        """Put a thing in."""\n        ...\n        log(f"{thing} is in")\n        return True\n' in called
    assert "a box of nothing" in shown(PYTHON, "python", "Box"), "of a class that is wanted the constructor stays whole"
    body = "".join(f"    x{i} = {i}\n" for i in range(200))
    long = shown(f"def f():\n{body}\n", "python", "f")
    assert "    x9 = 9\n    ...\n" in long and "x10" not in long


def test_no_line_of_a_remark_that_denies_is_left_out() -> None:
    said = [
        "Ask before.", "It must not wait.", "Plain.", "You can't sleep.", "Never twice.", "None of these count.",
        "Only, unless two.", "Nothing else.", "Or without any.", "Plain again.", "It is None then.",
    ]  # fmt: skip
    kept = [line for line in said if "lain" not in line and "is None" not in line]
    inside = "".join(f"    {line}\n" for line in said)
    text = f'def f(x):\n    """Asks.\n\n{inside}    """\n    y = x + 100000000000\n    y *= 200000000000\n    return y\n'
    assert shown(text, "python").splitlines()[1:-1] == [
        '    """Asks.',
        *(f"    {line}" for line in kept[1:-1]),
        f'    {kept[-1]}"""',
    ]
    rows = "".join(f"# {line}\n" for line in said)
    assert shown(f"{rows}x = 1\n", "python") == "".join(f"# {line}\n" for line in kept) + "x = 1\n"
    block = "".join(f" * {line}\n" for line in said)
    assert shown(f"/**\n{block} */\nlet x = 1;\n", "javascript").splitlines()[1:-2] == [f" * {line}" for line in kept[1:]]


def test_values_and_the_script_at_the_end_are_one_line() -> None:
    source = """CODE: Final = Code(
    "name",
    "says what it is for",
)
RATIO = (
    some_long_name
    + another_name
)
SHORT = dict(
    a=1)

if __name__ == "__main__":
    first = read()
    second = first + 1
    print(second)
"""
    assert shown(source, "python") == (
        'CODE: Final = Code(...)\nRATIO = (...)\nSHORT = dict(\n    a=1)\n\nif __name__ == "__main__": ...\n'
    )
    assert "second = 1" in shown(
        "if __name__ != other:\n    first = 0\n    second = 1\n    third = 2\n    fourth = 3\n", "python"
    )


def test_the_function_at_the_focus_stays_whole() -> None:
    at = PYTHON.index("append")
    made = shown(PYTHON, "python", focus=(at, at))
    whole = PYTHON[PYTHON.index("    def add") : PYTHON.index("    def _count")]
    assert whole in made and "n += 1" not in made
    both = shown(PYTHON, "python", focus=(at, PYTHON.index("n += 1")))
    assert whole in both and "n += 1" in both
    for place in range(PYTHON.index("if len"), PYTHON.index("        return True")):
        assert shown(PYTHON, "python", focus=(place, place)) == made, "within one function nothing changes"


def test_grade_c_alone() -> None:
    made = shown(PYTHON, "python", grades="C")
    assert "is in" in made and "a box of nothing" in made
    assert "TABLE = {...}" in made and "n += 1" not in made and "Returns whether" not in made
    assert shown(PYTHON, "python", grades="") == PYTHON


def test_grades_of_pieces() -> None:
    made = check(PYTHON, "python", "log")
    graded = {piece.grade for piece in made.pieces if b"print(" in piece.text}
    assert graded == {"A"}
    assert {p.grade for p in made.pieces if p.is_cut and b"things.append" in PYTHON.encode()[p.start : p.end]} == {"B"}
    assert {p.grade for p in made.pieces if p.is_cut and b"n += 1" in PYTHON.encode()[p.start : p.end]} == {"C"}


def test_original_line_numbers() -> None:
    numbered = check(PYTHON, "python").numbered().decode().splitlines()
    lines = PYTHON.splitlines()
    for row in numbered:
        number, text = int(row[:2]), row[3:]
        if text.strip() and "..." not in text and '"""' not in text and "twice" not in text and "Not for" not in text:
            assert lines[number - 1] == text
    assert f"{lines.index('class Box:') + 1} class Box:" in numbered


def test_braces() -> None:
    source = """// Copyright Somebody.
// Licensed, not sold.
import { a, b } from './x';
import { idle } from './y';

export const KINDS = [
  'one',
  'two',
  'three',
];

export class Pool<T> {
  private n = 0;

  /**
   * Takes one.
   * @param {a} key which
   */
  take(key: a): T | undefined {
    const found = this.map.get(key);
    if (found) {
      this.n += 1;
      return release(found);
    }
    return undefined;
  }
  private sweep(): void {
    for (const key of this.map.keys()) {
      this.map.delete(key);
    }
    this.n = 0;
  }
}

describe('pool', () => {
  it('takes', () => {
    expect(1).toBe(1);
  });
});
"""
    expected = """// Copyright Somebody.
import { a, b } from './x';

export const KINDS = [ /* ... */ ];

export class Pool<T> {
  private n = 0;

  /** Takes one. */
  take(key: a): T | undefined { /* ... */ }
  private sweep(): void { /* ... */ }
}

describe('pool', () => { /* ... */ });
"""
    assert shown(source, "typescript") == expected
    called = shown(source, "typescript", calls="release")
    assert (
        """  take(key: a): T | undefined {
    const found = this.map.get(key);
    if (found) {
      this.n += 1;
      return release(found);
    }
    // ...
  }
"""
        not in called
    )
    assert "      return release(found);\n    }\n" in called and "toBe" not in called


@pytest.mark.parametrize(
    ("language", "source", "expected"),
    [
        ("go", "package a\n\nfunc F() int {\n\ty := 1\n\ty += 1111111\n\treturn y * y\n}\n", "func F() int { /* ... */ }"),
        ("ruby", "def f(x)\n  y = x + 1\n  z = y + 1\n  puts y, z\nend\n", "def f(x)\n  # ...\nend"),
        ("lua", "function f(x)\n  local y = x\n  y = y + 1\n  return y\nend\n", "function f(x)\n  -- ...\nend"),
        ("shellscript", "f() {\n  cd here\n  cd there\n  cd elsewhere\n  ls\n}\n", "f() {\n    : # ...\n}"),
        ("zig", "pub fn f() i32 {\n  var y = 1;\n  y += 1;\n  y += 22;\n  return y;\n}\n", "pub fn f() i32 {\n    // ...\n}"),
        ("yaml", "a:\n  b: 1\n  c: 2\n  d: 3\n  efghijklmnop: 4444\nz: 1\n", "a:\n  # ...\nz: 1\n"),
        ("json", '{\n  "a": {\n    "b": 1,\n    "c": 2\n  },\n  "z": 1\n}\n', '"a": { /* ... */ },\n  "z": 1'),
        ("css", "a {\n  color: red;\n  top: 0;\n  left: 0;\n  right: 0;\n}\n", "a { /* ... */ }"),
        ("python", "def f(x):\r\n    y = x\r\n    y += 1111111\r\n    return y\r\n", "def f(x): ...\r\n"),
    ],
)  # fmt: skip
def test_each_language_says_it_in_its_own_way(language: str, source: str, expected: str) -> None:
    assert expected in shown(source, language)


def test_a_function_around_a_whole_file_is_gone_into() -> None:
    inner = "  function f(x) {\n    var y = x;\n    y += 1;\n    return y * 2;\n  }\n"
    assert shown(f"(function () {{\n{inner}}})();\n", "javascript") == "(function () {\n  function f(x) { /* ... */ }\n})();\n"


def test_by_indentation_where_there_is_no_tree() -> None:
    source = "begin\n" + "  step\n" + "    deep\n" * 9 + "end\n"
    made = check(source, "nothing-known")
    assert made.text == b"begin\n  step\n    ...\nend\n"
    assert made.notes[0].startswith("by indentation")
    minified = check("var a=1;" * 20_000, "javascript")
    assert len(minified.text) < 500 and "minified" in minified.notes[0]
    assert check(b"\xff\xfe\x00" * 100, "").text.startswith(b"\xff\xfe")


def test_what_would_break_the_syntax_is_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from context.trim_marks import Marks

    broken = "def good(x):\n    y = x + 1000000\n    y += 2000000\n    return y\n\n\n" + PYTHON
    plain = Marks.whole

    def whole(self: Marks, block: tree_sitter.Node) -> tuple[int, int, bytes]:
        start, end, text = plain(self, block)
        return start, end, b" (((" if b"n = 0" in (block.text or b"") else text

    monkeypatch.setattr(Marks, "whole", whole)
    made = check(broken, "python")
    assert b"def good(x): ..." in made.text and b"n += 1" in made.text  # the broken cut, and the one beside it
    assert made.notes == ("2 cuts would have broken its syntax and were not made",)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_broken_code_never_gets_worse(data: st.DataObject) -> None:
    language = data.draw(st.sampled_from(sorted({*SNIPPETS} & {*LANGUAGES})))
    source = SNIPPETS[language].encode()
    start = data.draw(st.integers(0, len(source)))
    end = data.draw(st.integers(start, min(len(source), start + 40)))
    new = data.draw(st.sampled_from([b"", b"{", b'"', b"\n", b"(\xff", b"/*", b"    "]))
    check(source[:start] + new + source[end:], language, "f a Haus", (start, end))
