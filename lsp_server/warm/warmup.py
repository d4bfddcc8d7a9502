"""When something is warmed: the document in use, and then the one used before, after a quiet moment.

Owns the timer, which documents are in use, and where their cursors are as far as anybody can know: LSP tells a cursor only with
a request; between requests the last edit tells it, and of a document that is opened again the last place seen. What is warmed,
and how much, is for `ahead` and `allowance` to decide. Whatever happens in the editor ends the planning of it, never a prefill
that is still of use.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from context.text import Edit
from context.types import DocumentSnapshot
from lsp_server.desk import Desk
from lsp_server.session import Session
from lsp_server.types import Completion, CompletionQuery

log = logging.getLogger(__name__)

SOON_S = 0.05  # after Enter or an accepted text: a request that comes with it goes first
_N_USED = 2
_N_REMEMBERED = 512  # documents whose last cursor is remembered

FAR_LINES = 24  # a request so far from the last place is made elsewhere
OPENED, IDLE, ACCEPTED, ENTER, BEFORE, LEFT = (
    "when the document was opened",
    "after an idle moment",
    "after an accepted text",
    "after Enter",
    "as the document used before",
    "as the place in the document before",
)


@dataclass(slots=True)
class Place:
    """A document in use. cursor: None: nobody knows. offered: start and bytes of the item that was answered last. left: where
    the cursor was before it went far away."""

    snapshot: DocumentSnapshot
    cursor: int | None = None
    offered: tuple[int, bytes] | None = None
    left: int | None = None

    def edit(self, snapshot: DocumentSnapshot, edits: tuple[Edit, ...]) -> None:
        self.snapshot = snapshot
        self.left = None if self.left is None else _moved(self.left, edits)
        # one edit is somebody typing; several at once may be a tool's, and the cursor somewhere between
        self.cursor = _moved(None if len(edits) == 1 else self.cursor, edits)
        if self.offered is not None:
            start, text = self.offered
            for edit in edits:
                if edit.end <= start and edit.start < start:
                    start += len(edit.new) - (edit.end - edit.start)
            self.offered = start, text

    def ask(self, snapshot: DocumentSnapshot, offset: int) -> None:
        """A request there."""
        text = snapshot.text
        if self.cursor is not None and abs(text.line_of(min(self.cursor, len(text))) - text.line_of(offset)) > FAR_LINES:
            self.left = self.cursor
        self.snapshot, self.cursor, self.offered = snapshot, offset, None

    @property
    def is_accepted(self) -> bool:
        """The text that was offered last stands in front of the cursor in full."""
        if self.offered is None or self.cursor is None:
            return False
        start, text = self.offered
        return self.cursor == start + len(text) and self.snapshot.text.slice(start, self.cursor) == text


class WarmUp:
    """desk: None as long as there is no engine. session: of a document. silence: why nothing is to be done for a document now,
    or "". is_answering: somebody waits for an answer. quiet: end what is prepared for any document but this one. look: find
    out what the workspace says about a place, before its prompt is planned; is that switched on?"""

    def __init__(
        self,
        clock: Callable[[], float],
        desk: Callable[[], Desk | None],
        session: Callable[[str], Session],
        silence: Callable[[DocumentSnapshot], str],
        is_answering: Callable[[], bool],
        quiet: Callable[[str], None],
        look: Callable[[DocumentSnapshot, int | None], Awaitable[bool]] | None = None,
    ) -> None:
        self._clock = clock
        self._desk = desk
        self._session = session
        self._silence = silence
        self._is_answering = is_answering
        self._quiet = quiet
        self._look = look
        self._used: list[Place] = []  # the one in use first
        self._cursors: dict[str, int] = {}  # of documents that were closed
        self._touched = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    # -- what happens in the editor

    def opened(self, snapshot: DocumentSnapshot) -> None:
        cursor = self._cursors.pop(snapshot.doc_id, None)
        self._use(Place(snapshot, cursor))  # planning clamps it, where the text is another now
        self._touch(OPENED)

    def changed(self, snapshot: DocumentSnapshot, edits: tuple[Edit, ...]) -> int:
        """Returns where the cursor is now, as far as anybody knows."""
        place = self._place(snapshot)
        place.edit(snapshot, edits)
        self._use(place)
        if place.is_accepted:
            place.offered = None
            self._touch(ACCEPTED, SOON_S)
        elif len(edits) == 1 and b"\n" in edits[0].new:
            self._touch(ENTER, SOON_S)
        else:
            self._touch(IDLE)
        return place.cursor or 0

    def closed(self, doc_id: str) -> None:
        for place in [p for p in self._used if p.snapshot.doc_id == doc_id]:
            self.stop()
            if place is not self._used[0]:
                self._touch(IDLE)
            self._used.remove(place)
            if place.cursor is not None:
                self._cursors[doc_id] = place.cursor
                if len(self._cursors) > _N_REMEMBERED:
                    del self._cursors[next(iter(self._cursors))]

    def asked(self, query: CompletionQuery) -> None:
        place = self._place(query.snapshot)
        place.ask(query.snapshot, query.offset)
        self._use(place)
        self._touched = self._clock()
        self.stop()

    def answered(self, query: CompletionQuery, completion: Completion | None) -> None:
        """completion: None: the request was ended, by a newer one or by the client."""
        for place in self._used[:1]:
            if completion is not None and completion.items and place.snapshot.text is query.snapshot.text:
                item = completion.items[0]
                place.offered = item.start, item.text.encode()
        if not self._is_answering() and self._timer is None:
            self._arm(max(SOON_S, self._touched + self._idle_s() - self._clock()), IDLE)

    def accepted(self) -> None:
        """The editor has inserted what was offered."""
        if self._used and not self._is_answering():
            self._touch(ACCEPTED, SOON_S)

    def again(self) -> None:
        """The engine is there, or settings have changed."""
        if self._used:
            self._touch(OPENED if self._used[0].cursor is None else IDLE)

    def stop(self) -> None:
        """Begin nothing more. A prefill that runs goes on."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            self._task.cancel()
            self._task = None

    # -- which documents

    def _place(self, snapshot: DocumentSnapshot) -> Place:
        return next((p for p in self._used if p.snapshot.doc_id == snapshot.doc_id), None) or Place(snapshot)

    def _use(self, place: Place) -> None:
        """It is in use now. One that was only opened makes room before one that was worked in."""
        others = [p for p in self._used if p.snapshot.doc_id != place.snapshot.doc_id]
        others.sort(key=lambda p: p.cursor is None)
        self._used = [place, *others][:_N_USED]

    # -- the timer

    def _idle_s(self) -> float:
        desk = self._desk()
        return 0.0 if desk is None else desk.config.server.idle_ms / 1000

    def _touch(self, why: str, delay_s: float | None = None) -> None:
        self._touched = self._clock()
        self.stop()
        idle_s = self._idle_s()
        self._arm(idle_s if delay_s is None else min(delay_s, idle_s), why)

    def _arm(self, delay_s: float, why: str) -> None:
        if self._used and self._desk() is not None:
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._begin, why)

    def _begin(self, why: str) -> None:
        self._timer = None
        self._task = asyncio.get_running_loop().create_task(self._run(why))

    async def _run(self, why: str) -> None:
        if self._is_answering():
            return  # the answer's end begins anew
        try:
            self._quiet(self._used[0].snapshot.doc_id)
            for place, reason in zip(list(self._used), (why, BEFORE), strict=False):
                if place is not self._used[0] and place.cursor is None:
                    break
                wait_s = await self._warm(place, reason)
                if wait_s is not None:
                    self._arm(wait_s, why)
                    break
        except Exception as error:
            log.error("warming a prompt failed: %s", type(error).__name__)
            log.debug("details", exc_info=True)

    async def _warm(self, place: Place, why: str) -> float | None:
        desk = self._desk()
        if desk is None:
            return None
        session = self._session(place.snapshot.doc_id)
        if silence := self._silence(place.snapshot):
            session.ahead.tell(self._clock(), f"not warmed {why}: {silence}")
            return None
        holds_others = self._look is not None and await self._look(place.snapshot, place.cursor)
        wait_s = await session.warm(place.snapshot, place.cursor, desk, why)
        if wait_s is None and place.left is not None and holds_others:
            await session.ahead.keep(place.snapshot, place.left, desk, LEFT)
        return wait_s


def _moved(cursor: int | None, edits: tuple[Edit, ...]) -> int | None:
    """The cursor after edits; where it is not known, the end of the last one."""
    if not edits:
        return cursor
    if cursor is None:
        return edits[-1].start + len(edits[-1].new)
    for edit in edits:
        if edit.end <= cursor:
            cursor += len(edit.new) - (edit.end - edit.start)
        elif edit.start < cursor:
            cursor = edit.start + len(edit.new)
    return cursor
