"""From generated text to the item offered: trimmed, fitted to what stands behind the cursor, in the document's own form."""

from __future__ import annotations

from collections.abc import Iterable

from context.text import Text
from context.types import DocumentSnapshot
from lsp_server.generation import Said
from lsp_server.postprocess import is_single_line, settle, trim
from lsp_server.types import CompletionQuery, Item

LONGEST_HEAD = 1024  # bytes of the line that an item may repeat in front of the cursor
SUFFIX_LOOK = 4096  # bytes behind the cursor that the rules may look at
_CUT = "\uffff"


def as_if_selected(query: CompletionQuery) -> tuple[DocumentSnapshot, int]:
    """The document and the cursor as they would be with the popup's selected entry typed."""
    snapshot, selected = query.snapshot, query.selected
    if selected is None:
        return snapshot, query.offset
    entry = selected.text.encode("utf-8", "replace")
    text = snapshot.text.edit(selected.start, selected.end, entry)
    return DocumentSnapshot(snapshot.doc_id, snapshot.version, snapshot.language, text), selected.start + len(entry)


def is_single_line_place(text: Text, offset: int) -> bool:
    line_start = text.line_start(text.line_of(offset))
    return any(is_single_line(piece.decode()) for piece in text.pieces(line_start, offset))


def offer(generated: str, is_whole: bool, query: CompletionQuery, snapshot: DocumentSnapshot, offset: int) -> Item | None:
    """The item for what was generated at `offset` of `snapshot` (the query's, as if its selected entry were typed); None
    if nothing is worth offering. is_whole: the model ended the text itself."""
    text = snapshot.text
    line = text.line_of(offset)
    line_start, line_end = text.line_start(line), text.line_end(line)
    after = text.slice(offset, text.floor(offset + SUFFIX_LOOK)).decode()
    single_line = is_single_line_place(text, offset)
    generated, after = generated.replace("\r\n", "\n"), after.replace("\r\n", "\n")  # a model may say CRLF by itself
    offered = trim(generated, single_line=single_line, is_whole=is_whole, after=after)
    if not offered:
        return None
    rest = _rest_of_line(text, offset, line_end)
    inserted, n_replaced = settle(offered, rest)
    if _uses_crlf(text, line):
        inserted = inserted.replace("\n", "\r\n")
    n_bytes = len(rest[:n_replaced].encode())
    if query.selected is not None:
        start, end, head = query.selected.start, max(query.selected.end, query.offset), query.selected.text
        return Item(start, end + n_bytes, head + inserted)
    # the range begins at the line's first non-blank, so that it stays the same from key to key
    start = _first_non_blank(text, line_start, offset)
    if offset - start > LONGEST_HEAD:
        start = offset  # an answer need not repeat a minified file
    return Item(start, offset + n_bytes, text.slice(start, offset).decode() + inserted)


def offers(said: Iterable[Said], query: CompletionQuery, snapshot: DocumentSnapshot, offset: int) -> tuple[Item, ...]:
    """The items of several candidates in their order; those that come out the same are one."""
    items = (offer(each.rest, each.is_whole, query, snapshot, offset) for each in said)
    return tuple(dict.fromkeys(item for item in items if item is not None))


def why_empty(generated: str, ended: bool) -> str:
    """Why `offer` found nothing. ended: the model ended the text itself."""
    if not generated:
        return "the model ends here" if ended else "nothing was generated in time"
    return "the line is complete" if generated.startswith("\n") else "only blanks, or what stands there already"


def _rest_of_line(text: Text, offset: int, line_end: int) -> str:
    """What stands behind the cursor on its line. A long rest is cut, and ends with a character that no model says unless only
    blanks follow: an offered text repeats closers, or all of the rest, and never as much as that."""
    end = text.floor(min(line_end, offset + SUFFIX_LOOK))
    goes_on = any(piece.strip() for piece in text.pieces(end, line_end))
    return text.slice(offset, end).decode() + (_CUT if goes_on else "")


def _first_non_blank(text: Text, start: int, end: int) -> int:
    """The first byte of [start, end) that is no blank or tab, else end."""
    for piece in text.pieces(start, end):
        n_blank = len(piece) - len(piece.lstrip(b" \t"))
        start += n_blank
        if n_blank < len(piece):
            break
    return start


def _uses_crlf(text: Text, line: int) -> bool:
    """Does the cursor's line, or on the last line the one before it, end with CRLF?"""
    end = text.line_end(line)
    if end < len(text):
        return text.slice(end, text.floor(end + 2)) == b"\r\n"
    start = text.line_start(line)
    return text.slice(text.floor(start - 2), start).endswith(b"\r\n")
