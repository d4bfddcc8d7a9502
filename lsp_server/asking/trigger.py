"""Whether an automatic request is one: where nobody wants a suggestion unasked, the model is not asked.

Owns the reasons, one sentence each, and what an edit was. Pure: a text, a cursor and the settings of the language in, a reason
or "" out. What is asked for by hand is never refused here.
"""

from __future__ import annotations

from dataclasses import dataclass

from context.syntax import SyntaxTree
from context.text import Edit, Text
from lsp_server.asking.literals import COMMENT, STRING, inside
from lsp_server.config import ServerConfig

MADE_OF_STRINGS = frozenset({"json", "jsonc", "yaml", "toml", "html", "css", "markdown", "plaintext", "xml", "dockerfile", ""})
_MOST_COMPARED = 1 << 16  # bytes of an edit that are compared with what they replace

AFTER_DELETE = "something was just deleted (the setting after_delete)"
INSIDE_WORD = "a letter follows the cursor (the setting inside_words)"
IN_COMMENT = "the cursor is in a comment (the setting in_comments)"
IN_STRING = "the cursor is in a string (the setting in_strings)"
AT_END = "the file looks finished here"


@dataclass(frozen=True, slots=True)
class LastEdit:
    """What was last done to a text: n_deleted bytes gone and n_inserted bytes put in their place, before `end`. is_accepted:
    that was a suggestion, or a part of one."""

    n_deleted: int
    n_inserted: int
    end: int
    is_accepted: bool = False

    @property
    def is_deletion(self) -> bool:
        return self.n_deleted > 0 and self.n_inserted == 0


def narrowed(before: Text, edit: Edit) -> Edit:
    """The same edit without what it replaces by itself at its beginning and end. before: the text that it is an edit of."""
    if max(edit.end - edit.start, len(edit.new)) > _MOST_COMPARED or edit.start == edit.end or not edit.new:
        return edit
    old, new = before.slice(edit.start, edit.end), edit.new
    most = min(len(old), len(new))
    head = next((i for i in range(most) if old[i] != new[i]), most)
    while head and (before.splits(edit.start + head) or (head < len(new) and new[head] & 0xC0 == 0x80)):
        head -= 1
    most -= head
    tail = next((i for i in range(most) if old[-1 - i] != new[-1 - i]), most)
    while tail and (before.splits(edit.end - tail) or new[len(new) - tail] & 0xC0 == 0x80):
        tail -= 1
    return Edit(edit.start + head, edit.end - tail, new[head : len(new) - tail])


def last_edit(before: Text, edits: tuple[Edit, ...]) -> LastEdit | None:
    """Of a notification: its edits together. None: it changed nothing."""
    n_deleted = n_inserted = end = 0
    for i, edit in enumerate(edits):
        small = narrowed(before, edit)
        n_deleted, n_inserted = n_deleted + small.end - small.start, n_inserted + len(small.new)
        end = small.start + len(small.new)
        if i < len(edits) - 1:
            before = before.edit(edit.start, edit.end, edit.new)
    return LastEdit(n_deleted, n_inserted, end) if n_deleted or n_inserted else None


def why_not(
    text: Text, offset: int, language: str, last: LastEdit | None, server: ServerConfig, tree: SyntaxTree | None
) -> str:
    """Why nothing is asked for here by itself, or "". last: what was last done to the text; None: nothing. server: the settings
    as they are for the language."""
    if last is not None and last.is_deletion and last.end == offset and server.after_delete == "off":
        return AFTER_DELETE
    after = text.slice(offset, text.floor(min(offset + 4, len(text)))).decode()[:1]
    if (after.isalnum() or after == "_") and server.inside_words == "off":
        return INSIDE_WORD
    if _is_finished(text, offset):
        return AT_END
    may_string = server.in_strings == "on" or (server.in_strings == "auto" and language in MADE_OF_STRINGS)
    may_comment = server.in_comments == "on" or language in ("markdown", "plaintext", "")
    if may_string and may_comment:
        return ""
    what = inside(language, text, offset, tree)
    if what == COMMENT and not may_comment:
        return IN_COMMENT
    return IN_STRING if what == STRING and not may_string else ""


def _is_finished(text: Text, offset: int) -> bool:
    """An empty last line below a blank one, with something above that is not blank. Vim ends the last line, too."""
    line = text.line_of(offset)
    if len(text) - offset > 2 or line < 2 or text.line_start(line) != offset:
        return False
    if text.slice(offset, len(text)) not in (b"", b"\n", b"\r\n"):
        return False
    if text.slice(text.line_start(line - 1), text.line_end(line - 1)).strip():
        return False
    return any(piece.strip() for piece in text.pieces(0, offset))
