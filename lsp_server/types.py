"""What crosses the border between the LSP shell and the completion heart. Frozen values; knows nothing of pygls or lsprotocol.

Positions are byte offsets into the snapshot's text, times are of `loop.time()` in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from context.text import Edit
from context.types import DocumentSnapshot

if TYPE_CHECKING:
    from lsp_server.config import Config


@dataclass(frozen=True, slots=True)
class Selected:
    """The entry selected in the editor's suggest widget: it would replace bytes start to end by text."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class CompletionQuery:
    """One request. invoked: asked for by hand. received: when the message was read from the client. is_plain: it is the one for
    clients without inline completion; a client may ask both at once."""

    snapshot: DocumentSnapshot
    offset: int
    invoked: bool
    selected: Selected | None
    received: float
    is_plain: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """A suggestion: bytes start to end of the query's snapshot (on one line) become text, with the document's own line ends.

    start <= the query's offset <= end, and text begins with what the document holds between start and that offset.
    """

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer. request_id comes back through `Completer.accepted`. reason: why there are no items, else ""."""

    request_id: int
    items: tuple[Item, ...]
    reason: str


class Superseded(Exception):
    """A newer request for the same document ended this one: one of the same kind, or for another text or place."""


class Completer(Protocol):
    """The completion heart as the shell sees it. Lives on the event loop; nothing here may block it."""

    async def complete(self, query: CompletionQuery) -> Completion:
        """May raise Superseded; asyncio.CancelledError passes through."""
        ...

    def opened(self, snapshot: DocumentSnapshot) -> None: ...
    def changed(self, snapshot: DocumentSnapshot, edits: tuple[Edit, ...]) -> None:
        """edits lead from the text last reported to the snapshot's, each in the coordinates of the text before it."""
        ...

    def closed(self, doc_id: str) -> None: ...
    def accepted(self, request_id: int) -> None: ...
    def explain(self) -> dict[str, object]:
        """The last completion, or why there was none. JSON values only."""
        ...

    def pause(self, minutes: float | None) -> None:
        """None or 0: resume. `inf`: until resumed."""
        ...

    def configure(self, config: Config) -> None: ...
    async def aclose(self) -> None: ...
