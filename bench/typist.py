"""The typist: the keys of somebody who types a block of code in VS Code, as content changes an editor would send.

Owns what VS Code's editor does by itself while one types (auto-closed pairs, overtyping, indentation after Enter, trimming of
blank lines) as far as it shows in `textDocument/didChange`, and what a person does about it. Refuses I/O, clocks and any
protocol library; the same arguments always give the same keys.

What was modelled, and why so:
- An auto-closed pair is one insertion of both characters with the cursor between them.
- Overtyping an auto-closed closer *is* a text change: VS Code replaces the character by itself. It does so only for closers
  that it has inserted, and only while the pair stands on one line; over the others the person moves with a cursor key, which
  sends nothing and asks for nothing. A closer that fits nowhere is taken out with the Delete key.
- Enter inserts the line end and the indentation in one change; between brackets it makes two lines. White space that Enter made
  and nobody used is cut by the next Enter, in the same notification.
- In the indentation, Tab fills up to the next tab stop and Backspace goes back to the last one, in one change.
"""

from __future__ import annotations

import random
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from bench.edits import Change, Position, position_at, units
from bench.languages import BRACKETS, LANGUAGES, Language, end_of_scan, scan

LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Key:
    """One key press. kind: char | pair | overtype | enter | tab | backspace | delete | move; a move changes no text."""

    kind: str
    changes: tuple[Change, ...]
    cursor: Position


@dataclass(slots=True)
class _Closer:
    """Text that the editor put behind the cursor: white space before it, and the closer. partner: index in the block where
    the person will want it, -1 = nowhere. line: where its opener stands, -1 = no longer to be typed over."""

    lead: str
    closer: str
    partner: int
    line: int


