"""What may be shortened in a language's files, and how that language says that something was left out.

Captures of `cuts`:
  body     of a function: statements, with braces or without
  literal  a value of many entries
  text     content of a string, an element or a paragraph
  doc      a string that is a comment by its place
Comments are those of the language's `uses`.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

import tree_sitter

from context.grammars import grammar

_NOTHING = r"(?!)"


@dataclass(frozen=True, slots=True)
class TrimQueries:
    """line: a comment that says "left out" up to its line's end. inline: the same where more follows on the line, b"" if there
    is no such comment. statement: what stands for statements in a body without braces. entry: for a literal's entries.
    helper: of the text in front of a definition's name, with the name (regular expression): nobody else calls it."""

    cuts: str = ""
    line: bytes = b"// ..."
    inline: bytes = b"/* ... */"
    statement: bytes = b""
    entry: bytes = b""
    helper: str = _NOTHING


_SCRIPT = """
[(function_declaration body: (_) @body) (function_expression body: (_) @body) (generator_function body: (_) @body)
  (generator_function_declaration body: (_) @body) (method_definition body: (_) @body)
  (arrow_function body: (statement_block) @body) (class_static_block body: (_) @body)]
[(array) (object)] @literal
(template_string) @text
"""
_PYTHON = TrimQueries(
    """
(function_definition body: (block) @body)
(if_statement condition: (comparison_operator . (identifier) @name . "==") consequence: (block) @body (#eq? @name "__name__"))
[(list) (dictionary) (set) (tuple)] @literal
(assignment right: [(call arguments: (argument_list) @literal) (parenthesized_expression) @literal])
(string (string_content) @text)
(expression_statement (string) @doc)
""",
    b"# ...",
    b"",
    b"...",
    b"...",
)
_JAVASCRIPT = TrimQueries(_SCRIPT, helper=r"#\w+\Z")
_TYPESCRIPT = TrimQueries(_SCRIPT, helper=r"#\w+\Z|\bprivate\b")
_JAVA = TrimQueries(
    """
[(method_declaration body: (_) @body) (constructor_declaration body: (_) @body) (static_initializer (block) @body)
  (compact_constructor_declaration body: (_) @body) (lambda_expression body: (block) @body)]
(array_initializer) @literal
""",
    helper=r"\bprivate\b",
)
_C = TrimQueries(
    """
(function_definition body: (compound_statement) @body)
(initializer_list) @literal
""",
    helper=r"\bstatic\b",
)
_CSHARP = TrimQueries(
    """
[(method_declaration body: (block) @body) (constructor_declaration body: (block) @body)
  (operator_declaration body: (block) @body)
  (local_function_statement body: (block) @body) (destructor_declaration body: (block) @body)
  (accessor_declaration body: (block) @body) (lambda_expression body: (block) @body)]
(initializer_expression) @literal
""",
    helper=r"\bprivate\b",
)
_JSON = TrimQueries("(document (object (pair value: [(object) (array)] @literal)))")

_BY_LANGUAGE = {
    "python": _PYTHON,
    "javascript": _JAVASCRIPT,
    "javascriptreact": _JAVASCRIPT,
    "typescript": _TYPESCRIPT,
    "typescriptreact": _TYPESCRIPT,
    "go": TrimQueries(
        """
[(function_declaration body: (block) @body) (method_declaration body: (block) @body) (func_literal body: (block) @body)]
(literal_value) @literal
""",
        helper=r"(?:\A|[\s)])[a-z_]\w*\Z",
    ),
    "rust": TrimQueries(
        """
[(function_item body: (block) @body) (closure_expression body: (block) @body)]
(array_expression) @literal
""",
        helper=r"\A(?!.*\bpub\b)",
    ),
    "java": _JAVA,
    "c": _C,
    "cpp": TrimQueries(_C.cuts + "(lambda_expression body: (compound_statement) @body)", helper=_C.helper),
    "csharp": _CSHARP,
    "ruby": TrimQueries(
        """
[(method body: (body_statement) @body) (singleton_method body: (body_statement) @body) (do_block body: (body_statement) @body)]
[(array) (hash)] @literal
""",
        b"# ...",
        b"",
        b"# ...",
    ),
    "php": TrimQueries(
        """
[(function_definition body: (_) @body) (method_declaration body: (compound_statement) @body)
  (anonymous_function body: (_) @body)]
(array_creation_expression) @literal
(heredoc value: (heredoc_body) @text)
""",
        helper=r"\bprivate\b",
    ),
    "kotlin": TrimQueries(
        """
[(function_body (block) @body) (secondary_constructor (block) @body) (anonymous_initializer (block) @body)]
""",
        helper=r"\bprivate\b",
    ),
    "swift": TrimQueries(
        """
[(function_body) @body (computed_property (statements)) @body (computed_getter (statements)) @body
  (computed_setter (statements)) @body]
[(array_literal) (dictionary_literal)] @literal
""",
        helper=r"\b(?:file)?private\b",
    ),
    "lua": TrimQueries(
        """
[(function_declaration body: (block) @body) (function_definition body: (block) @body)]
(table_constructor) @literal
""",
        b"-- ...",
        b"--[[ ... ]]",
        b"-- ...",
        helper=r"\blocal\b",
    ),
    "shellscript": TrimQueries(
        "(function_definition body: (compound_statement) @body) (array) @literal", b"# ...", b"", b": # ..."
    ),
    "scala": TrimQueries(
        "(function_definition body: [(block) (indented_block)] @body)", statement=b"/* ... */", helper=r"\bprivate\b"
    ),
    "zig": TrimQueries(
        """
[(function_declaration body: (block) @body) (test_declaration (block) @body)]
(initializer_list) @literal
""",
        inline=b"",
        helper=r"\A(?!.*\bpub\b)",
    ),
    "html": TrimQueries("[(raw_text) (text)] @text", b"<!-- ... -->", b"<!-- ... -->"),
    "css": TrimQueries("(rule_set (block) @body)", b"/* ... */"),
    "sql": TrimQueries("", b"-- ..."),
    "json": _JSON,
    "jsonc": _JSON,
    "yaml": TrimQueries(
        "(document (block_node (block_mapping (block_mapping_pair value: (block_node) @body))))", b"# ...", b"", b"# ..."
    ),
    "toml": TrimQueries("(array) @literal", b"# ...", b""),
    "markdown": TrimQueries("[(paragraph) (code_fence_content)] @text", b"...", b"...", b"..."),
}


@dataclass(frozen=True, slots=True)
class CompiledTrim:
    """A language's queries, ready to run. Read-only; threads share them."""

    marks: TrimQueries
    cuts: tree_sitter.Query | None
    helper: re.Pattern[str]


@functools.cache
def compiled_trim(language: str) -> CompiledTrim | None:
    """None: the grammar is of a version that the queries were not written for, or nothing is known of the language."""
    marks = _BY_LANGUAGE.get(language)
    if marks is None:
        return None
    try:
        cuts = tree_sitter.Query(grammar(language), marks.cuts) if marks.cuts else None
    except tree_sitter.QueryError:
        return None
    return CompiledTrim(marks, cuts, re.compile(marks.helper, re.S))
