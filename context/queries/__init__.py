"""Queries per language: what defines, imports and uses a name, and where blocks and statements are.

Owns the table and its compiled form, made once per language when it is first asked for.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import tree_sitter

from context.grammars import NoGrammar, grammar
from context.queries.data import JSON, MARKDOWN, SQL, TOML, YAML
from context.queries.language import LanguageQueries
from context.queries.managed import CSHARP, JAVA, KOTLIN, SCALA
from context.queries.scripting import LUA, PHP, PYTHON, RUBY, SHELL
from context.queries.systems import CPP, GO, RUST, SWIFT, ZIG, C
from context.queries.web import CSS, HTML, JAVASCRIPT, TYPESCRIPT

QUERIES = {
    "python": PYTHON,
    "typescript": TYPESCRIPT,
    "typescriptreact": TYPESCRIPT,
    "javascript": JAVASCRIPT,
    "javascriptreact": JAVASCRIPT,
    "go": GO,
    "rust": RUST,
    "java": JAVA,
    "c": C,
    "cpp": CPP,
    "csharp": CSHARP,
    "ruby": RUBY,
    "php": PHP,
    "kotlin": KOTLIN,
    "swift": SWIFT,
    "lua": LUA,
    "shellscript": SHELL,
    "html": HTML,
    "css": CSS,
    "sql": SQL,
    "json": JSON,
    "jsonc": JSON,
    "yaml": YAML,
    "toml": TOML,
    "markdown": MARKDOWN,
    "scala": SCALA,
    "zig": ZIG,
}


@dataclass(frozen=True, slots=True)
class Compiled:
    """A language's queries, ready to run. Read-only; threads share them."""

    language: LanguageQueries
    definitions: tree_sitter.Query
    uses: tree_sitter.Query


@functools.cache
def _compile(language: str) -> Compiled | str:
    """The queries, or why they can't be run."""
    queries = QUERIES[language]
    made = grammar(language)
    try:
        return Compiled(queries, tree_sitter.Query(made, queries.definitions), tree_sitter.Query(made, queries.uses))
    except tree_sitter.QueryError as error:
        return f"{language} has no symbols: its grammar is of a version that midfill does not know ({error})"


def compiled(language: str) -> Compiled:
    """NoGrammar: there is none, or it is of a version that the queries were not written for. Takes up to half a second when a
    language is first asked for, and no other thread runs meanwhile: not for a process that answers an editor."""
    made = _compile(language) if language in QUERIES else f"{language or 'an unknown language'} has no symbols"
    if isinstance(made, str):
        raise NoGrammar(made)
    return made
