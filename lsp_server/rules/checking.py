"""The parser's word and known names, as the rules ask for them.

Owns the way between characters of prompt form and bytes of the document. Pure: tree and text are values.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from context.builtin_names import BUILTIN
from context.gate import Gate
from context.text import Text
from lsp_server.rules.settled import Checked, Known, SyntaxCheck

MOST_SEARCHED = 1 << 20  # bytes; of a longer text a name is taken for known


def syntax_check(gate: Gate, rest: str) -> SyntaxCheck:
    """rest: the cursor's line behind the cursor, as far as it may be replaced."""

    def check(text: str, n_replaced: int) -> Checked:
        inserted = text.encode("utf-8", "replace")
        look = gate.look(inserted, len(rest[:n_replaced].encode()))
        at = None if look.error_at is None else len(inserted[: look.error_at].decode("utf-8", "ignore"))
        return Checked(at, look.why, look.calls)

    return check


def known_names(language: str, text: Text, indexed: Callable[[str], bool] = lambda name: False) -> Known | None:
    """Is a name one of the language, indexed, or used anywhere in the text; all are, where a line imports what nobody sees.

    None where a call may mean what nobody sees anyway. The text is not looked at before a name is none of the language's."""
    builtin = BUILTIN.get(language)
    if builtin is None or len(text) > MOST_SEARCHED:
        return None
    whole = functools.cache(text.bytes)

    def known(name: str) -> bool:
        return name in builtin or indexed(name) or _stands_in(whole(), name) or _imports_all(language, whole())

    return known


def _stands_in(text: bytes, name: str) -> bool:
    return re.search(rb"(?<![\w.])" + re.escape(name.encode()) + rb"(?!\w)", text) is not None


def _imports_all(language: str, text: bytes) -> bool:
    stars = {"python": rb"^\s*from\s+\S+\s+import\s+\*", "go": rb"^\s*(?:import\s+)?\.\s+\"", "rust": rb"::\*\s*[;,}]"}
    pattern = stars.get(language)
    return pattern is not None and re.search(pattern, text, re.M) is not None
