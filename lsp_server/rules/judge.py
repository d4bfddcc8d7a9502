"""The judge of one generation: reads it piece by piece, says when it may end, and in the end what of it is offered.

Owns the order of the rules (`RULES` names them, and each can be switched off), and what a stop keeps. Goes character by
character, so that no verdict depends on how the text was cut into pieces. Refuses tokens, clocks and documents.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lsp_server.rules.below import Below
from lsp_server.rules.leaks import MARKER_ENDS, begins_file, is_broken, is_fence, marker_at
from lsp_server.rules.loops import Counting, Loop, equal_lines, loop_at, without_twin
from lsp_server.rules.place import Place, is_in_macro
from lsp_server.rules.scanner import scan
from lsp_server.rules.scope import Scope
from lsp_server.rules.settled import Known, Said, Settled, SyntaxCheck
from lsp_server.rules.settling import settle
from lsp_server.rules.verifying import verified

# What each rule does. Those of the first block end a stream; those of the second only shape what is offered.
RULES = {
    "line": "a place for one line ends with its first line",
    "scope": "a block ends where its indentation or bracket does",
    "unit": "a definition ends where, behind a blank line, the next one begins",
    "closers": "closers that stand behind the cursor already are not said again",
    "below": "what stands on the lines below is not said again",
    "behind": "what stands behind the cursor on its line is not said again",
    "equal-lines": "three equal lines are one",
    "period": "a piece that is repeated on and on is said once",
    "counter": "so is one whose numbers count on",
    "blank-run": "blank lines on and on end a text",
    "comment-run": "comments on and on end a text",
    "marker": "a control token in letters ends a text",
    "half-character": "so does what is no character",
    "fence": "so does a Markdown fence, outside of Markdown",
    "other-file": "so does the beginning of another file",
    # shaping
    "partial-line": "a line that a limit has cut is left out of a block",
    "echo": "what stands before the cursor is not said again",
    "indentation": "blanks and tabs are the document's",
    "stump": "a text doesn't end with a dot, or what else only begins something",
    "syntax": "what the parser refuses is cut off",
    "names": "a call of what exists nowhere makes a candidate less likely",
    "confidence": "what the model isn't sure of isn't shown by itself",
}
_MOST_BLANK_LINES = 4  # two are usual between definitions
_MOST_COMMENT_LINES = 8
_LONGEST_BLANK = 80  # characters; no indentation is as deep
_LONGEST_LEAD = 28  # the same at the cursor, which is mostly indented already
_LEADS_ON = re.compile(r"\}[ \t]+[a-z][a-z \t]*\Z")  # `} else`, at the end of a copy
_LONGEST_OF_MACRO = 160  # the same in a line of a C macro that goes on


@dataclass(frozen=True, slots=True)
class Stop:
    """The generation may end. rule: which one says so. n_kept: characters of it that may be offered."""

    rule: str
    n_kept: int


class Judge:
    """off: rules that don't count. check: the parser's word on a text put in at the cursor. known: does a name exist anywhere?
    least: the confidence that is wanted. None: that is not asked."""

    def __init__(
        self,
        place: Place,
        off: frozenset[str] = frozenset(),
        *,
        check: SyntaxCheck | None = None,
        known: Known | None = None,
        least: float | None = None,
    ) -> None:
        self.place = place
        self.stop: Stop | None = None
        self._off = off
        self._check = check
        self._known = known
        self._least = least
        self._text = ""
        self._held = ""  # a CR that an LF may follow
        self._seen = 0  # characters of the text that were looked at
        self._tokens: list[tuple[int, float]] = []  # where each ends, and how likely it was
        self._line_start = 0
        self._n_blank = 0  # blank lines in a row
        self._n_comment = 0  # comment lines in a row
        self._comment_start = 0
        self._lines: list[str] = []  # the whole ones
        self._around = place.before + "\n" + place.after
        self._scope = Scope(place)
        self._below = Below(place)
        self._counting = Counting()

    @property
    def text(self) -> str:
        """All that was said, in prompt form, also behind a stop."""
        return self._text

    def push(self, piece: str, logprob: float | None = None) -> Stop | None:
        """The next piece. logprob: of the token that it is, if known. Returns why the generation may end, once it may; further
        pieces don't change that."""
        piece = self._held + piece
        self._held = "\r" if piece.endswith("\r") else ""
        self._text += (piece[:-1] if self._held else piece).replace("\r\n", "\n").replace("\r", "\n")
        if logprob is not None:
            self._tokens.append((len(self._text), logprob))
        while self.stop is None and self._seen < len(self._text):
            at = self._seen
            self._seen += 1
            self._look(self._text[at], at)
        return self.stop

    def settle(self, *, is_whole: bool = False) -> Settled:
        """What is offered of what was said so far. is_whole: the model ended it itself. Changes nothing."""
        end = len(self._text) if self.stop is None else self.stop.n_kept
        stopped = "" if self.stop is None else self.stop.rule
        if self._is("line") and self.place.single_line and stopped != "line":
            end = min(end, len(self._text[:end].split("\n", 1)[0]))
        said = Said(self._text[:end], stopped, is_whole, tuple(self._tokens))
        settled = settle(said, self.place, self._off)
        return verified(settled, self.place, self._off, self._check, self._known, self._least)

    def _is(self, rule: str) -> bool:
        return rule not in self._off

    def _end(self, rule: str, n_kept: int) -> bool:
        """Stop, unless the rule is switched off."""
        if self.stop is None and self._is(rule):
            self.stop = Stop(rule, max(0, n_kept))
        return self.stop is not None

    def _look(self, char: str, at: int) -> None:
        """One more character, at that place of the text."""
        text, end = self._text, at + 1
        if is_broken(char, self._around) and self._end("half-character", at):
            return
        begin = marker_at(text, end, self.place.language, self._around) if char in MARKER_ENDS else None
        if begin is not None and self._end("marker", begin):
            return
        verdict = self._scope.feed(char, at, text)
        if verdict is not None and self._end(*verdict):
            return
        if char == "`" and not self._scope.line_was_inside and self._is_fence(end) and self._end("fence", self._before_line()):
            return
        if self._below.completes_rest(text, end) and self._end("behind", end):
            return
        if self._loops(char, at, end):
            return
        if char == "\n":
            self._end_line(at)
        elif char in " \t" and end - self._line_start >= _LONGEST_LEAD:
            self._look_at_blanks(end)

    def _look_at_blanks(self, end: int) -> None:
        """A blank was said. Behind the lines of a macro stand as many as it takes to its column of backslashes."""
        text = self._text
        in_macro = is_in_macro(self.place, text[: self._line_start])
        most = _LONGEST_OF_MACRO if in_macro else _LONGEST_BLANK
        if end - self._line_start >= most and not text[end - most : end].strip(" \t"):
            self._end("blank-run", len(text[:end].rstrip()))
        elif end == _LONGEST_LEAD and not text[:end].strip(" \t") and not (in_macro and self.place.line.strip()):
            self._end("blank-run", 0)

    def _loops(self, char: str, at: int, end: int) -> bool:
        self._counting.feed(char, at)
        if (found := loop_at(self._text, end)) is not None and self._end("period", self._first_copy(found)):
            return True
        if char.isalnum() or (found := self._counting.loop(self._text, end)) is None:
            return False
        return self._end("counter", self._first_copy(found))

    def _first_copy(self, loop: Loop) -> int:
        """The end of the first copy, where brackets are closed, and without what it says twice itself. A block that is not
        closed there would stay without its end: what is said ends with its last closer before, or in front of its line."""
        text, language = self._text, self.place.language
        ends = [loop.first_end, *loop.line_ends(text)]
        best = next((end for end in ends if not scan(language, text[:end]).open), None)
        if best is None:
            best = ends[0] if "{" not in scan(language, text[: ends[0]]).open else self._before_block(ends[0])
        elif (leads_on := _LEADS_ON.search(text[:best])) is not None:
            best = leads_on.start() + 1
        return without_twin(text, best)

    def _before_block(self, end: int) -> int:
        """The end of the last line, or behind the last closing brace, up to where no brace is open."""
        text, language = self._text, self.place.language
        while end > 0 and "{" in scan(language, text[:end]).open:
            end = max(text.rfind("\n", 0, end), text.rfind("}", 0, end - 1) + 1)
        return max(end, 0)

    def _is_fence(self, end: int) -> bool:
        line = self._text[self._line_start : end]
        return line.strip() == "```" and is_fence(line, self.place.language)

    def _before_line(self) -> int:
        """The end of what stands before the line that is being said."""
        return max(0, self._line_start - 1)

    def _end_line(self, at: int) -> None:
        """A line is whole: text[line_start:at]."""
        text, start = self._text, self._line_start
        line = text[start:at]
        if self._begins_file(line) and self._end("other-file", self._before_line()):
            return
        if self._below.is_rest(line, len(self._lines)) and self._end("behind", at):
            return
        self._lines.append(line)
        n_same = self._below.n_repeated(self._lines, goes_on=not self.place.single_line)
        if n_same and self._end("below", self._begin_of(n_same)):
            return
        if self.place.single_line and self._end("line", at):
            return
        if equal_lines(self._lines) and self._end("equal-lines", self._end_of_first(line)):
            return
        self._n_blank = 0 if line.strip() else self._n_blank + 1
        if self._n_blank > _MOST_BLANK_LINES and self._end("blank-run", len(text[:at].rstrip())):
            return
        if self._scope.line_is_comment:
            self._comment_start = self._comment_start if self._n_comment else start
            self._n_comment += 1
        elif line.strip():
            self._n_comment = 0
        if self._n_comment > _MOST_COMMENT_LINES and self.place.zone != "comment":
            self._end("comment-run", self._comment_start - 1 if self._comment_start else self._third_line_end())
        self._line_start = at + 1

    def _begins_file(self, line: str) -> bool:
        """Does a whole line begin another file? Not where this one is empty as yet, and not inside a string."""
        if self._scope.line_was_inside or not begins_file(line, self.place.language):
            return False
        return bool(self.place.before.strip()) or any(each.strip() for each in self._lines)

    def _begin_of(self, n: int) -> int:
        """The end of what stands before the last n whole lines that aren't blank."""
        length = 0
        for line in reversed(self._lines):
            length += len(line) + 1
            n -= bool(line.strip())
            if not n:
                break
        return sum(len(line) + 1 for line in self._lines) - length - 1

    def _end_of_first(self, line: str) -> int:
        """The end of the first of three equal lines."""
        return self._begin_of(3) + 1 + len(line.rstrip())

    def _third_line_end(self) -> int:
        return sum(len(line) + 1 for line in self._lines[:3]) - 1
