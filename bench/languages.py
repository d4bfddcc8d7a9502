"""What VS Code's language configurations say about typing: pairs, where they close, when Enter indents; strings and comments.

Owns facts and one scanner. It knows as much of a language as pair closing asks for, no more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

BRACKETS = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Language:
    """What VS Code's language configuration says about typing. autoclose_*: characters before which a pair is closed."""

    name: str
    quotes: str
    string_prefixes: str  # letters after which a quote is closed although a word stands before it
    comment_closes: str  # quotes that are closed inside comments
    line_comment: str
    block_comment: tuple[str, str] | None
    triple: bool
    multiline_quotes: str
    autoclose_brackets: str
    autoclose_quotes: str
    indents: re.Pattern[str]  # the line before the cursor, when Enter indents once more
    tab: int


PYTHON = Language(
    name="python",
    quotes="\"'",
    string_prefixes="rRuUfFbB",
    comment_closes='"',
    line_comment="#",
    block_comment=None,
    triple=True,
    multiline_quotes="",
    autoclose_brackets="'\"`;:.,=}])> \n\t",
    autoclose_quotes=";:.,=}])> \n\t",
    indents=re.compile(
        r"[\[({]\s*$|^\s*(?:def|class|for|if|elif|else|while|try|with|finally|except|async|match|case)\b.*:\s*$"
    ),
    tab=4,
)
TYPESCRIPT = Language(
    name="typescript",
    quotes="\"'`",
    string_prefixes="",
    comment_closes='"',
    line_comment="//",
    block_comment=("/*", "*/"),
    triple=False,
    multiline_quotes="`",
    autoclose_brackets=";:.,=}])>` \n\t",
    autoclose_quotes=";:.,=}])>` \n\t",
    indents=re.compile(r"[\[({]\s*$|^\s*(?:case\s.+|default):$"),
    tab=2,
)
LANGUAGES = {language.name: language for language in (PYTHON, TYPESCRIPT)}


@dataclass(frozen=True, slots=True)
class Lex:
    """Where a scan stands. region: "code" | "string" | "comment"; close: the text that ends it ("\\n" too for one-liners)."""

    region: str = "code"
    close: str = ""


def scan(text: str, start: int, state: Lex, language: Language) -> Iterator[tuple[int, str, Lex]]:
    """(index, region that the character belongs to, state behind it) for each character; delimiters belong to their string."""
    i = start
    while i < len(text):
        region, n = state.region, 1
        if region == "code":
            n, state = _open_region(text, i, language)
            region = state.region
        elif text[i] == "\\" and region == "string" and i + 1 < len(text) and text[i + 1] != "\n":
            n = 2
        elif state.close != "\n" and text.startswith(state.close, i):
            n, state = len(state.close), Lex()
        elif text[i] == "\n" and (state.close == "\n" or _one_line(state, language)):
            region, state = "code", Lex()
        for j in range(i, min(i + n, len(text))):
            yield j, region, state
        i += n


def _one_line(state: Lex, language: Language) -> bool:
    return state.region == "string" and len(state.close) == 1 and state.close not in language.multiline_quotes


def _open_region(text: str, i: int, language: Language) -> tuple[int, Lex]:
    if text.startswith(language.line_comment, i):
        return len(language.line_comment), Lex("comment", "\n")
    if language.block_comment and text.startswith(language.block_comment[0], i):
        return len(language.block_comment[0]), Lex("comment", language.block_comment[1])
    if text[i] not in language.quotes:
        return 1, Lex()
    delimiter = text[i] * 3 if language.triple and text.startswith(text[i] * 3, i) else text[i]
    return len(delimiter), Lex("string", delimiter)


def end_of_scan(text: str, language: Language) -> tuple[str, Lex]:
    """Region of the last character, and the state behind it."""
    last = ("code", Lex())
    for _, region, state in scan(text, 0, Lex(), language):
        last = (region, state)
    return last
