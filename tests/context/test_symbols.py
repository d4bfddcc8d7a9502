"""Symbols of small real code in every language: `symbols.txt` holds each source and what is found in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context.grammars import grammar
from context.queries import QUERIES, compiled
from context.symbols import KINDS, MAX_DOC, MAX_SIGNATURE, FileSymbols, symbols_of

_SECTIONS = (Path(__file__).parent / "symbols.txt").read_text("utf-8").split("===== ")[1:]
SAMPLES = {language: tuple(section.split("~~~~~\n")) for language, section in (each.split("\n", 1) for each in _SECTIONS)}


def told(symbols: FileSymbols) -> str:
    """What `symbols.txt` says of a file. A definition: kind, scope and name | signature | doc."""
    lines = [
        f"{each.kind} {' '.join((*each.scope, each.name))} | {each.signature} | {each.doc}" for each in symbols.definitions
    ]
    lines += [
        f"import {'.' * each.level}{each.module} {each.name or '-'}" + f" as {each.alias}" * bool(each.alias)
        for each in symbols.imports
    ]
    lines += ["calls " + " ".join(each.name for each in symbols.uses if each.is_call)]
    lines += ["names " + " ".join(each.name for each in symbols.uses if not each.is_call)]
    return "".join(line.rstrip().removesuffix(" |").rstrip() + "\n" for line in lines)


def check(language: str, data: bytes) -> FileSymbols:
    """Symbols, and what holds for every file: offsets in bounds and on the names, in order, within the limits."""
    symbols = symbols_of(language, data)
    assert symbols.language == language and symbols.n_bytes == len(data)
    for each in symbols.definitions:
        assert each.kind in KINDS and each.name
        assert 0 <= each.start <= each.name_start <= each.end <= len(data), each
        assert each.start <= each.body_start <= each.end, each
        if each.name.isascii() and each.name.isidentifier():
            name = data[each.name_start :].lstrip(b":$\"'`")
            assert name.startswith(each.name.encode()), each
        assert len(each.signature) <= MAX_SIGNATURE and "\n" not in each.signature
        assert len(each.doc) <= MAX_DOC and "\n" not in each.doc
    starts = [each.start for each in symbols.uses]
    assert starts == sorted(set(starts))
    for use in symbols.uses:
        assert data[use.start :].startswith(use.name.encode()) or "\ufffd" in use.name
    assert [each.start for each in symbols.imports] == sorted(each.start for each in symbols.imports)
    return symbols


@pytest.mark.parametrize("language", SAMPLES)
def test_what_a_file_holds(language: str) -> None:
    source, expected = SAMPLES[language]
    symbols = check(language, source.encode())
    assert told(symbols) == expected
    assert not symbols.is_broken


def test_every_language_has_queries_that_its_grammar_knows_and_a_sample() -> None:
    for language, queries in QUERIES.items():
        assert compiled(language).language is queries
        for kind in (*queries.blocks, *queries.bodies):
            assert grammar(language).id_for_node_kind(kind, True) is not None, f"{language} has no {kind}"
    assert {queries for language, queries in QUERIES.items() if language in SAMPLES} == set(QUERIES.values())


def test_places_of_a_definition() -> None:
    data = "# é\nexport = 1\n@dec\ndef tür(a,\n        b):\n    '''漢字'''\n    return a\n".encode()
    (_, tuer) = check("python", data).definitions
    assert data[tuer.start :].startswith("def tür".encode())
    assert data[tuer.name_start :].startswith("tür".encode())
    assert data[tuer.body_start : tuer.end] == "'''漢字'''\n    return a".encode()
    assert tuer.signature == "def tür(a, b):"
    (first,) = check("typescript", b"export default function f() {}\n").definitions
    assert first.start == 0


def test_scopes_of_uses() -> None:
    symbols = check(
        "python", b"class A:\n    def f(self):\n        return g(B)\n    x = h\n\n\ndef k():\n    pass\n\n\ny = z\n"
    )
    assert [(each.name, each.scope, each.is_call) for each in symbols.uses] == [
        ("g", ("A", "f"), True),
        ("B", ("A", "f"), False),
        ("h", ("A",), False),
        ("z", (), False),
    ]


def test_comments_belong_to_what_stands_under_them() -> None:
    def doc(text: str) -> str:
        return check("go", ("package p\n" + text).encode()).definitions[-1].doc

    assert doc("// one\n// two\nfunc f() {}\n") == "one"
    assert doc("// far\n\nfunc f() {}\n") == ""
    assert doc("var a = 1 // behind\nfunc f() {}\n") == ""
    assert doc("// ------\n// told\nfunc f() {}\n") == "told"
    assert doc("/*\n * told\n */\nfunc f() {}\n") == "told"
    assert check("java", b"// no\nclass A { int f() {} }\n").definitions[1].doc == ""
    assert check("rust", b"/// one\n#[a]\n#[b(c)]\nfn f() {}\n").definitions[0].doc == "one"


@pytest.mark.parametrize("language", ["", "cobol", "plaintext"])
def test_an_unknown_language_has_no_symbols(language: str) -> None:
    assert symbols_of(language, b"def f(): pass\n") == FileSymbols(language, (), (), (), 14, False)


def test_broken_code_keeps_what_stands_around_the_error() -> None:
    symbols = check("python", b"def f(a):\n    return a\n\ndef g(b:\n\nclass K:\n    def m(self):\n        return f(1)\n")
    assert symbols.is_broken
    assert "f" in {each.name for each in symbols.definitions}
    assert "f" in {each.name for each in symbols.uses}


def test_bytes_that_are_not_utf8_keep_their_places() -> None:
    data = b"# gr\xf6\xdfer\ndef f(a):\n    return 'gr\xf6\xdfe', g(a)\n"
    symbols = check("python", data)
    assert [each.name for each in symbols.definitions] == ["f"]
    assert data[symbols.definitions[0].start :].startswith(b"def f")
    assert symbols.definitions[0].doc == "gr\ufffd\ufffder"
    assert data[next(each for each in symbols.uses if each.is_call).start :].startswith(b"g(a)")


@pytest.mark.parametrize("language, opens, closes", [("python", "(", ")"), ("javascript", "[", "]"), ("c", "{", "}")])
def test_deep_nesting_needs_no_recursion(language: str, opens: str, closes: str) -> None:
    n = 5000
    check(language, ("void f() " * (language == "c") + opens * n + "x" + ";" * (language == "c") + closes * n + "\n").encode())


@pytest.mark.parametrize(
    ("language", "before", "entry", "after"),
    [
        ("python", "from a import (", "n{0},", ")\n"),
        ("typescript", "import {{", "n{0} as m{0},", "}} from 'a';\n"),
        ("typescript", "export {{", "n{0},", "}} from 'a';\n"),
        ("javascript", "const {{", "n{0},", "}} = require('a');\n"),
        ("rust", "use a::{{", "n{0},", "}};\n"),
        ("java", "class A {{ int ", "n{0},", "n; }}\n"),
        ("c", "enum e {{", "n{0},", "}};\n"),
        ("go", "package p\nvar ", "n{0}, ", "n int\n"),
    ],
)
def test_long_lists_lose_nothing(language: str, before: str, entry: str, after: str) -> None:
    """Where a pattern waited for what stands behind such a list, more matches would be in progress than are kept."""
    n = 600
    code = before.format() + "\n".join(entry.format(i) for i in range(n)) + after.format()
    symbols = check(language, code.encode())
    names = {each.name for each in (*symbols.definitions, *symbols.imports)}
    assert names.issuperset(f"n{i}" for i in range(n))


def test_a_minified_file_has_none() -> None:
    assert check("javascript", b"function f(a){return a};" * 5000).definitions == ()


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(SAMPLES)), st.data())
def test_broken_code_never_raises(language: str, data: st.DataObject) -> None:
    source = SAMPLES[language][0].encode()
    start = data.draw(st.integers(0, len(source)))
    end = data.draw(st.integers(start, min(len(source), start + 40)))
    new = data.draw(st.sampled_from([b"", b"\xff", b"(", b'"', b"}\n", b"\0", b"\r", b"/*", "漢".encode(), b"\n    "]))
    check(language, source[:start] + new + source[end:])
