"""What is wrong with a text put in at a place, told from the text alone: duplicates, repetition, control tokens.

Pure. Its detectors are their own and know nothing of the product's rules, so that they can find those wrong. What the true
remainder does itself is never a fault.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from bench.places import Place

_PAIRS = {")": "(", "]": "[", "}": "{"}
_CLOSERS = {opener: closer for closer, opener in _PAIRS.items()}
# strings and comments, so that brackets in them don't count; an unfinished one goes to its line's end
_STRINGS = re.compile(r"\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?|`[^`]*`?")
_SLASHED = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_HASHED = re.compile(r"#[^\n]*")
_CONTROL = re.compile(
    r"<\|[a-z_]{2,30}\|>|<｜[^<>\n]{2,30}｜>|</?s>|\[/?INST\]|<(?:PRE|SUF|MID|EOT|EOM)>|<(?:fim|file|repo)_\w+>|<(?:pad|unk)>"
)
_BROKEN = re.compile("[\ufffd\ud800-\udfff]")
_SHORTEST_OVERLAP = 8  # characters of what stands behind the cursor
_FEWEST_LINES, _FEWEST_COUNTED = 3, 6  # equal lines; lines equal but for their numbers
_LARGEST_GROUP, _LEAST_IN_GROUP = 12, 12  # lines; letters and digits
_FEWEST_PERIODS, _LEAST_PERIODIC, _LONGEST_PERIOD = 4, 32, 64


@dataclass(frozen=True, slots=True)
class Offer:
    """text goes in at the cursor in place of n_replaced characters behind it; "" = nothing is offered."""

    text: str
    n_replaced: int = 0

    def document(self, place: Place, more: str = "") -> tuple[str, int, int]:
        """The document with it accepted (and `more` behind it), and where its text begins and ends there."""
        behind = (place.closers + place.after)[self.n_replaced :]
        start = len(place.before)
        return place.before + self.text + more + behind, start, start + len(self.text)

    def line(self, place: Place) -> str:
        """The rest of the cursor's line with it accepted: up to the first line's end, without blanks there."""
        return (self.text + (place.closers + place.after)[self.n_replaced :]).split("\n", 1)[0].rstrip()


def duplicates(place: Place, offer: Offer) -> str:
    """What stands behind the cursor and is said again: "line", "text" or "closer"; "" if nothing is."""
    behind = (place.closers + place.after)[offer.n_replaced :]
    if _says_next_line(place, offer):
        return "line"
    if _overlap(offer.text, behind) > _overlap(place.truth, place.after):
        return "text"
    return "closer" if place.kind != "comment" and _doubles_closer(place, offer, behind) else ""


def repetition(place: Place, offer: Offer) -> str:
    """An endless repetition: "lines", "group" (of several lines), "counter" or "period"; "" if there is none."""
    for name, found in (("lines", _equal_lines), ("group", _equal_groups), ("counter", _counting), ("period", _periodic)):
        if found(offer.text) and not found(place.truth):
            return name
    return ""


def control_tokens(place: Place, offer: Offer) -> str:
    """The first control token in letters, or half character, that the document does not hold itself; else ""."""
    around = place.before + place.closers + place.after
    for found in (*_CONTROL.finditer(offer.text), *_BROKEN.finditer(offer.text)):
        if found[0] not in around and found[0] not in place.truth:
            return found[0]
    return ""


def _says_next_line(place: Place, offer: Offer) -> bool:
    below = [line.strip() for line in place.after.split("\n")[1:] if line.strip()][:1]
    lines = [line.strip() for line in offer.text.split("\n")]
    # a line that only goes on with what stands before the cursor is none of its own
    own = [line for i, line in enumerate(lines) if line and (i or not place.typed.strip())]
    if not below or not own or len(below[0]) < 3 or not any(map(str.isalnum, below[0])):
        return False
    return own[-1] == below[0] and place.truth.rsplit("\n", 1)[-1].strip() != below[0]


def _overlap(text: str, behind: str) -> int:
    """How many characters text ends with and behind begins with, blanks at that border aside; 0 for few."""
    text, behind = text.rstrip(), behind.lstrip()
    for n in range(min(len(text), len(behind), 2000), _SHORTEST_OVERLAP - 1, -1):
        if text.endswith(behind[:n]) and any(map(str.isalnum, behind[:n])):
            is_whole = not (_is_word(behind[n - 1]) and _is_word(behind[n : n + 1]))
            return n if is_whole else 0
    return 0


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _doubles_closer(place: Place, offer: Offer, behind: str) -> bool:
    """Does it close more than the true remainder does, and does the same closer stand right behind it?"""
    line = behind.split("\n", 1)[0]
    made = Counter(_unmatched(place.language, offer.text + line))
    true = Counter(_unmatched(place.language, place.truth))
    extra = made - true
    near = line.strip()[:1] or behind.lstrip()[:1]
    return near in extra and near in _unmatched(place.language, offer.text)


def unclosed(language: str, text: str) -> str:
    """The closers of what the text opens and does not close."""
    return "".join(_CLOSERS[char] for char in reversed(_brackets(language, text)[1]))


def _unmatched(language: str, text: str) -> list[str]:
    """Closers of what was opened before the text."""
    return _brackets(language, text)[0]


def _brackets(language: str, text: str) -> tuple[list[str], list[str]]:
    """Closers that close nothing in the text, and openers that are closed nowhere in it."""
    text = _STRINGS.sub('""', text)
    text = (_HASHED if language == "python" else _SLASHED).sub("", text)
    stack: list[str] = []
    unmatched: list[str] = []
    for char in text:
        if char in _PAIRS.values():
            stack.append(char)
        elif char in _PAIRS:
            if stack and stack[-1] == _PAIRS[char]:
                stack.pop()
            elif not stack:
                unmatched.append(char)
    return unmatched, stack


def _runs(keys: list[str]) -> int:
    """The longest run of equal keys."""
    longest = n = 0
    last = None
    for key in keys:
        n = n + 1 if key == last else 1
        last, longest = key, max(longest, n)
    return longest


def _worded(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if any(map(str.isalnum, line))]


def _equal_lines(text: str) -> bool:
    return _runs(_worded(text)) >= _FEWEST_LINES


def _equal_groups(text: str) -> bool:
    """The same two lines three times, or the same three or more lines twice, one after the other."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    for size in range(2, min(_LARGEST_GROUP, len(lines) // 2) + 1):
        n_more = 2 if size == 2 else 1
        for i in range(len(lines) - size * (1 + n_more) + 1):
            group = lines[i : i + size]
            is_again = all(lines[i + k * size : i + (k + 1) * size] == group for k in range(1, n_more + 1))
            if is_again and sum(map(str.isalnum, "".join(group))) >= _LEAST_IN_GROUP:
                return True
    return False


def _counting(text: str) -> bool:
    """Lines on and on that are equal but for their numbers."""
    return _runs([re.sub(r"\d+", "0", line) for line in _worded(text)]) >= _FEWEST_COUNTED


def _periodic(text: str) -> bool:
    """Does the text end with the same piece over and over? Rows of one sign, as under headings, are none."""
    text = text.rstrip()
    for n in range(1, min(_LONGEST_PERIOD, len(text) // _FEWEST_PERIODS) + 1):
        piece = text[-n:]
        n_times = max(_FEWEST_PERIODS, -(-_LEAST_PERIODIC // n))
        if text.endswith(piece * n_times) and any(map(str.isalnum, piece)):
            return True
    return False
