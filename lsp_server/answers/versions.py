"""Is what a prompt held of other places still what it would hold now?

Owns when each document was last edited. A piece that is chosen now in another version is outdated; one that is not chosen now
is if its file was edited meanwhile, and otherwise nobody has touched it. What tells of edits is history and stays true. Pure
but for the times it is told.
"""

from __future__ import annotations

from context.prompt_form import to_prompt
from context.text import Text
from context.types import Plan
from context.zones.types import Zones

HISTORY = frozenset({"edit", "edited"})  # kinds of pieces that tell what was done
_MOST = 512  # documents


class Versions:
    def __init__(self) -> None:
        self._edited: dict[str, float] = {}

    def edited(self, doc_id: str, now: float) -> None:
        self._edited.pop(doc_id, None)
        self._edited[doc_id] = now
        if len(self._edited) > _MOST:
            del self._edited[next(iter(self._edited))]

    def are_current(self, plan: Plan, since: float, wanted: Zones | None, text: Text) -> bool:
        """plan: whose prompt was made at `since`, moved to where its text stands in the document now (text). wanted: the pieces
        that a prompt would hold now; None: nobody knows."""
        if plan.heads and not _stand_above(plan, text):
            return False
        pieces = () if plan.zones is None else plan.zones.pieces
        now = {piece.key: piece.version for piece in (() if wanted is None else wanted.pieces)}
        for piece in pieces:
            if piece.kind in HISTORY:
                continue
            version = now.get(piece.key)
            if version != piece.version and (version is not None or self._edited.get(piece.source, since) > since):
                return False
        return True


def _stand_above(plan: Plan, text: Text) -> bool:
    """Does each line of the heads of what encloses the place still stand somewhere above the window? The last one is ours."""
    above = to_prompt(text.slice(0, text.floor(plan.window_start)), True).split(b"\n")
    return set(plan.heads.split(b"\n")[:-2]) <= set(above)
