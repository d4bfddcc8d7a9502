"""lsprotocol's types to ours and back. The only place that knows lines and columns.

Columns are counted in units of the negotiated encoding; everything behind this module is byte offsets. What a client sends is
clamped into the document as the specification asks; a position inside a character is rounded down where it only asks for
something, and refused where it would change the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from lsprotocol import types

from context.text import Edit, Text, encoded
from context.types import DocumentSnapshot
from lsp_server.documents import Change
from lsp_server.types import Completion, CompletionQuery, Selected

ACCEPTED_COMMAND = "midfill.accepted"

_MOST_BYTES = {"utf-16": 3, "utf-32": 4}  # of one unit; a pair of UTF-16 units has four bytes


def offset_of(text: Text, line: int, character: int, encoding: str, *, strict: bool = False) -> int:
    """Byte offset of a position; encoding: "utf-8", "utf-16" or "utf-32".

    A line beyond the last is the end of the document, a column beyond the line's end is that end (before the terminator).
    Inside a character: its beginning, or ValueError if strict.
    """
    if line >= text.n_lines:
        return len(text)
    start, end = text.line_start(line), text.line_end(line)
    if character >= end - start:  # no encoding has more units than bytes
        return end
    if encoding == "utf-8":
        offset = text.floor(start + character)
        if strict and offset != start + character:
            raise ValueError(f"position {line}:{character} is inside a character")
        return offset
    # One unit more than asked for, since the cut is rounded down: these bytes hold `character` units or reach the line's end.
    # Piece by piece, so that the end of a line of megabytes is found without a copy of it.
    at, left = start, character
    for piece in text.pieces(start, text.floor(min(end, start + (character + 1) * _MOST_BYTES[encoding]))):
        n_units = _n_units(piece, encoding)
        if n_units >= left:
            n_bytes, is_inside = _n_bytes(piece, left, encoding)
            if is_inside and strict:
                raise ValueError(f"position {line}:{character} is inside a character")
            return at + n_bytes
        at, left = at + len(piece), left - n_units
    return at


def position_of(text: Text, offset: int, encoding: str) -> types.Position:
    """The position of a byte offset; inside a character or a line's terminator: the place before it."""
    offset = text.floor(offset)
    line = text.line_of(offset)
    head = text.pieces(text.line_start(line), min(offset, text.line_end(line)))
    return types.Position(line=line, character=sum(_n_units(piece, encoding) for piece in head))


@dataclass(frozen=True, slots=True)
class Splice:
    """A change of a range. Resolved only when the changes before it have been applied."""

    is_full: ClassVar[bool] = False
    range: types.Range
    text: str
    encoding: str

    def edit(self, text: Text) -> Edit:
        """ValueError: reversed, or begins or ends inside a character."""
        first, last = self.range.start, self.range.end
        if (first.line, first.character) > (last.line, last.character):
            raise ValueError("a change with a reversed range")
        start = offset_of(text, first.line, first.character, self.encoding, strict=True)
        end = offset_of(text, last.line, last.character, self.encoding, strict=True)
        return Edit(start, end, encoded(self.text))


@dataclass(frozen=True, slots=True)
class Whole:
    """A change that carries the whole new text."""

    is_full: ClassVar[bool] = True
    text: str

    def edit(self, text: Text) -> Edit:
        """The part that differs, so that a client which always sends everything keeps what is known of the rest."""
        return _narrowed(text, encoded(self.text))


def to_changes(changes: Sequence[types.TextDocumentContentChangeEvent], encoding: str) -> tuple[Change, ...]:
    return tuple(
        Splice(change.range, change.text, encoding)
        if isinstance(change, types.TextDocumentContentChangePartial)
        else Whole(change.text)
        for change in changes
    )


