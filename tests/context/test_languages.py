"""Languages by name and first bytes."""

from __future__ import annotations

import pytest

from context.grammars import has_grammar, why_no_grammar
from context.languages import LANGUAGES, language_of


@pytest.mark.parametrize(
    "path, data, language",
    [
        ("a/b.py", b"", "python"),
        ("C:\\x\\B.TSX", b"", "typescriptreact"),
        ("a.d.ts", b"", "typescript"),
        ("größe/漢.go", b"", "go"),
        ("x.h", b"int f(void);\n", "c"),
        ("x.h", b"namespace a {\n", "cpp"),
        ("x.h", b"#include <vector>\n", "cpp"),
        ("x.h", b"#include <stdio.h>\n", "c"),
        ("x.C", b"", "cpp"),
        ("Gemfile", b"", "ruby"),
        (".bashrc", b"", "shellscript"),
        ("tsconfig.json", b"", "jsonc"),
        ("run", b"#!/usr/bin/env -S FOO=1 python3.11 -u\n", "python"),
        ("run", b"\xef\xbb\xbf#! /bin/sh", "shellscript"),
        ("run", b"#!/usr/local/bin/node\r\n", "javascript"),
        ("run", b"# no interpreter", ""),
        ("run", b"#!/usr/bin/unheard-of\n", ""),
        ("a.unknown", b"#!/bin/sh\n", ""),
        (".gitignore", b"", ""),
        ("", b"", ""),
    ],
)
def test_language(path: str, data: bytes, language: str) -> None:
    assert language_of(path, data) == language


def test_every_language_has_a_grammar_here() -> None:
    for language in LANGUAGES:
        assert has_grammar(language)
        assert why_no_grammar(language) == ""
    assert not has_grammar("cobol")
