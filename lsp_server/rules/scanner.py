"""Where in a text one is: in code, a string or a comment, and which brackets are open. Character by character, so that it can
follow a stream.

Owns a rough lexer that is right for ordinary code and recovers at the next line: a short string ends with its line. Refuses
grammar. Never raises, whatever the text.
"""

from __future__ import annotations

import functools
import re

from lsp_server.rules.manners import Manner, manner_of

PAIRS = {")": "(", "]": "[", "}": "{"}
OPENERS = frozenset(PAIRS.values())
MOST_OPEN = 500  # brackets remembered: a text of brackets alone costs no more
_PLAIN = re.compile(r"[\w \t.,;:=<>+!&|^%?@~$]{4,}")


class Scanner:
    """Follows a text of a language. open: brackets that are open, outermost first. unmatched: closers that close nothing of
    this text, or not what was opened last, in order. inside: "" in code, "comment" or "string"."""

    __slots__ = ("_close", "_empty", "_escaped", "_manner", "_recent", "_short", "inside", "open", "unmatched")

    def __init__(self, manner: Manner) -> None:
        self._manner = manner
        self.open: list[str] = []
        self.unmatched: list[str] = []
        self.inside = ""
        self._close = ""  # what ends the string or comment; "\n" of a line comment
        self._short = False  # a string that ends with its line
        self._escaped = False
        self._recent = ""  # the last characters of code, or of what is inside
        self._empty = ""  # the quote of an empty string that ended with the last character

    def copy(self) -> Scanner:
        other = Scanner(self._manner)
        other.open, other.unmatched = list(self.open), list(self.unmatched)
        other.inside, other._close, other._short = self.inside, self._close, self._short
        other._escaped, other._recent, other._empty = self._escaped, self._recent, self._empty
        return other

    @property
    def in_line_comment(self) -> bool:
        return self.inside == "comment" and self._close == "\n"

    @property
    def in_long(self) -> bool:
        """In a string or comment that goes on over line ends."""
        return bool(self.inside) and self._close != "\n" and not self._short

    @property
    def closer(self) -> str:
        """What ends the string or comment that one is in; "" in code and in line comments."""
        return self._close if self.inside and self._close != "\n" else ""

    def leave(self) -> None:
        """What comes next is code, whatever one was taken to be in."""
        if self.inside:
            self._leave()

    def feed(self, char: str) -> None:
        if self.inside:
            self._feed_inside(char)
        else:
            self._feed_code(char)

    def feed_all(self, text: str) -> None:
        """The same for many characters at once."""
        at = 0
        while at < len(text):
            if not self.inside and not self._escaped and (plain := _PLAIN.match(text, at)) is not None:
                self._recent, self._empty = text[plain.end() - 4 : plain.end()], ""
                at = plain.end()
                continue
            if self.inside and not self._escaped and not self._is_closing():
                stops = [i for i in (text.find(self._close[0], at), text.find("\n", at), text.find("\\", at)) if i >= 0]
                jump = min(stops, default=len(text))
                if jump > at:
                    self._recent = (self._recent + text[max(at, jump - 4) : jump])[-4:]
                    at = jump
                    continue
            self.feed(text[at])
            at += 1

    def _is_closing(self) -> bool:
        """Does what was read last begin what ends it?"""
        return any(self._recent.endswith(self._close[:n]) for n in range(1, len(self._close))) or self._recent in ("", "[")

    def _feed_code(self, char: str) -> None:
        empty, self._empty = self._empty, ""
        if self._escaped or char == "\\":
            self._escaped, self._recent = not self._escaped, ""  # of a pattern, where a bracket is none
            return
        self._recent = (self._recent + char)[-4:]
        manner = self._manner
        if char in OPENERS:
            if len(self.open) < MOST_OPEN:
                self.open.append(char)
        elif char in PAIRS:
            if self.open and self.open[-1] == PAIRS[char]:
                self.open.pop()
            elif len(self.unmatched) < MOST_OPEN:
                self.unmatched.append(char)
        elif empty == char and 3 * char in manner.long_quotes:
            self._enter("string", 3 * char)
            return
        elif char in manner.long_quotes:
            self._enter("string", char)
            return
        elif char in manner.quotes:
            self._enter("string", char, short=True)
            return
        for opener, closer in manner.block_comments:
            if self._recent.endswith(opener):
                self._enter("comment", closer)
                return
        for opener in manner.line_comments:
            if self._recent.endswith(opener) and self._may_comment(opener):
                self._enter("comment", "\n")
                return

    def _may_comment(self, opener: str) -> bool:
        """`#` inside a word is none (`$#`, `${name#head}`), and `://` is of an address."""
        ahead = self._recent[: -len(opener)][-1:]
        return not (opener == "#" and (ahead.isalnum() or ahead in "$_{&")) if ahead else True

    def _enter(self, what: str, close: str, *, short: bool = False) -> None:
        self.inside, self._close, self._short, self._escaped, self._recent = what, close, short, False, ""

    def _leave(self) -> None:
        self.inside, self._close, self._short, self._escaped, self._recent = "", "", False, False, ""

    def _feed_inside(self, char: str) -> None:
        if self._escaped:
            self._escaped = False
            self._recent = ""
            if char == "\n" and self._short and self._manner.by_indent is False:
                self._leave()
            return
        if char == "\\" and self.inside == "string":
            self._escaped = True
            return
        if char == "\n" and (self._short or self._close == "\n"):
            self._leave()
            return
        # `--[[` begins as a line comment
        if self._close == "\n" and self._recent == "" and char == "[" and ("--[[", "]]") in self._manner.block_comments:
            self._recent = "["
            return
        if self._close == "\n" and self._recent == "[" and char == "[":
            self._enter("comment", "]]")
            return
        was_empty = self._recent == ""
        self._recent = (self._recent + char)[-4:]
        if self._recent.endswith(self._close):
            quote = self._close if self._short and was_empty else ""
            self._leave()
            self._empty = quote


@functools.lru_cache(maxsize=16)
def _scanned(language: str, text: str) -> Scanner:
    scanner = Scanner(manner_of(language))
    scanner.feed_all(text)
    return scanner


def scan(language: str, text: str) -> Scanner:
    """What one is in behind a text. A copy that may go on."""
    return _scanned(language, text).copy()
