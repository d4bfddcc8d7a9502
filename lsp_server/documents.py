"""The documents that the editor has open, as it last described them.

Owns text, versions and the reason why a text is not kept. Every change is applied against the text before it; a notification
that holds one impossible change changes nothing. Refuses lines and columns (`convert` resolves those) and the disk.
Paths are not logged: they may name private files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from context.text import Edit, Text
from context.types import DocumentSnapshot
from lsp_server.config import ServerConfig
from lsp_server.uris import document_id

log = logging.getLogger(__name__)

EMPTY = Text.of(b"")
_LOOK_FOR_NUL = 8192


class Change(Protocol):
    """One change of a notification, as yet unresolved."""

    @property
    def is_full(self) -> bool:
        """It carries the whole new text, so it makes sense without the old one."""
        ...

    def edit(self, text: Text) -> Edit:
        """The edit of `text`. ValueError if there can be none."""
        ...


@dataclass(frozen=True, slots=True)
class Document:
    """withheld: why the text is not kept (then the snapshot is empty), or "". suspect: a change was refused since the last full
    text, so the copy may differ from the editor's."""

    snapshot: DocumentSnapshot
    withheld: str = ""
    suspect: bool = False


@dataclass(frozen=True, slots=True)
class Update:
    """What became of a document for those who use its text: before and after are None where there is none to use."""

    before: DocumentSnapshot | None
    after: DocumentSnapshot | None
    edits: tuple[Edit, ...] = ()


NOTHING = Update(None, None)


class DocumentStore:
    """excluded: reason for a document id, "" if it may be used. max_bytes: longer texts are not kept."""

    def __init__(
        self, excluded: Callable[[str], str] = lambda _doc_id: "", max_bytes: int = ServerConfig().max_file_bytes
    ) -> None:
        self._excluded = excluded
        self.max_bytes = max_bytes
        self._documents: dict[str, Document] = {}

    def __len__(self) -> int:
        return len(self._documents)

    def find(self, uri: str) -> Document | None:
        return self._documents.get(document_id(uri))

    def open(self, uri: str, language: str, version: int, text: str) -> Update:
        """Also of a document that is open: it then begins anew."""
        doc_id = document_id(uri)
        before = _usable(self._documents.get(doc_id))
        kept, withheld = self._admit(doc_id, text)
        document = Document(DocumentSnapshot(doc_id, version, language, kept), withheld)
        self._documents[doc_id] = document
        return Update(before, _usable(document))

    def change(self, uri: str, version: int, changes: Sequence[Change]) -> Update:
        """Versions rise by at least one, whatever the client says."""
        document = self.find(uri)
        if document is None:
            log.debug("a change of a document that is not open")
            return NOTHING
        version = max(version, document.snapshot.version + 1)
        edits: tuple[Edit, ...] = ()
        if document.withheld:
            changed = self._try_again(document, changes)
        else:
            changed, edits = self._apply(document, changes)
        changed = replace(changed, snapshot=replace(changed.snapshot, version=version))
        self._documents[changed.snapshot.doc_id] = changed
        return Update(_usable(document), _usable(changed), edits)

    def close(self, uri: str) -> Update:
        return Update(_usable(self._documents.pop(document_id(uri), None)), None)

    def suspect(self, uri: str) -> None:
        """A change of this document could not even be read."""
        document = self.find(uri)
        if document is not None:
            self._documents[document.snapshot.doc_id] = replace(document, suspect=True)

    def withdraw(self, uri: str) -> Update:
        """Look again whether the document is excluded; if so its text is dropped, for good until it is opened again."""
        document = self.find(uri)
        if document is None or document.withheld:
            return NOTHING
        reason = self._excluded(document.snapshot.doc_id)
        if not reason:
            return NOTHING
        self._documents[document.snapshot.doc_id] = _without_text(document, reason)
        return Update(document.snapshot, None)

    def withdraw_all(self) -> list[Update]:
        return [update for doc_id in list(self._documents) if (update := self.withdraw(doc_id)).before is not None]

    def _admit(self, doc_id: str, text: str) -> tuple[Text, str]:
        """The text to keep, or none and the reason."""
        reason = self._excluded(doc_id)
        if not reason and len(text) > self.max_bytes:  # a character is at least a byte: don't build what will be dropped
            reason = self._too_long()
        if reason:
            return EMPTY, reason
        kept = Text.of(text)
        reason = self._refusal(kept)
        return (EMPTY, reason) if reason else (kept, "")

    def _refusal(self, text: Text) -> str:
        if len(text) > self.max_bytes:
            return self._too_long()
        return "it looks like a binary file" if b"\0" in text.slice(0, text.floor(_LOOK_FOR_NUL)) else ""

    def _too_long(self) -> str:
        return f"it is longer than max_file_bytes ({self.max_bytes})"

    def _apply(self, document: Document, changes: Sequence[Change]) -> tuple[Document, tuple[Edit, ...]]:
        text = document.snapshot.text
        edits = []
        try:
            for change in changes:
                edit = change.edit(text)
                text = text.edit(edit.start, edit.end, edit.new)
                edits.append(edit)
        except ValueError as error:
            level = logging.DEBUG if document.suspect else logging.WARNING
            log.log(level, "a change that does not fit its document was refused, the old text is kept: %s", error)
            return replace(document, suspect=True), ()
        is_sure = any(change.is_full for change in changes)
        reason = self._refusal(text) if is_sure else self._too_long() if len(text) > self.max_bytes else ""
        if reason:
            return _without_text(document, reason), ()
        snapshot = replace(document.snapshot, text=text)
        return Document(snapshot, suspect=document.suspect and not is_sure), tuple(edits)

    def _try_again(self, document: Document, changes: Sequence[Change]) -> Document:
        """A document without text can get one from a full change and those after it."""
        full = max((i for i, change in enumerate(changes) if change.is_full), default=None)
        doc_id = document.snapshot.doc_id
        if full is None or self._excluded(doc_id):
            return document
        blank = Document(replace(document.snapshot, text=EMPTY))
        filled, _ = self._apply(blank, changes[full:])
        return document if filled.suspect else filled


def _usable(document: Document | None) -> DocumentSnapshot | None:
    return None if document is None or document.withheld else document.snapshot


def _without_text(document: Document, reason: str) -> Document:
    return Document(replace(document.snapshot, text=EMPTY), withheld=reason)
