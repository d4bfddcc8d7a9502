"""Grammars: which module holds a language's, loaded when it is first needed.

Owns what is loaded, and why a language has no grammar: that costs this one language its trees, nothing else. Grammars stay
loaded; they are read-only and shared by all threads.
"""

from __future__ import annotations

import functools
import importlib

import tree_sitter

_MODULES = {
    "python": "python",
    "typescript": "typescript language_typescript",
    "typescriptreact": "typescript language_tsx",
    "javascript": "javascript",
    "javascriptreact": "javascript",  # its grammar knows JSX
    "go": "go",
    "rust": "rust",
    "java": "java",
    "c": "c",
    "cpp": "cpp",
    "csharp": "c_sharp",
    "ruby": "ruby",
    "php": "php language_php",
    "kotlin": "kotlin",
    "swift": "swift",
    "lua": "lua",
    "shellscript": "bash",
    "html": "html",
    "css": "css",
    "sql": "sql",
    "json": "json",
    "jsonc": "json",  # comments are part of the grammar
    "yaml": "yaml",
    "toml": "toml",
    "markdown": "markdown",
    "scala": "scala",
    "zig": "zig",
}


class NoGrammar(Exception):
    """A language has no grammar here. Its text is one sentence for people."""


@functools.cache
def _load(language: str) -> tree_sitter.Language | str:
    """The grammar, or why there is none."""
    if language not in _MODULES:
        return f"there is no grammar for {language or 'an unknown language'}"
    module, _, function = _MODULES[language].partition(" ")
    package = f"tree-sitter-{module.replace('_', '-')}"
    try:
        made = getattr(importlib.import_module(f"tree_sitter_{module}"), function or "language")()
        return tree_sitter.Language(made)
    except ImportError:
        return f"{language} has no syntax trees: install {package} into midfill's environment"
    except Exception as error:  # built for another version: an odd attribute, type or ABI number, whatever it is
        return f"{language} has no syntax trees: {package} does not fit this tree-sitter ({error}); install a newer one"


def grammar(language: str) -> tree_sitter.Language:
    """The grammar of a language (LSP's id). NoGrammar: there is none, with the reason; asked again it costs nothing."""
    loaded = _load(language)
    if isinstance(loaded, str):
        raise NoGrammar(loaded)
    return loaded


def why_no_grammar(language: str) -> str:
    """Why a language has no trees, or ""."""
    loaded = _load(language)
    return loaded if isinstance(loaded, str) else ""


def has_grammar(language: str) -> bool:
    """Is a grammar known for the language? Loads nothing; it may still fail to load."""
    return language in _MODULES
