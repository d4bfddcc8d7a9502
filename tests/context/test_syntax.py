"""Syntax trees: what is parsed after edits equals what is parsed from the text alone."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context import grammars
from context.syntax import MAX_BYTES, MAX_PATH, NoTree, SyntaxTree, nodes, parse
from context.text import Edit, Text

SOURCES = {
    "python": """class Größe:
    '''漢字'''

    def f(self, a):
        if a:
            return "é"
        return g(a)


x = f(1)
""",
    "javascript": """export function f(a) {
  const é = a.map((x) => `q${x}漢`);
  if (a) {
    return 1;
  }
}

class A { m() {} }
""".replace("\n", "\r\n"),
    "ruby": "class A\n  def f(x)\n    puts <<~EOS\n      é #{x}\n    EOS\n    x.map { |y| y + 1 }\n  end\nend\n",
    "rust": '/// 漢字\nfn f<T>(a: &T) -> T {\n    match a { Some(x) => x, None => r#"é"# }\n}\n',
    "shellscript": 'f() {\n  local x="$1"\n  cat <<EOF\né $x\nEOF\n  if [ -n "$x" ]; then echo ja; fi\n}\n',
    "go": "package p\n\n// 漢字\nfunc f(a int) (int, error) {\n\tx := `é`\n\tif a > 1 {\n\t\treturn g(a), nil\n\t}\n}\n",
    "java": '/** é */\nclass A {\r\n  int f(int a) {\r\n    return g(a, "漢") + 1;\r\n  }\r\n  String s = "x";\r\n}\r\n',
    "c": '#include <x.h>\nint *f(int a)\n{\n    /* 漢 */\n    if (a) { return "é"; }\n    return g(a);\n}\n',
    "yaml": "a:\n  b: |\n    é\n    mehr\n  c: [1, 2]\nd:\n  - x: 1\n    y: 漢\n",
}
# Without a scanner of their own: what is made of the tree before is always what is made of the text, where it has no error.
PLAIN = ("go", "java", "c")
NEW = [
    "",
    "",
    "x",
    "\n",
    "(",
    ")",
    "{",
    "}",
    '"',
    "'",
    "é",
    "漢字",
    "😋",
    "\r\n",
    "\r",
    "    ",
    "# ",
    "if x:\n",
    "\ufeff",
    "\0",
]


def check(tree: SyntaxTree | NoTree, text: Text) -> SyntaxTree:
    """A tree of that text; its exact form is what a fresh parse gives."""
    assert isinstance(tree, SyntaxTree) and tree.text == text and tree.is_current
    fresh = parse(tree.language, text)
    exact = tree.exact()
    assert isinstance(fresh, SyntaxTree) and isinstance(exact, SyntaxTree)
    assert fresh.is_exact and exact.is_exact
    shape = list(fresh.shape())
    assert list(exact.shape()) == shape
    if tree.language in PLAIN and not (tree.has_error or fresh.has_error):
        assert list(tree.shape()) == shape
    return tree


@st.composite
def edits_of(draw: st.DrawFn, text: Text, most: int = 3) -> tuple[tuple[Edit, ...], Text]:
    """Edits, each of the text after those before it, and the text after all of them."""
    made = []
    for _ in range(draw(st.integers(1, most))):
        start = text.floor(draw(st.integers(0, len(text))))
        end = max(start, text.floor(start + draw(st.sampled_from([0, 0, 1, 3, 30]))))
        made.append(Edit(start, end, draw(st.sampled_from(NEW)).encode()))
        text = text.edit(start, end, made[-1].new)
    return tuple(made), text


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(SOURCES)), st.data())
def test_after_any_edits_the_tree_is_that_of_the_text(language: str, data: st.DataObject) -> None:
    text = Text.of(SOURCES[language])
    tree = check(parse(language, text), text)
    shape = list(tree.shape())
    first, before = tree, text
    undo: list[Edit] = []
    for _ in range(data.draw(st.integers(1, 4))):
        edits, after = data.draw(edits_of(text))
        for edit in edits:
            undo.append(Edit(edit.start, edit.start + len(edit.new), text.slice(edit.start, edit.end)))
            text = text.edit(edit.start, edit.end, edit.new)
        moved = tree.edited(edits, after)
        assert not moved.is_current and moved.text == after
        tree = check(moved.parsed(), after)
    assert list(first.shape()) == shape, "a tree changed"
    for edit in reversed(undo):
        text = text.edit(edit.start, edit.end, edit.new)
        tree = check(tree.edited([edit], text).parsed(), text)
    assert text == before


def test_a_tree_made_of_the_one_before_has_its_rows_and_columns_right() -> None:
    """A CR alone is a line's end to the document, and none to the parser: while there is one, each tree is made of its text."""
    text = Text.of("x = 'é'  # a b\ny = f(1)\r\nz = 3\n")
    tree = parse("python", text)
    exact = [False, True, True, True, True, False]
    for start, new in ((14, b"c"), (11, b"\r"), (19, b"1 + "), (25, b"c = 2; "), (12, b"\n"), (20, b"2 + ")):
        assert isinstance(tree, SyntaxTree)
        edit = Edit(start, start + (not new), new)
        text = text.edit(edit.start, edit.end, edit.new)
        tree = check(tree.edited([edit], text).parsed(), text)
        fresh = parse("python", text)
        assert isinstance(fresh, SyntaxTree) and list(tree.shape()) == list(fresh.shape())
        assert tree.is_exact is exact.pop(0)