def to_query(
    params: types.InlineCompletionParams, snapshot: DocumentSnapshot, encoding: str, received: float
) -> CompletionQuery:
    """received: when the request was read, in loop.time() seconds."""
    at, text = params.position, snapshot.text
    info = params.context.selected_completion_info
    selected = None
    if info is not None:
        start = offset_of(text, info.range.start.line, info.range.start.character, encoding)
        end = offset_of(text, info.range.end.line, info.range.end.character, encoding)
        line = text.line_of(offset_of(text, at.line, at.character, encoding))
        # one that is not at the cursor, or spans lines, can't be extended: the request is answered as if there were none
        if text.line_start(line) <= start <= offset_of(text, at.line, at.character, encoding) <= end <= text.line_end(line):
            selected = Selected(start, end, info.text)
    return CompletionQuery(
        snapshot=snapshot,
        offset=offset_of(text, at.line, at.character, encoding),
        invoked=params.context.trigger_kind is types.InlineCompletionTriggerKind.Invoked,
        selected=selected,
        received=received,
    )


def to_list(completion: Completion, snapshot: DocumentSnapshot, encoding: str) -> types.InlineCompletionList:
    """Items with their range always, since clients disagree about what a missing one means; snapshot: the query's."""
    return types.InlineCompletionList(
        items=[
            types.InlineCompletionItem(
                insert_text=item.text,
                range=types.Range(
                    start=position_of(snapshot.text, item.start, encoding),
                    end=position_of(snapshot.text, item.end, encoding),
                ),
                command=accepted_command(completion),
            )
            for item in completion.items
        ]
    )


def accepted_command(completion: Completion) -> types.Command:
    """What the client runs when it has inserted an item."""
    return types.Command(title="Suggestion accepted", command=ACCEPTED_COMMAND, arguments=[completion.request_id])


def _n_units(data: bytes, encoding: str) -> int:
    """Units of UTF-8 text in an encoding."""
    if encoding == "utf-8" or data.isascii():
        return len(data)
    return len(data.decode().encode("utf-16-le")) // 2 if encoding == "utf-16" else len(data.decode())


def _n_bytes(data: bytes, n_units: int, encoding: str) -> tuple[int, bool]:
    """Bytes of the first units of a UTF-8 text, rounded down to whole characters; and whether that was needed."""
    if data.isascii():
        return n_units, False
    if encoding == "utf-32":
        return len(data.decode()[:n_units].encode()), False
    units = data.decode().encode("utf-16-le")[: 2 * n_units]
    is_inside = len(units) >= 2 and 0xD8 <= units[-1] <= 0xDB  # ends with the first half of a pair
    return len((units[:-2] if is_inside else units).decode("utf-16-le").encode()), is_inside


def _narrowed(text: Text, new: bytes) -> Edit:
    """Replaces what lies between the longest common beginning and the longest common end, cut at character borders.

    Compared leaf by leaf where they lie: no copy is made of what stays.
    """
    pieces = list(text.pieces(0, len(text)))
    start = _common_head(pieces, new)
    while start and _splits(text, new, start, start):
        start -= 1
    tail = min(_common_tail(pieces, new), len(text) - start, len(new) - start)
    while tail and _splits(text, new, len(text) - tail, len(new) - tail):
        tail -= 1
    return Edit(start, len(text) - tail, new[start : len(new) - tail])


def _common_head(pieces: Sequence[bytes], new: bytes) -> int:
    """Length of the longest common beginning."""
    at = 0
    for piece in pieces:
        if not new.startswith(piece, at):
            return at + _common(piece, new[at : at + len(piece)])
        at += len(piece)
    return at


def _common_tail(pieces: Sequence[bytes], new: bytes) -> int:
    """Length of the longest common end."""
    end = len(new)
    for piece in reversed(pieces):
        if not new.endswith(piece, 0, end):
            return len(new) - end + _common(piece[::-1], new[max(end - len(piece), 0) : end][::-1])
        end -= len(piece)
    return len(new) - end


def _common(a: bytes, b: bytes) -> int:
    """Length of the longest common beginning, by bisection over slices: comparing them is much faster than a loop."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _splits(text: Text, new: bytes, at: int, at_new: int) -> bool:
    """Does a cut here fall inside a character of either text? Inside one, the next byte is a continuation byte."""
    return text.splits(at) or (at_new < len(new) and new[at_new] & 0xC0 == 0x80)
