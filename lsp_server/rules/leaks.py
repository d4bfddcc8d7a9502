"""What is not meant for the text: control tokens in letters, half characters, code fences, another file's beginning.

Owns the patterns. Each looks at the end of a text, or at one line.
"""

from __future__ import annotations

import re

from lsp_server.rules.manners import manner_of

_MARKUP = frozenset({"html", "markdown", "xml", "php", "javascriptreact", "typescriptreact", "vue", "svelte", "plaintext"})
_WORDS = (
    "fim_prefix|fim_suffix|fim_middle|fim_pad|fim-prefix|fim-suffix|fim-middle|file_sep|repo_name|reponame|filename|gh_stars|"
    "endoftext|end_of_text|PRE|SUF|MID|EOT|EOM|eos|bos|pad|unk|start_of_turn|end_of_turn|issue_start|issue_comment|"
    r"jupyter_\w{2,20}|commit_(?:before|msg|after)|unused\d+"
)
# `<|name|>` of most families, DeepSeek's full-width bars, StarCoder's, CodeLlama's and Gemma's words, Codestral's brackets
_MARKER = re.compile(
    rf"(?:<\|[A-Za-z][\w▁ -]{{1,30}}\|>|<｜[^｜\n]{{2,40}}｜>|<(?:{_WORDS})>|\[(?:PREFIX|SUFFIX|MIDDLE|INST|/INST)\]|</s>)\Z"
)
MARKER_ENDS = frozenset(">]")
_LONGEST_MARKER = 48
_HALF_MARKER = re.compile(r"<(?:\|[A-Za-z]?[\w▁-]{0,30}\|?|｜[^｜\n]{0,40}｜?)\Z")
_BROKEN = re.compile("[\ufffd\ud800-\udfff]")
_FENCE = re.compile(r"[ \t]*```")
_SUFFIXES = "py|pyi|js|jsx|mjs|ts|tsx|go|rs|java|kt|c|cc|cpp|cxx|h|hpp|cs|rb|php|swift|lua|sh|scala|zig|css|html|sql"
# a comment that holds nothing but a file's name
_FILE_NAME = re.compile(
    rf"(?:#|//|--|/\*|<!--)\s*(?:file(?:name)?:\s*|path:\s*)?(?:[\w.-]+/)*[\w-]+\.(?:{_SUFFIXES})\s*(?:\*/|-->)?\s*\Z", re.I
)
_ANY_FILE = ("diff --git ", "#!/")


def marker_at(text: str, end: int, language: str, known: str) -> int | None:
    """Where a control token begins that text[:end] ends with. known: text around, whose own markers are meant."""
    found = _MARKER.search(text, max(0, end - _LONGEST_MARKER), end)
    if found is None or (found[0] == "</s>" and language in _MARKUP) or found[0] in known:
        return None
    return found.start()


def half_marker(text: str) -> int | None:
    """Where a control token begins that a text breaks off in."""
    found = _HALF_MARKER.search(text, max(0, len(text) - _LONGEST_MARKER))
    return found.start() if found is not None else None


def is_broken(char: str, known: str) -> bool:
    """A character that stands for bytes that are none, or half of one."""
    return _BROKEN.match(char) is not None and (char != "\ufffd" or char not in known)


def is_fence(line: str, language: str) -> bool:
    """A Markdown fence where no Markdown is written."""
    return language not in ("markdown", "plaintext") and _FENCE.match(line) is not None


def begins_file(line: str, language: str) -> bool:
    """Does a line (from its beginning) stand only where a file begins?"""
    heads = (*_ANY_FILE, *manner_of(language).file_heads)
    return line.startswith(heads) or (language != "markdown" and _FILE_NAME.match(line) is not None)