def test_a_moved_tree_has_its_nodes_in_place() -> None:
    text = Text.of("é = 1\n\n\ndef f(a):\n    return a\n")
    tree = parse("python", text)
    assert isinstance(tree, SyntaxTree)
    new = "import 漢字\r\n".encode()
    after = text.edit(0, 0, new)
    moved = tree.edited([Edit(0, 0, new)], after)
    function = moved.path(after.bytes().index(b"return"))[1]
    assert function.type == "function_definition"
    assert after.slice(function.start_byte, function.end_byte).startswith(b"def f")
    assert moved.n_steps == 0


def test_path_goes_from_the_file_to_the_place() -> None:
    text = Text.of("class A:\n    def f(self):\n        return x\n")
    tree = parse("python", text)
    assert isinstance(tree, SyntaxTree)
    kinds = [node.type for node in tree.path(text.bytes().index(b"x"))]
    assert kinds[0] == "module" and kinds[-1] == "identifier"
    assert [kind for kind in kinds if kind.endswith("_definition")] == ["class_definition", "function_definition"]
    assert [node.type for node in tree.path(len(text))] == ["module"]


def test_an_edit_in_a_long_file_costs_little() -> None:
    steps = []
    for n in (400, 1600):
        text = Text.of("".join(f"static int f{i}(int a) {{\n    return g(a, {i});\n}}\n\n" for i in range(n)))
        tree = parse("c", text)
        assert isinstance(tree, SyntaxTree)
        at = text.bytes().index(b"return", len(text) // 2)
        after = text.edit(at, at, b"x = 1; ")
        moved = tree.edited([Edit(at, at, b"x = 1; ")], after).parsed()
        assert isinstance(moved, SyntaxTree)
        assert moved.n_read_bytes < 4096, "the parser read the file again"
        steps.append((tree.n_steps, moved.n_steps))
    assert all(edit * 4 < full for full, edit in steps), steps


@pytest.mark.parametrize("opens", ["(" * 3000, "[" * 3000, "{\n" * 3000, "if a:\n " * 1000])
def test_deep_and_broken_code_has_a_tree(opens: str) -> None:
    for language in ("python", "javascript"):
        tree = parse(language, opens.encode())
        assert isinstance(tree, SyntaxTree)
        assert sum(1 for _ in nodes(tree.root)) > 500
        assert 2 <= len(tree.path(len(opens) // 2)) <= MAX_PATH


def test_reasons_for_no_tree() -> None:
    def why(language: str, data: bytes) -> str:
        tree = parse(language, data)
        assert isinstance(tree, NoTree)
        return tree.reason

    assert why("cobol", b"x") == "there is no grammar for cobol"
    assert why("python", b"x = 1\n" * (MAX_BYTES // 5)) == "the text is longer than 3 MB"
    assert why("javascript", b"a=1;" * 20_000 + b"\n") == "the text looks minified"
    assert isinstance(parse("javascript", b"a=1;" * 1000), SyntaxTree), "a short one is none"


def test_who_asks_may_end_it() -> None:
    asked = []

    def goes_on() -> bool:
        asked.append(1)
        return len(asked) < 3

    tree = parse("python", b"x = f(1, 2)\n" * 20_000, goes_on)
    assert isinstance(tree, NoTree) and tree.ended
    assert len(asked) == 3


def test_what_leads_nowhere_ends_by_itself() -> None:
    with mock.patch("context.syntax._FEWEST_STEPS", 10), mock.patch("context.syntax._BYTES_PER_STEP", 10_000):
        tree = parse("python", b"x = f(1, 2)\n" * 3000)
    assert isinstance(tree, NoTree) and not tree.ended
    assert tree.reason == "the text is too hard to parse"


def test_a_grammar_that_is_missing_or_does_not_fit_costs_one_language() -> None:
    grammars._load.cache_clear()
    try:
        with mock.patch.dict(grammars._MODULES, {"go": "nothing_of_that_name", "rust": "python no_such_function"}):
            for language, wanted in (("go", "install tree-sitter-nothing-of-that-name"), ("rust", "does not fit")):
                tree = parse(language, b"x")
                assert isinstance(tree, NoTree) and wanted in tree.reason
                assert grammars.why_no_grammar(language) == tree.reason
            assert isinstance(parse("python", b"x"), SyntaxTree)
    finally:
        grammars._load.cache_clear()
    assert grammars.why_no_grammar("go") == ""
