"""A place to complete: what stands around the cursor, as far as rules look at it.

Owns the facts that are read off the text, and whether one line or a block is wanted. Text is in prompt form (line ends are
`\\n`). Refuses documents and trees: what a tree knows is told as a value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from lsp_server.rules.manners import manner_of
from lsp_server.rules.scanner import OPENERS, Scanner, scan

LOOK = 4096  # characters before and behind the cursor that are worth giving; more costs time and changes nothing
_WITH_MACROS = frozenset({"c", "cpp", "objective-c", "objective-cpp"})
_MACRO = re.compile(r"\s*#\s*define\b")
_TAB = 4  # columns, where tabs and blanks meet
_CLOSERS_ONLY = re.compile(r"[\s)\]}>,;:'\"`]*\Z")
_WORD_OPENER = re.compile(r"(?:=>|->|\b(?:do|then|else|begin|try|loop|ensure|repeat))\Z|\bdo\s*\|[^|]*\|\Z")
_COLON_OPENER = re.compile(
    r"\s*(?:async\s+)?(?:def|class|if|elif|else|for|while|try|except|finally|with|match|case|default)\b[^#]*:\Z"
)
_DEF_OPENER = re.compile(r"\s*(?:def|class|module|if|unless|while|until|case|begin|function|local function)\b[^;]*\Z")


@dataclass(frozen=True, slots=True)
class Place:
    """before, after: the text on both sides of the cursor, at least their halves of its line; as much as LOOK of it counts.
    before begins at a line's beginning. single_line: one line is wanted, not a block. is_end: nothing stands behind `after`,
    is_start: nothing before `before`.
    zone: "code", "comment" or "string": what the cursor's line begins in, where a tree tells it; "" where the text has to.
    lead: how the string or comment begins that goes on over the beginning of `before`, "" where none does or nobody knows.
    """

    language: str
    before: str
    after: str = ""
    single_line: bool = False
    is_end: bool = True
    zone: str = ""
    is_start: bool = True
    lead: str = ""

    def scanner(self) -> Scanner:
        """What one is in at the cursor, and which brackets are open there. A copy that may go on."""
        if self.zone != "code":
            return scan(self.language, self.lead + self.before)
        line = self.line
        found = scan(self.language, self.lead + self.before[: len(self.before) - len(line)])
        found.leave()
        found.feed_all(line)
        return found

    @property
    def line(self) -> str:
        """The cursor's line up to the cursor."""
        return self.before[self.before.rfind("\n") + 1 :]

    @property
    def rest(self) -> str:
        """The cursor's line behind the cursor."""
        return self.after.split("\n", 1)[0]

    @property
    def unit(self) -> str:
        """One level of indentation, "" where it isn't known."""
        return unit_of(self.before, self.after)

    @property
    def is_in_front(self) -> bool:
        """Does the cursor stand in front of a line's text?"""
        return not self.line.strip() and bool(self.rest.strip())

    @property
    def above(self) -> str:
        """The nearest line above that isn't blank, or ""."""
        return next((line for line in reversed(self.before.split("\n")[:-1]) if line.strip()), "")

    @property
    def below(self) -> tuple[str, ...]:
        """The first lines below that aren't blank, at most three."""
        return tuple(line for line in self.after[:LOOK].split("\n")[1:] if line.strip())[:3]

    @property
    def opener(self) -> str:
        """The bracket, colon or word in front of the cursor that opens something, where the line ends behind it; else ""."""
        return opener_of(self.language, self.line) if _CLOSERS_ONLY.match(self.rest) else ""


def place_of(
    language: str,
    before: str,
    after: str,
    *,
    accepted: bool = False,
    zone: str = "",
    lead: str = "",
    is_end: bool = True,
    is_start: bool = True,
) -> Place:
    """The place between two texts. accepted: a suggestion has just been accepted here, so that its author goes on."""
    is_start = is_start and len(before) <= LOOK
    before = before[-LOOK:]
    cut = before.find("\n") + 1 if len(before) == LOOK else 0
    if cut and cut <= before.rfind("\n") + 1:
        before = before[cut:]
    after, is_end = after[:LOOK], is_end and len(after) <= LOOK
    place = Place(language, before, after, False, is_end, zone, is_start, "" if cut else lead)
    return replace(place, single_line=_is_single(place, accepted))


def _is_single(place: Place, accepted: bool) -> bool:
    """A block is wanted where nothing stands before the cursor on its line, and behind what opens one; not on a blank line
    between two that belong together."""
    if accepted and not place.rest.strip():
        return False
    if place.line.strip():
        return not place.opener
    if place.rest.strip():
        return False  # in front of a line
    if opener_of(place.language, place.above.rstrip()):
        return False
    below = place.after.split("\n", 2)[1:2]
    between = bool(below) and bool(below[0].strip()) and width(below[0]) >= width(place.line) > 0
    return between and width(place.above) == width(place.line) and not is_closer(place.language, below[0])


def opener_of(language: str, line: str) -> str:
    """What a line opens at its end: a bracket, ":" or a word; "" if nothing, or in a comment or string."""
    line = line.rstrip()
    if not line or scan(language, line).inside:
        return ""
    if line[-1] in OPENERS:
        return line[-1]
    manner = manner_of(language)
    if line[-1] == ":":
        return ":" if _COLON_OPENER.match(line) or language == "yaml" else ""
    if manner.ends and (_WORD_OPENER.search(line) or _DEF_OPENER.match(line)):
        return line.split()[0]
    return "=>" if line.endswith("=>") else ""


def is_closer(language: str, line: str) -> bool:
    """Does a line begin with what closes a block?"""
    stripped = line.strip()
    if not stripped:
        return False
    word = re.match(r"\w+", stripped)
    return stripped[0] in ")]}" or (word is not None and word[0] in manner_of(language).ends)


def is_in_macro(place: Place, said: str = "") -> bool:
    """Is the line behind `said`, whole lines of a text, one of a C macro of several lines?"""
    if place.language not in _WITH_MACROS:
        return False
    above = (place.line + said).split("\n")[-2] if said else place.above
    return above.rstrip().endswith("\\") or (not said and _MACRO.match(place.line) is not None)


def width(line: str) -> int:
    """Columns of a line's indentation."""
    columns = 0
    for char in line:
        if char == "\t":
            columns += _TAB - columns % _TAB
        elif char == " ":
            columns += 1
        else:
            break
    return columns


def unit_of(before: str, after: str = "") -> str:
    """One level of indentation around a place: a tab, or as many blanks as lines differ by most often; "" if nothing is
    indented."""
    lines = (before[-LOOK:] + "\0" + after[:LOOK]).split("\n")  # the cursor's line counts, also if it is blank
    indented = [line for line in lines if line[:1] in (" ", "\t")]
    if not indented:
        return ""
    if 2 * sum(line[0] == "\t" for line in indented) >= len(indented):
        return "\t"
    steps: dict[int, int] = {}
    last = 0
    for line in lines:
        if not line.strip():
            continue
        now = len(line) - len(line.lstrip(" "))
        if now - last in (1, 2, 3, 4, 8):
            steps[now - last] = steps.get(now - last, 0) + 1
        last = now
    return " " * max(steps, key=lambda n: (steps[n], n)) if steps else ""
