"""How much of a document fits a number of tokens: before a place, and behind it.

Owns where a prefix begins and a suffix ends. Walks away from the place line by line and stops at the limit, so that what it
costs is bounded by the limit and not by the file. Refuses to look at more than a few times the bytes that could fit.
"""

from __future__ import annotations

from dataclasses import dataclass

from context.prompt_form import to_prompt
from context.text import Text
from context.tokens import TokenTable

GRID_LINES = 32  # a prefix begins at multiples of this many lines from the file's start, if the limit leaves that much choice
_FILL = (6, 10)  # share of the limit that a newly chosen prefix may take: the rest is for what will be typed at its end
_KEEP = (4, 10)  # a prefix below this share is chosen anew: it stems from smaller limits, or the cursor went up
_CUT_ALIGN = 256  # bytes; where one line alone is too big, cuts are multiples of this, so that they seldom move


@dataclass(frozen=True, slots=True)
class Window:
    """Text before a place: [start, place) of the document, its prompt form and tokens."""

    start: int
    prefix: bytes
    tokens: tuple[int, ...]
    note: str


@dataclass(frozen=True, slots=True)
class Following:
    """Text behind a place, in prompt form. rest: up to the line's end. lines: what follows, beginning with the terminator.

    rest_is_cut: not even the rest of the line fit. is_cut: something in the file was left out.
    """

    rest: bytes
    lines: bytes
    tokens: tuple[int, ...]
    rest_is_cut: bool
    is_cut: bool


def following(text: Text, place: int, n_max: int, table: TokenTable) -> Following:
    """What stands behind `place`, cut at a line's end to at most n_max tokens; at a character border if one line is too big."""
    line = text.line_of(place)
    end = text.line_end(line)
    longest = _longest_line(n_max)
    rest = to_prompt(text.slice(place, text.floor(min(end, place + longest))), place == 0)
    if end - place > longest or len(table.encode(rest)) > n_max:
        rest = _fitting(rest, n_max, table, at_end=False)
        return Following(rest, b"", table.encode(rest), rest_is_cut=True, is_cut=True)
    parts: list[bytes] = []
    n = len(table.encode(rest))
    at, line = end, line + 1
    while at < len(text):
        # The first part is the terminator of the place's own line, then come lines with theirs.
        after = text.line_start(line) if line < text.n_lines else len(text)
        if after - at > longest:
            break
        part = to_prompt(text.slice(at, after), False)
        n += len(table.encode(part))
        if n > n_max:
            break
        parts.append(part)
        at, line = after, line + 1
    tokens = table.encode(rest + b"".join(parts))
    is_cut = at < len(text)
    while len(tokens) > n_max and parts:  # lines counted one by one may come to less than together, with some tokenizer
        is_cut = bool(parts.pop())
        tokens = table.encode(rest + b"".join(parts))
    return Following(rest, b"".join(parts), tokens, rest_is_cut=False, is_cut=is_cut)


def preceding(
    text: Text, place: int, n_max: int, table: TokenTable, keep: int | None, *, fill: bool = False
) -> Window:
    """The window before `place`: at most n_max tokens, beginning at a line's start.

    It begins at the file's start if that fits, else at `keep` (an earlier window's start that still stands) while it fits and
    is not small, else on the coarse grid (fill: at the first line that fits). Only where one line alone is too big it begins
    at a character border.
    """
    if n_max <= 0 or place == 0:
        note = "nothing stands before the anchor" if place == 0 else "the limits leave no room for text before the anchor"
        return Window(place, b"", (), note)
    units = _walk_back(text, place, n_max, table)
    reaches_start = bool(units) and units[-1][0] == 0
    if reaches_start or place <= 4 * n_max:
        window = _window(text, 0, place, table, "window begins at the file's start")
        if len(window.tokens) <= n_max:
            return window
    if keep is not None and keep < place <= keep + _longest_line(n_max):
        window = _window(text, keep, place, table, "window begins where it did before")
        if _share(n_max, _KEEP) <= len(window.tokens) <= n_max:
            return window
    start = _first_fitting(units, n_max) if fill else _grid_start(text, place, n_max, units)
    while start is not None and start < place:
        window = _window(text, start, place, table, f"window begins at line {text.line_of(start) + 1}")
        if len(window.tokens) <= n_max:
            return window
        start = _next_line(text, start)
    return _cut_window(text, place, n_max, table)


