"""What was changed lately, as small diffs.

Owns hunks: a stretch of a document as it was and as it is, kept through all later edits. Pure. Refuses to know documents apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from context.text import Edit, Text

NEAR = 240  # bytes: an edit as near as this to the last hunk belongs to it
MAX_BYTES = 1 << 13  # of a hunk; a larger one says nothing that is short
MOST = 6  # hunks of a document
_MOST_LINES = 6  # of each side


@dataclass(frozen=True, slots=True)
class Hunk:
    """Bytes [was_start, was_end) of `was` became bytes [start, end) of the text as it is now; nothing else between the two
    texts' beginnings and ends of these differs, but for other hunks. time: of the last edit in it."""

    was: Text
    was_start: int
    was_end: int
    start: int
    end: int
    time: float


def touched(hunks: Sequence[Hunk], before: Text, edit: Edit, now: float) -> tuple[Hunk, ...]:
    """The hunks after an edit of the text `before`, the latest last. An edit near the latest one widens it; what overlaps
    another one takes that one's place."""
    grown = len(edit.new) - (edit.end - edit.start)
    last = hunks[-1] if hunks else None
    kept: list[Hunk] = []
    for hunk in hunks:
        if hunk is last and edit.start <= hunk.end + NEAR and edit.end >= hunk.start - NEAR:
            continue
        if edit.end <= hunk.start:
            kept.append(replace(hunk, start=hunk.start + grown, end=hunk.end + grown))
        elif edit.start >= hunk.end:
            kept.append(hunk)
    if last is not None and edit.start <= last.end + NEAR and edit.end >= last.start - NEAR:
        more_before, more_behind = max(last.start - edit.start, 0), max(edit.end - last.end, 0)
        joined = Hunk(
            last.was,
            last.was_start - more_before,
            last.was_end + more_behind,
            last.start - more_before,
            last.end + more_behind + grown,
            now,
        )
        # an older hunk that lies in what was added has moved the text there: the latest alone counts
        is_whole = joined.was_start >= 0 and joined.was_end <= len(joined.was)
        kept.append(joined if is_whole and len(kept) == len(hunks) - 1 else _new(before, edit, grown, now))
    else:
        kept.append(_new(before, edit, grown, now))
    return tuple(hunk for hunk in kept if hunk.end - hunk.start <= MAX_BYTES)[-MOST:]


def _new(before: Text, edit: Edit, grown: int, now: float) -> Hunk:
    return Hunk(before, edit.start, edit.end, edit.start, edit.end + grown, now)


def diff_lines(hunk: Hunk, text: Text) -> tuple[str, ...]:
    """The hunk as lines with - and + in front, without the lines that both sides share; () if only blanks differ."""
    was, now = _lines(hunk.was, hunk.was_start, hunk.was_end), _lines(text, hunk.start, hunk.end)
    while was and now and was[0] == now[0]:
        was, now = was[1:], now[1:]
    while was and now and was[-1] == now[-1]:
        was, now = was[:-1], now[:-1]
    was, now = [line for line in was if line.strip()], [line for line in now if line.strip()]
    if [line.split() for line in was] == [line.split() for line in now]:
        return ()
    return (*(f"-{line}" for line in was[-_MOST_LINES:]), *(f"+{line}" for line in now[-_MOST_LINES:]))


def _lines(text: Text, start: int, end: int) -> list[str]:
    start, end = text.floor(min(start, len(text))), text.floor(min(end, len(text)))
    first, last = text.line_start(text.line_of(start)), text.line_end(text.line_of(end))
    if last - first > 2 * MAX_BYTES:
        return []
    return text.slice(first, last).decode("utf-8", "replace").splitlines()
