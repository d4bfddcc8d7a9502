"""A scripted completion heart, and a server around it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from context.text import Edit, Text
from context.types import DocumentSnapshot
from lsp_server.config import Config, Sources
from lsp_server.documents import DocumentStore
from lsp_server.handlers import Room, register
from lsp_server.status import Status
from lsp_server.types import Completion, CompletionQuery, Item
from lsp_server.wire.protocol import Server, make_server
from lsp_server.workspace import Exclusion
from tests.support.client import Client


def append_x(query: CompletionQuery) -> Completion:
    """An item that writes `x` at the cursor, its range from the line's beginning."""
    start = query.snapshot.text.line_start(query.snapshot.text.line_of(query.offset))
    before = query.snapshot.text.slice(start, query.offset).decode()
    return Completion(len(before) + 1, (Item(start, query.offset, before + "x"),), "")


@dataclass
class Script:
    """A Completer that does what the test says. gate: completions wait for it; reply may raise."""

    reply: Callable[[CompletionQuery], Completion] = append_x
    gate: asyncio.Event | None = None
    queries: list[CompletionQuery] = field(default_factory=list)
    texts: dict[str, Text] = field(default_factory=dict)
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    n_cancelled: int = 0

    async def complete(self, query: CompletionQuery) -> Completion:
        self.queries.append(query)
        try:
            if self.gate is not None:
                await self.gate.wait()
        except asyncio.CancelledError:
            self.n_cancelled += 1
            raise
        return self.reply(query)

    def opened(self, snapshot: DocumentSnapshot) -> None:
        self.calls.append(("opened", snapshot.doc_id))
        self.texts[snapshot.doc_id] = snapshot.text

    def changed(self, snapshot: DocumentSnapshot, edits: tuple[Edit, ...]) -> None:
        self.calls.append(("changed", snapshot.doc_id, snapshot.version))
        text = self.texts[snapshot.doc_id]
        for edit in edits:
            text = text.edit(edit.start, edit.end, edit.new)
        assert text == snapshot.text, "the edits don't lead to the snapshot"
        self.texts[snapshot.doc_id] = text

    def closed(self, doc_id: str) -> None:
        self.calls.append(("closed", doc_id))
        del self.texts[doc_id]

    def accepted(self, request_id: int) -> None:
        self.calls.append(("accepted", request_id))

    def explain(self) -> dict[str, object]:
        return {"reason": "from the script"}

    def pause(self, minutes: float | None) -> None:
        self.calls.append(("pause", minutes))

    def configure(self, config: Config) -> None:
        self.calls.append(("configure", config))

    async def aclose(self) -> None:
        self.calls.append(("aclose",))

    def of(self, name: str) -> list[tuple[Any, ...]]:
        return [call for call in self.calls if call[0] == name]


@dataclass
class House:
    """Everything around one connection."""

    script: Script
    server: Server
    store: DocumentStore
    status: Status
    room: Room
    started: list[Config]

    def client(self, **options: Any) -> Client:
        return Client(self.server, self.script.aclose, **options)

    def text(self, uri: str) -> str:
        document = self.store.find(uri)
        assert document is not None
        return document.snapshot.text.bytes().decode()


def build(script: Script | None = None, sources: Sources | None = None, memo_s: float = 0.0) -> House:
    script = script or Script()
    server = make_server("test")
    exclusion = Exclusion(memo_s=memo_s)
    store = DocumentStore(exclusion.reason)
    status = Status(server)
    started: list[Config] = []
    room = register(server, script, store, exclusion, status, sources or Sources(), started.append)
    return House(script, server, store, status, room, started)


@pytest.fixture
def house() -> House:
    return build()
