"""What planning knows around a document: pieces of other places, and the document's tree. Frozen."""

from __future__ import annotations

from dataclasses import dataclass

from context.syntax import SyntaxTree
from context.zones.types import Zones


@dataclass(frozen=True, slots=True)
class Outlook:
    """wanted: the pieces that prompts should hold; None: nothing was found yet, or nothing is asked for. others: pieces that
    prompts held before, the last ones first. tree: of the snapshot, None where pieces are not asked for. refused:
    document ids of files that have become private: no plan with a piece of one is used any more."""

    wanted: Zones | None = None
    others: tuple[Zones, ...] = ()
    tree: SyntaxTree | None = None
    refused: frozenset[str] = frozenset()


NOTHING = Outlook()
