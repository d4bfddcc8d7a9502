"""What was worked on lately: the places in open documents, and what was changed there.

Owns the last place seen of each document and its hunks. A few documents, the one used last at the end; what is longest unused
goes. Lives on the event loop. Refuses to decide what of it goes into a prompt.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from context.text import Edit
from context.types import DocumentSnapshot
from context.zones.edits import Hunk, touched

MOST = 8


@dataclass(frozen=True, slots=True)
class Worked:
    """A document and what was done in it. place: byte of the last edit or request there; None: it was only opened."""

    snapshot: DocumentSnapshot
    place: int | None = None
    hunks: tuple[Hunk, ...] = ()


class Recent:
    """clock: in seconds; of the times of hunks."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._worked: OrderedDict[str, Worked] = OrderedDict()

    def opened(self, snapshot: DocumentSnapshot) -> None:
        self._put(Worked(snapshot))

    def changed(self, snapshot: DocumentSnapshot, edits: tuple[Edit, ...]) -> None:
        """edits lead from the text last reported to the snapshot's."""
        worked = self._worked.get(snapshot.doc_id)
        if worked is None or not edits:
            self._put(Worked(snapshot, None if worked is None else worked.place))
            return
        hunks, text = worked.hunks, worked.snapshot.text
        for i, edit in enumerate(edits):
            hunks = touched(hunks, text, edit, self._clock())
            text = snapshot.text if i == len(edits) - 1 else text.edit(edit.start, edit.end, edit.new)
        self._put(Worked(snapshot, edits[-1].start + len(edits[-1].new), hunks))

    def asked(self, snapshot: DocumentSnapshot, offset: int) -> None:
        worked = self._worked.get(snapshot.doc_id)
        hunks = worked.hunks if worked is not None and worked.snapshot.version == snapshot.version else ()
        self._put(Worked(snapshot, offset, hunks))

    def closed(self, doc_id: str) -> None:
        self._worked.pop(doc_id, None)

    def forget(self) -> None:
        """Of what was changed; places stay."""
        for doc_id, worked in self._worked.items():
            self._worked[doc_id] = Worked(worked.snapshot, worked.place)

    def of(self, doc_id: str) -> Worked | None:
        return self._worked.get(doc_id)

    def all(self) -> tuple[Worked, ...]:
        """The one used last first."""
        return tuple(reversed(self._worked.values()))

    def _put(self, worked: Worked) -> None:
        self._worked[worked.snapshot.doc_id] = worked
        self._worked.move_to_end(worked.snapshot.doc_id)
        while len(self._worked) > MOST:
            self._worked.popitem(last=False)
