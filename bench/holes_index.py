"""The index of the tree that is asked about now: one after the other, behind one face.

Owns the switch, and the wait until the index has seen what was changed on the disk. The index itself is the product's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path

from bench.errors import BenchError
from context.symbol_types import Import
from lsp_server.index.room import IndexRoom
from lsp_server.index.rows import Defined, FileRow, UsedIn
from lsp_server.uris import document_id

_POLL_S = 0.02
_ALIKE_S = 1.5
_HANG_S = 180.0


class SwitchedIndex:
    """An index (`lsp_server.plans.inquiry.Index`) that passes on to another one. room: None while there is none."""

    def __init__(self) -> None:
        self.room: IndexRoom | None = None

    @property
    def _now(self) -> IndexRoom:
        if self.room is None:
            raise BenchError("the bench asked for symbols while no tree was indexed; report this as a fault of the bench")
        return self.room

    def covers(self, doc_id: str) -> bool:
        return self.room is not None and self.room.covers(doc_id)

    async def definitions_of(self, name: str, most: int = 200) -> tuple[Defined, ...]:
        return await self._now.definitions_of(name, most)

    async def uses_of(self, name: str, most: int = 200) -> tuple[UsedIn, ...]:
        return await self._now.uses_of(name, most)

    async def symbols_in(self, doc_id: str) -> FileRow | None:
        return await self._now.symbols_in(doc_id)

    async def resolve(self, doc_id: str, language: str, one: Import) -> tuple[str, ...]:
        return await self._now.resolve(doc_id, language, one)


async def seen(room: IndexRoom, changed: Iterable[Path]) -> None:
    """Tell an index what has changed, and wait until it has seen it. Raises BenchError if it does not come to an end."""
    paths = list(changed)
    look_alike = [path for path in paths if path.exists() and await _is_seen(room, path)]
    for path in paths:
        room.changed(document_id(path.as_uri()))
    if look_alike:  # as long as before: its length does not tell when it was seen
        await asyncio.sleep(_ALIKE_S)
    until = time.monotonic() + _HANG_S
    while time.monotonic() < until:
        if all([await _is_seen(room, path) for path in paths]) and await room.is_filled():
            return
        await asyncio.sleep(_POLL_S)
    raise BenchError("the index does not come to an end; start the bench again, it goes on")


async def _is_seen(room: IndexRoom, path: Path) -> bool:
    row = await room.symbols_in(document_id(path.as_uri()))
    if not path.exists():
        return row is None
    return row is None or row.n_bytes == path.stat().st_size