class _Typist:
    """The editor's state while the block is typed. Text before the cursor is always the start text and the block's beginning,
    but for white space of a blank line that the next Enter will cut."""

    def __init__(self, text: str, block: str, offset: int, language: Language, seed: int, slip_rate: float) -> None:
        self.doc = text
        self.cursor = offset
        self.block = block
        self.language = language
        self.closers: list[_Closer] = []  # the innermost first
        self.random = random.Random(seed)
        self.slip_rate = slip_rate
        self.fresh_indent = False  # the last key was an Enter that made the white space before the cursor

    @property
    def pending(self) -> str:
        return "".join(c.lead + c.closer for c in self.closers)

    @property
    def line_start(self) -> int:
        return self.doc.rfind("\n", 0, self.cursor) + 1

    @property
    def line_before(self) -> str:
        return self.doc[self.line_start : self.cursor]

    @property
    def line_after(self) -> str:
        end = self.doc.find("\n", self.cursor)
        return self.doc[self.cursor : end if end >= 0 else len(self.doc)]

    def replace(self, kind: str, start: int, end: int, text: str, cursor: int) -> Key:
        change = Change(position_at(self.doc, start), position_at(self.doc, end), text)
        self.doc = self.doc[:start] + text + self.doc[end:]
        self.cursor = cursor
        return Key(kind, (change,), position_at(self.doc, cursor))

    def insert(self, kind: str, text: str) -> Key:
        return self.replace(kind, self.cursor, self.cursor, text, self.cursor + len(text))

    def keys(self) -> Iterator[Key]:
        k = 0
        while k < len(self.block):
            n_over = self.n_stepped_over(k)
            if n_over:
                yield self.step_over(n_over)
                k += n_over
                continue
            ch = self.block[k]
            if self.closers and self.closers[0].partner == k and self.pending[0] != ch:
                yield self.delete_right()
            elif self.is_overtype(ch):
                self.closers.pop(0)
                self.fresh_indent = False
                yield self.replace("overtype", self.cursor, self.cursor + 1, ch, self.cursor + 1)
                k += 1
            elif ch == "\n":
                yield from self.enter()
                k += 1
                k += yield from self.indent(k)
            else:
                yield from self.type(k)
                k += 1
        while self.closers:
            yield self.delete_right()

    # -- over and out

    def n_stepped_over(self, k: int) -> int:
        """Characters that already stand behind the cursor as wanted and that VS Code no longer types over."""
        n = best = 0
        line = self.doc.count("\n", 0, self.cursor)
        for entry in self.closers:
            if not entry.lead and entry.line == line and n == 0:
                return 0
            n += len(entry.lead) + len(entry.closer)
            if self.block[k : k + n] != self.pending[:n]:
                break
            best = n
        return best

    def step_over(self, n: int) -> Key:
        self.cursor += n
        self.fresh_indent = False
        while n > 0:
            entry = self.closers.pop(0)
            n -= len(entry.lead) + len(entry.closer)
        return Key("move", (), position_at(self.doc, self.cursor))

    def is_overtype(self, ch: str) -> bool:
        if not self.closers or self.closers[0].lead or self.closers[0].closer != ch:
            return False
        if self.closers[0].line != self.doc.count("\n", 0, self.cursor):
            return False
        return not (ch in self.language.quotes and self.line_before.endswith("\\"))

    def delete_right(self) -> Key:
        entry = self.closers[0]
        if entry.lead:
            entry.lead = entry.lead[1:]
            entry.line = -1
        else:
            entry.closer = ""
        if not entry.lead and not entry.closer:
            self.closers.pop(0)
        self.fresh_indent = False
        return self.replace("delete", self.cursor, self.cursor + 1, "", self.cursor)

    # -- characters

    def type(self, k: int) -> Iterator[Key]:
        ch = self.block[k]
        self.fresh_indent = False
        close = self.closer_of(ch)
        if close:
            entry = _Closer("", close, self.partner_of(k), self.doc.count("\n", 0, self.cursor))
            self.closers.insert(0, entry)
            yield self.replace("pair", self.cursor, self.cursor, ch + close, self.cursor + 1)
            if entry.partner < 0:
                yield self.delete_right()
            return
        if ch not in BRACKETS and ch not in self.language.quotes and self.random.random() < self.slip_rate:
            yield self.insert("char", self.random.choice(LETTERS.replace(ch, "")))
            yield self.replace("backspace", self.cursor - 1, self.cursor, "", self.cursor - 1)
        yield self.insert("char", ch)

    def closer_of(self, ch: str) -> str:
        """What VS Code puts behind `ch`, "" = nothing."""
        after = self.line_after[:1]
        if ch in BRACKETS:
            is_before_closer = after in BRACKETS.values() if after else True
            return BRACKETS[ch] if is_before_closer or after in self.language.autoclose_brackets else ""
        if ch not in self.language.quotes or (after and after not in self.language.autoclose_quotes):
            return ""
        before = self.line_before[-1:]
        if before and (before.isalnum() or before == "_") and before not in self.language.string_prefixes:
            return ""
        region, state = end_of_scan(self.doc[: self.cursor], self.language)
        regions = {region if self.line_before else state.region, state.region}
        if "string" in regions or ("comment" in regions and ch not in self.language.comment_closes):
            return ""
        return ch

    def partner_of(self, k: int) -> int:
        """Where in the block the person will want the closer of the opener at k; -1 = nowhere."""
        ch = self.block[k]
        limit = min((c.partner for c in self.closers if c.partner >= 0), default=len(self.block))
        _, state = end_of_scan(self.doc[: self.cursor], self.language)
        if ch in self.language.quotes:
            end = next((i for i, _, s in scan(self.block, k, state, self.language) if i > k and s.region == "code"), -1)
            return end if k < end < limit and self.block[end] == ch else -1
        home, depth = state.region, 0
        for i, region, _ in scan(self.block, k, state, self.language):
            if i >= limit or (home != "code" and (region != home or self.block[i] == "\n")):
                break
            if region != home:
                continue
            depth += (self.block[i] == ch) - (self.block[i] == BRACKETS[ch])
            if depth == 0:
                return i
        return -1

    # -- lines

    def enter(self) -> Iterator[Key]:
        before = self.line_before
        is_blank = not before.strip(" \t")
        trims = self.fresh_indent and is_blank and not self.line_after.strip(" \t")
        if is_blank and before and not trims:
            yield from self.backspace_to("")
            before = ""
        white = before[: len(before) - len(before.lstrip(" \t"))]
        deeper = self.deeper(white) if self.language.indents.search(before) else white
        opener, after = before.rstrip(" \t")[-1:], self.line_after[:1]
        text, skip = "\n" + deeper, len(deeper) + 1
        if opener in BRACKETS and after == BRACKETS[opener]:
            text += "\n" + white
            if self.closers and not self.closers[0].lead:
                self.closers[0].lead = "\n" + white
            else:
                self.closers.insert(0, _Closer("\n" + white, "", -1, -1))
        start = self.line_start
        key = self.replace("enter", self.cursor, self.cursor, text, self.cursor + skip)
        if trims and before:
            line = key.cursor.line - 1
            cut = Change(Position(line, 0), Position(line, units(before)), "")
            self.doc = self.doc[:start] + self.doc[start + len(before) :]
            self.cursor -= len(before)
            key = Key("enter", (*key.changes, cut), position_at(self.doc, self.cursor))
        self.fresh_indent = True
        yield key

    def deeper(self, white: str) -> str:
        return white + ("\t" if white.endswith("\t") else " " * self.language.tab)

    def indent(self, k: int) -> Generator[Key, None, int]:
        """Make the white space that Enter left into what the block wants. Returns how much of the block that covers."""
        rest = self.block[k:]
        wanted = rest[: len(rest) - len(rest.lstrip(" \t"))]
        is_blank_line = rest.startswith("\n") and not self.n_stepped_over(k)
        if is_blank_line and not self.line_after.strip(" \t"):
            return 0  # the next Enter cuts it
        yield from self.backspace_to(wanted)
        while self.line_before != wanted:
            missing = wanted[len(self.line_before) :]
            to_stop = self.language.tab - len(self.line_before) % self.language.tab
            if "\t" not in wanted and to_stop > 1 and missing.startswith(" " * to_stop):
                yield self.insert("tab", " " * to_stop)
            else:
                yield self.insert("char", missing[0])
            self.fresh_indent = False
        return len(wanted)

    def backspace_to(self, wanted: str) -> Iterator[Key]:
        """Take back indentation, a tab stop at a time, until `wanted` begins with what is left."""
        while not wanted.startswith(self.line_before):
            white = self.line_before
            n = 1 if "\t" in white else (len(white) - 1) % self.language.tab + 1
            self.fresh_indent = False
            yield self.replace("backspace", self.cursor - n, self.cursor, "", self.cursor - n)


def type_block(
    text: str, block: str, offset: int, *, language: str = "python", seed: int = 0, slip_rate: float = 0.03
) -> tuple[Key, ...]:
    """The keys that turn `text` into text[:offset] + block + text[offset:].

    offset: characters (code points). slip_rate: share of ordinary characters before which a wrong letter
    is typed and taken back.
    Raises ValueError for carriage returns and for lines of the block that are only white space (VS Code would cut them).
    """
    if "\r" in text or "\r" in block:
        raise ValueError("the typist knows only \\n as line end")
    if re.search(r"\n[ \t]+(?:\n|\Z)", block):
        raise ValueError("a line of the block is only white space")
    return tuple(_Typist(text, block, offset, LANGUAGES[language], seed, slip_rate).keys())