def _walk_back(text: Text, place: int, n_max: int, table: TokenTable) -> list[tuple[int, int]]:
    """Starts of the lines before a place, nearest first, each with the tokens from there to the place (lines counted one by
    one: a little more than together, so the walk goes on somewhat beyond n_max)."""
    units: list[tuple[int, int]] = []
    longest = _longest_line(n_max)
    n, end, line = 0, place, text.line_of(place)
    while line >= 0:
        start = text.line_start(line)
        if end - start > longest:
            break
        n += len(table.encode(to_prompt(text.slice(start, end), start == 0)))
        if n > n_max + n_max // 4 + 4:
            break
        if start < end:
            units.append((start, n))
        end, line = start, line - 1
    return units


def _grid_start(text: Text, place: int, n_max: int, units: list[tuple[int, int]]) -> int | None:
    """The coarsest grid line from which the window takes about 40 to 60 % of the limit; None: no line fits."""
    within = [u for u in units if u[1] <= _share(n_max, _FILL)]
    if not within:
        return _first_fitting(units, n_max)
    first = text.line_of(within[-1][0])
    grid = GRID_LINES
    while grid > 1:
        line = -(-first // grid) * grid
        start = text.line_start(line) if line < text.n_lines else place
        n = max((n for s, n in within if s >= start), default=0)
        if start < place and n >= _share(n_max, _KEEP):
            return start
        grid //= 2
    return within[-1][0]


def _first_fitting(units: list[tuple[int, int]], n_max: int) -> int | None:
    """The farthest line start from which the window fits, by the lines counted one by one."""
    return min((start for start, n in units if n <= n_max), default=None)


def _cut_window(text: Text, place: int, n_max: int, table: TokenTable) -> Window:
    """For a line that is too big alone: its end, from a character border."""
    raw = text.slice(text.floor(max(place - _longest_line(n_max), 0)), place)
    note = "one line alone is too big: window begins inside it"
    n = len(_fitting(raw, n_max, table, at_end=True))
    start = text.floor(place - n)
    aligned = text.floor(-(-start // _CUT_ALIGN) * _CUT_ALIGN)
    for begin in (aligned, start):
        if start <= begin and (place - begin) * 2 >= n:
            window = _window(text, begin, place, table, note)
            if len(window.tokens) <= n_max:
                return window
    return Window(place, b"", (), "the limits leave no room for text before the anchor")


def _window(text: Text, start: int, place: int, table: TokenTable, note: str) -> Window:
    prefix = to_prompt(text.slice(start, place), start == 0)
    return Window(start, prefix, table.encode(prefix), note)


def _next_line(text: Text, start: int) -> int | None:
    line = text.line_of(start) + 1
    return text.line_start(line) if line < text.n_lines else None


def _fitting(data: bytes, n_max: int, table: TokenTable, *, at_end: bool) -> bytes:
    """About the longest beginning (or end) of `data`, cut at a character border, that has at most n_max tokens."""
    size = 4 * n_max
    while size > 0:
        part = _at_borders(data, size, at_end)
        if len(table.encode(part)) <= n_max:
            return part
        size = size - n_max if size > n_max else size // 2
    return b""


def _at_borders(data: bytes, size: int, at_end: bool) -> bytes:
    if size >= len(data):
        return data
    at = len(data) - size if at_end else size
    step = 1 if at_end else -1
    while 0 < at < len(data) and data[at] & 0xC0 == 0x80:
        at += step
    return data[at:] if at_end else data[:at]


def _longest_line(n_max: int) -> int:
    """Bytes beyond which a stretch of text is taken not to fit n_max tokens (3 to 4 bytes make one, as a rule)."""
    return 16 * max(n_max, 0) + 64


def _share(n_max: int, share: tuple[int, int]) -> int:
    return n_max * share[0] // share[1]
