"""What became of what was offered, read off the edits that follow.

A state machine for one document: it is told of answers, edits and the time, and tells fates. An offer stands as long as the
text agrees with it; answers that go on with the same text are the same offer. What comes as one key is typed, what comes as
more was accepted; a client that says so only confirms. What was taken is followed for half a minute: how much of it is there.
Pure: no clock, no event loop. Refuses to know editors, and what is made of a fate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from context.text import Edit, Text
from lsp_server.asking.reluctance import Kind
from lsp_server.asking.trigger import narrowed
from lsp_server.learning.standing import Standing
from lsp_server.types import Item

SOON_S = 10.0  # what is deleted within that was not wanted
KEPT_S = 30.0  # then what is left of it counts
_MOST_TAKEN = 16
_EMPTY = Text.of(b"")


class Fate(StrEnum):
    WHOLE = "whole"  # all of it was accepted, or its rest behind what was typed or accepted before
    PARTLY = "partly"  # n_accepted characters of it were, and then something else came
    TYPED = "typed"  # all of it was typed
    DIVERGED = "diverged"  # something else was typed
    DISMISSED = "dismissed"  # the client says so
    IGNORED = "ignored"  # the cursor went elsewhere, it was typed back, or the document was closed
    REPLACED = "replaced"  # another answer came for the same text


class Said(StrEnum):
    """What a client may tell of an item. All but "dismissed" is seen in the text as well."""

    SHOWN = "shown"
    ACCEPTED = "accepted"
    PARTLY = "partlyAccepted"
    DISMISSED = "dismissed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """n_offered: characters behind the cursor when it was first answered; of these n_accepted were put in at once, n_typed came
    key by key. seen_s: how long it stood. deleted: what was taken was gone within SOON_S. n_kept: characters of it that were
    there after KEPT_S; None: not known yet."""

    request_id: int
    kind: Kind
    fate: Fate
    n_offered: int
    n_accepted: int
    n_typed: int
    seen_s: float
    deleted: bool = False
    n_kept: int | None = None

    @property
    def is_taken(self) -> bool:
        return self.fate in (Fate.WHOLE, Fate.PARTLY, Fate.TYPED)


@dataclass(slots=True)
class _Taken:
    """spans: bytes of it that are still there. at: when it was taken."""

    outcome: Outcome
    at: float
    spans: list[tuple[int, int]]
    n_bytes: int = field(default=0)

    def __post_init__(self) -> None:
        self.n_bytes = sum(end - start for start, end in self.spans)

    def edit(self, edit: Edit) -> None:
        """What it deletes is gone, what it puts in between is none of it."""
        delta = len(edit.new) - (edit.end - edit.start)
        spans = []
        for start, end in self.spans:
            if edit.end <= start and (edit.start < start or not edit.new or edit.start < edit.end):
                spans.append((start + delta, end + delta))
            elif edit.start >= end:
                spans.append((start, end))
            else:
                spans += [(start, edit.start), (edit.end + delta, end + delta)]
        self.spans = [(start, end) for start, end in spans if start < end]

    @property
    def n_left(self) -> int:
        return sum(end - start for start, end in self.spans)


Tell = Callable[[Outcome, Outcome | None], None]


class Following:
    """tell: is given an outcome, and the one that it corrects (None: it is new)."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._standing: Standing | None = None
        self._taken: list[_Taken] = []
        self._last: Outcome | None = None  # may still be confirmed
        self._now = 0.0
        self._text = _EMPTY  # as last told

    @property
    def is_open(self) -> bool:
        """There is something to follow."""
        return self._standing is not None or bool(self._taken)

    def offered(self, request_id: int, item: Item, text: Text, cursor: int, kind: Kind, now: float) -> None:
        """An answer with an item, for a text and a cursor in it."""
        self._pass(now, text)
        new = Standing(request_id, kind, item.start, item.text.encode(), cursor - item.start, item.end - cursor, now)
        old = self._standing
        if old is not None and old.goes_on_as(new, text):
            old.become(new)
            return
        if old is not None:
            self._end(Fate.PARTLY if old.n_accepted else Fate.REPLACED, now)
        self._standing = new

    def asked(self, cursor: int, now: float) -> None:
        """A request was made there. Away from what stands: it is not looked at any more."""
        standing = self._standing
        if standing is not None and not standing.is_at(cursor):
            self._end(Fate.PARTLY if standing.n_accepted else Fate.IGNORED, now)

    def edited(self, before: Text, edits: tuple[Edit, ...], now: float) -> bool:
        """edits lead from `before` on, each in the coordinates of the text before it. Returns whether they put in (a part of)
        what was offered."""
        self._pass(now, before)
        n_before = self._standing.n_accepted if self._standing is not None else 0
        was = self._last
        for edit in edits:
            after = before.edit(edit.start, edit.end, edit.new)
            small = narrowed(before, edit)
            for taken in self._taken:
                taken.edit(small)
                if not taken.outcome.deleted and now - taken.at <= SOON_S and 2 * taken.n_left < taken.n_bytes:
                    self._correct(taken, replace(taken.outcome, deleted=True))
            if self._standing is not None:
                self._step(small, after, now)
            before = after
        self._text = before
        standing = self._standing
        if standing is not None:
            return standing.n_accepted > n_before
        return self._last is not None and self._last is not was and self._last.fate is Fate.WHOLE

    def confirmed(self, request_id: int, what: Said, now: float) -> None:
        """what: said by the client of the item of that request."""
        standing, last = self._standing, self._last
        if standing is not None and standing.request_id == request_id:
            if what is Said.DISMISSED:
                self._end(Fate.PARTLY if standing.n_accepted else Fate.DISMISSED, now)
            elif what is Said.PARTLY:
                standing.count_typed_as_accepted()
            return
        if last is None or last.request_id != request_id or what is not Said.ACCEPTED or last.fate is not Fate.TYPED:
            return
        whole = replace(last, fate=Fate.WHOLE, n_accepted=last.n_accepted + 1, n_typed=last.n_typed - 1)
        for taken in self._taken:
            if taken.outcome is last:
                self._correct(taken, whole)

    def passed(self, now: float) -> None:
        """Time has passed, and nothing was done."""
        self._pass(now, self._text)

    def closed(self, now: float | None = None) -> None:
        """now: None: as of the last event."""
        if self._standing is not None:
            self._end(Fate.PARTLY if self._standing.n_accepted else Fate.IGNORED, self._now if now is None else now)
        self._taken.clear()

    # -- inside

    def _step(self, edit: Edit, after: Text, now: float) -> None:
        standing = self._standing
        assert standing is not None
        verdict = standing.step(edit, after)
        if verdict == "whole":
            self._end(Fate.WHOLE if standing.n_accepted else Fate.TYPED, now)
        elif verdict == "other":
            self._end(Fate.PARTLY if standing.n_accepted else Fate.DIVERGED, now)
        elif verdict == "gone":
            self._end(Fate.PARTLY if standing.n_accepted else Fate.IGNORED, now)

    def _end(self, fate: Fate, now: float) -> None:
        standing, self._standing = self._standing, None
        assert standing is not None
        outcome = Outcome(
            standing.request_id, standing.kind, fate, standing.n_offered, standing.n_accepted, standing.n_typed,
            now - standing.since,
        )  # fmt: skip
        self._last = outcome
        self._tell(outcome, None)
        if outcome.is_taken and standing.span[0] < standing.span[1]:
            self._taken.append(_Taken(outcome, now, [standing.span]))
            del self._taken[:-_MOST_TAKEN]

    def _correct(self, taken: _Taken, outcome: Outcome) -> None:
        self._tell(outcome, taken.outcome)
        if self._last is taken.outcome:
            self._last = outcome
        taken.outcome = outcome

    def _pass(self, now: float, text: Text) -> None:
        """text: as it has been until now."""
        self._now, self._text = now, text
        for taken in [taken for taken in self._taken if now - taken.at >= KEPT_S]:
            n_kept = sum(len(text.slice(start, end).decode(errors="replace")) for start, end in taken.spans)
            self._correct(taken, replace(taken.outcome, n_kept=n_kept))
            self._taken.remove(taken)
