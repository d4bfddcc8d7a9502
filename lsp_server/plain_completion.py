"""`textDocument/completion` for clients without inline completion: the same suggestion as an entry of the completion list.

Owns the entry's form. Applying it gives exactly the document that the inline item would give; only the range is narrower,
since clients filter entries by the word in front of the cursor. Refuses an item that no entry can stand for.
"""

from __future__ import annotations

import re
from dataclasses import replace

from lsprotocol import types

from context.types import DocumentSnapshot
from lsp_server.convert import accepted_command, offset_of, position_of
from lsp_server.types import Completion, CompletionQuery, Item

# Clients ask by themselves while a word is typed. Of all else only the dot: a list that opens behind each blank or bracket
# would take the Enter that was meant for a new line.
OPTIONS = types.CompletionOptions(trigger_characters=["."], resolve_provider=False)

TOO_LATE = "completion is settled at the connection's start: set it in midfill.toml or in initializationOptions"

MAX_LABEL = 60  # characters
_WORD_LOOK = 1024  # bytes before the cursor
_BEFORE_ALL = "!"  # sorts before letters and digits: whoever switched this on wants to see it


def to_query(params: types.CompletionParams, snapshot: DocumentSnapshot, encoding: str, received: float) -> CompletionQuery:
    """received: when the request was read, in loop.time() seconds.

    The specification says Invoked of what was asked for by hand and also of a word being typed, which must not wait for the
    whole text: it counts as by hand only where no word ends at the cursor.
    """
    offset = offset_of(snapshot.text, params.position.line, params.position.character, encoding)
    kind = params.context.trigger_kind if params.context is not None else None
    invoked = kind is types.CompletionTriggerKind.Invoked and not _word_before(snapshot, offset)
    return CompletionQuery(snapshot, offset, invoked, None, received, is_plain=True)


def to_list(completion: Completion, query: CompletionQuery, encoding: str) -> types.CompletionList:
    """At most one entry for each item. Incomplete always, so that the client asks again at the next key."""
    narrowed = [_narrowed(item, query) for item in completion.items]
    return types.CompletionList(
        is_incomplete=True,
        items=[_entry(item, completion, query.snapshot, encoding) for item in narrowed if item is not None],
    )


def _narrowed(item: Item, query: CompletionQuery) -> Item | None:
    """The item with its range beginning at the word before the cursor; None if a completion's range can't hold it (one line,
    with the cursor inside)."""
    text, offset = query.snapshot.text, query.offset
    line = text.line_of(offset)
    if not text.line_start(line) <= item.start <= offset <= item.end <= text.line_end(line):
        return None
    start = max(item.start, offset - len(_word_before(query.snapshot, offset).encode()))
    kept = text.slice(item.start, start).decode()
    if not item.text.startswith(text.slice(item.start, offset).decode()):
        return None
    return replace(item, start=start, text=item.text[len(kept) :])


def _word_before(snapshot: DocumentSnapshot, offset: int) -> str:
    text = snapshot.text
    line_start = text.line_start(text.line_of(offset))
    before = text.slice(max(line_start, text.floor(max(0, offset - _WORD_LOOK))), offset).decode()
    found = re.search(r"\w+$", before)
    return found.group() if found else ""


def _entry(item: Item, completion: Completion, snapshot: DocumentSnapshot, encoding: str) -> types.CompletionItem:
    lines = re.split(r"\r\n|\r|\n", item.text)
    label = next(filter(None, map(_label, lines)), "…")
    span = types.Range(position_of(snapshot.text, item.start, encoding), position_of(snapshot.text, item.end, encoding))
    return types.CompletionItem(
        label=label,
        kind=types.CompletionItemKind.Text,
        detail="midfill",
        documentation="\n".join(lines) if len(lines) > 1 or label.endswith("…") else None,
        preselect=False,
        sort_text=_BEFORE_ALL,
        # begins with what stands between the range's start and the cursor, and goes on with what may be typed next
        filter_text=lines[0] if lines[0].strip() else None,
        insert_text_format=types.InsertTextFormat.PlainText,
        insert_text_mode=types.InsertTextMode.AsIs,
        text_edit=types.TextEdit(span, item.text),
        command=accepted_command(completion),
    )


def _label(line: str) -> str:
    """One line as a list can show it; "" if there is nothing to see."""
    shown = "".join(char if char.isprintable() else " " for char in line).strip()
    return shown if len(shown) <= MAX_LABEL else shown[: MAX_LABEL - 1].rstrip() + "…"
