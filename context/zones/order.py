"""In which order pieces stand in a prompt: what changes least first.

Owns that order. Rules come first, what was edited last comes last; in between definitions, by file. What stood in the prompt
before keeps its place in front of what is new of its kind, so that as much as possible of the prompt stays what it was; among
new files the one with most points stands nearest to the cursor. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from context.zones.types import ZonePiece, Zones

_KINDS = {"rules": 0, "definition": 1, "caller": 1, "open": 2, "edited": 3, "edit": 4}


def in_order(pieces: Sequence[ZonePiece], previous: Zones | None) -> list[ZonePiece]:
    """previous: what stood in the prompt before, in its order."""
    places = {} if previous is None else {piece.key: i for i, piece in enumerate(previous.pieces)}
    groups: dict[tuple[int, str], list[ZonePiece]] = {}
    for piece in pieces:
        groups.setdefault((_KINDS.get(piece.kind, 1), piece.path), []).append(piece)

    def place(entry: tuple[tuple[int, str], list[ZonePiece]]) -> tuple[int, int, int, int, str]:
        (kind, path), members = entry
        known = [places[piece.key] for piece in members if piece.key in places]
        best = max(piece.points for piece in members)
        return (kind, 0, min(known), 0, path) if known else (kind, 1, 0, best, path)

    ordered: list[ZonePiece] = []
    for _, members in sorted(groups.items(), key=place):
        # within a file as in the file; what was there before stands first only where that is so by itself
        ordered += sorted(members, key=lambda piece: (piece.start, piece.name))
    return ordered
