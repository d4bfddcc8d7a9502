"""How a text fits between what stands before and behind the cursor: what of either it says again.

Owns counts only: characters that are replaced behind the cursor, lines that stand below, characters that are an echo.
"""

from __future__ import annotations

import re

from lsp_server.rules.below import Below
from lsp_server.rules.place import Place, is_closer, width
from lsp_server.rules.scanner import OPENERS, PAIRS, scan

QUOTES = "\"'`"
_SHORTEST_OVERLAP = 3  # where no word would be glued to another
_SHORTEST_ECHO = 4  # characters of the cursor's line
_SHORTEST_ECHOED_LINE = 12
_ESCAPED = re.compile(r"\\.")


def fit(text: str, rest: str) -> tuple[str, int]:
    """Fit an offered text to the rest of the cursor's line.

    Returns the text to insert and how many characters of `rest` it replaces: closers and quotes that the text has made itself
    (an editor puts them there at every opening bracket), or a tail that it repeats.
    """
    if not rest or not text:
        return text, 0
    tail = rest.rstrip()
    if text.endswith(tail) and any(char.isalnum() for char in tail):
        return text, len(tail)
    unmatched = _unmatched_closers(text)
    n = 0
    for char in tail:
        while unmatched and unmatched[0] in QUOTES and char != unmatched[0]:
            unmatched.pop(0)  # an apostrophe, or a string that was open before
        if unmatched and char == unmatched[0]:
            unmatched.pop(0)
        elif not (char.isspace() and unmatched):
            break
        n += 1
    if n < len(tail) and text.endswith(tail) and not any(c in OPENERS or c in PAIRS for c in tail[n:]):
        n = len(tail)  # what ends the statement behind the closers
    return text, len(tail[:n].rstrip())


def _unmatched_closers(text: str) -> list[str]:
    """Closers and quotes in `text` that close something opened before it, in order."""
    stack: list[str] = []
    out: list[str] = []
    quote = ""
    escaped = False
    for i, char in enumerate(text):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif quote:
            if char == quote:
                quote = ""
        elif char in QUOTES:
            # an odd number of this quote from here on the line: the first one closes a string that is open already
            line = _ESCAPED.sub("", text[i:].split("\n", 1)[0])
            if line.count(char) % 2 and not stack and not out:
                out.append(char)
            else:
                quote = char
        elif char in OPENERS:
            stack.append(char)
        elif char in PAIRS:
            if stack and stack[-1] == PAIRS[char]:
                stack.pop()
            elif not stack:
                out.append(char)
    return out


def n_overlap(text: str, rest: str) -> int:
    """Characters at the beginning of `rest` that the text ends with, whole words of them."""
    for n in range(min(len(text), len(rest)), 0, -1):
        if not text.endswith(rest[:n]):
            continue
        glued = _is_word(rest[0]) and (n == len(text) or not _is_word(text[-n - 1]))
        long = n >= _SHORTEST_OVERLAP and any(map(str.isalnum, rest[:n])) and not _is_word(rest[0])
        whole = not (_is_word(rest[n - 1]) and _is_word(rest[n : n + 1]))
        if whole and (glued or long):
            return n
    return 0


def n_below(place: Place, lines: list[str]) -> int:
    """How many lines at the end stand below already. Of a closer that was half said its beginning is enough."""
    said = list(lines)
    while said and not said[-1].strip():
        said.pop()
    if not said:
        return 0
    n_blank = len(lines) - len(said)
    n = Below(place).n_repeated(said)
    last = said[-1].strip()
    if not n and place.below and not place.single_line and is_closer(place.language, last):
        alone = not any(c.isalnum() for c in last) or last in place.below[0].split()
        begins_line = len(said) > 1 or not place.line.strip()
        closes = _is_extra(place, said)
        n = int(alone and begins_line and closes and place.below[0].strip().startswith(last))
    return n + n_blank if n else 0


def _is_extra(place: Place, lines: list[str]) -> bool:
    """Does the last line close more than the text has opened? A word, like `end`: is it no deeper than the line below?"""
    if any(c in PAIRS for c in lines[-1]):
        return bool(scan(place.language, "\n".join(lines)).unmatched)
    last = lines[-1] if len(lines) > 1 else place.line + lines[-1]
    return width(last) <= width(place.below[0])


def n_echoed(place: Place, text: str) -> int:
    """Characters at the beginning that say again what stands before the cursor: its line, or the lines above."""
    head = place.line.lstrip()
    if head.strip():
        for said in dict.fromkeys((head, head.rstrip())):
            if len(said) < _SHORTEST_ECHO or not text.startswith(said) or not any(not _is_word(c) for c in head):
                continue
            closes = scan(place.language, text[len(said) :].split("\n", 1)[0]).unmatched
            if len(closes) <= len(scan(place.language, place.line).open):
                return len(said)
        return 0
    return _n_echoed_lines(place, text)


def _n_echoed_lines(place: Place, text: str) -> int:
    above = [line for line in place.before.split("\n")[:-1] if line.strip()]
    lines = (place.line + text).split("\n")
    for n in range(min(3, len(above), len(lines)), 0, -1):
        if [line.rstrip() for line in lines[:n]] != [line.rstrip() for line in above[-n:]]:
            continue
        said = "".join(line.strip() for line in lines[:n])
        if len(said) < _SHORTEST_ECHOED_LINE or not any(map(str.isalnum, said)):
            return 0
        skipped = sum(len(line) + 1 for line in lines[:n]) - len(place.line)
        if skipped >= len(text):
            return len(text)
        return skipped + (len(place.line) if text.startswith(place.line, skipped) else 0)
    return 0


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"
