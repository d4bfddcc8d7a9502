"""One server with its model and its client, in this process: real framing, the real composition root, the real engine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any
from unittest import mock

from inference.config import EngineConfig
from lsp_server.app import App, OpenClient, build
from lsp_server.config import Sources
from lsp_server.wire import stdio
from lsp_server.wire.stdio import FrameReader
from tests.cases.case import HANG_S
from tests.cases.editor import accepted, changed
from tests.cases.logs import Logs
from tests.cases.scripted import Model, RecordingClient, ScriptedClient, SeenPrompt
from tests.support.client import Client, Json

URI = "file:///w/app/main.py"
OWN_IDS = 1_000_000  # from here on; a case's messages have small ones
# no text and no count depends on the machine's speed (nothing is prepared while a busy one keeps somebody waiting), and no
# process is started that nobody asks for
CALM = {
    "reply_deadline_ms": 0, "cold_budget_ms": 0, "idle_ms": 600_000, "index": False, "wait_ms": 0, "back_off_ms": 0,
    "prefetch": False, **dict.fromkeys(("after_delete", "inside_words", "in_comments", "in_strings"), "on"),
}  # fmt: skip


class _Reader(FrameReader):
    """Of the last server that was started."""

    latest: _Reader | None = None

    def start(self) -> None:
        _Reader.latest = self
        super().start()

    @property
    def n_waiting(self) -> int:
        return len(self._inbox)


class Scene:
    """texts: the editor's own copy of each document. logs: all that was logged. open_client: instead of a scripted model.
    root: URI of the workspace folder. wait: until the model is there."""

    def __init__(
        self,
        model: Model | None = None,
        options: Mapping[str, Any] | None = None,
        *,
        open_client: OpenClient | None = None,
        capabilities: Json | None = None,
        root: str | None = None,
        wait: bool = True,
        **client_options: Any,
    ) -> None:
        self.model = model or Model.saying("")
        self.options = {**CALM, **(options or {})}
        self.texts: dict[str, str] = {}
        self.logs = Logs()
        self.engine: RecordingClient | None = None
        self._open_client = open_client
        self._capabilities = capabilities
        self._root = root
        self._wait = wait
        self._client_options = {"first_id": OWN_IDS, **client_options}
        self._stack = AsyncExitStack()

    def _open(self, config: EngineConfig, on_progress: Callable[[float], None]) -> Any:
        client = (self._open_client or self._scripted)(config, on_progress)
        if isinstance(client, RecordingClient):
            self.engine = client
        return client

    def _scripted(self, config: EngineConfig, _on_progress: Callable[[float], None]) -> ScriptedClient:
        return ScriptedClient(self.model, config)

    async def __aenter__(self) -> Scene:
        self._stack.enter_context(self.logs)
        self.app: App = build(Sources(), self._open)
        with mock.patch.object(stdio, "FrameReader", _Reader):
            self.client = await self._stack.enter_async_context(
                Client(self.app.server, self.app.aclose, **self._client_options)
            )
            await self.client.initialize(options=self.options, capabilities=self._capabilities, root=self._root)
        self._reader = _Reader.latest
        if self._wait:
            await self.ready()
        return self

    async def __aexit__(self, *_: object) -> None:
        if isinstance(self.engine, ScriptedClient):
            self.engine.gate.set()
        await self._stack.aclose()

    async def ready(self) -> None:
        state = {"ready", "error"}
        news = await self.client.until(lambda m: m.get("method") == "midfill/status" and m["params"]["state"] in state)
        assert news["params"]["state"] == "ready", news["params"]["message"]

    # --- the editor

    def open(self, text: str, uri: str = URI, language: str = "python") -> None:
        self.texts[uri] = text
        self.client.open(uri, text, language)

    def change(self, *changes: Json, uri: str = URI) -> None:
        self.texts[uri] = changed(self.texts[uri], list(changes))
        self.client.change(uri, *changes)

    def feed(self, *messages: Json) -> list[int | str]:
        """Send raw messages in one write, keeping the editor's copies; the ids of the requests among them."""
        for message in messages:
            params = message.get("params") or {}
            if message["method"] == "textDocument/didOpen":
                document = params["textDocument"]
                self.texts[document["uri"]] = document["text"]
            elif message["method"] == "textDocument/didChange":
                uri = params["textDocument"]["uri"]
                self.texts[uri] = changed(self.texts[uri], params["contentChanges"])
        self.client.send(*messages)
        return [message["id"] for message in messages if "id" in message]

    async def feed_at_once(self, *messages: Json) -> list[int | str]:
        """The same, and all of it has arrived when the server takes the first: nobody was held up in between."""
        await self.client.settle()
        assert self._reader is not None
        ids, until = self.feed(*messages), time.monotonic() + HANG_S
        while self._reader.n_waiting < len(messages):  # the server's loop is ours, and waits here
            assert time.monotonic() < until, "it never arrived"
            time.sleep(0.001)
        return ids

    async def ask(self, line: int, character: int, *, uri: str = URI, invoked: bool = False) -> list[Json]:
        """The items; an error is a failure."""
        answer = await self.client.inline(uri, line, character, invoked=invoked)
        return items_of(answer)

    async def accept(self, line: int, character: int, *, uri: str = URI, invoked: bool = False) -> str:
        """The editor's text after accepting the only item. The server's copy stays as it is."""
        (item,) = await self.ask(line, character, uri=uri, invoked=invoked)
        return accepted(self.texts[uri], item, {"line": line, "character": character})

    # --- what is looked at

    def server_text(self, uri: str = URI) -> str:
        document = self.app.store.find(uri)
        assert document is not None, f"{uri} is not open"
        return document.snapshot.text.bytes().decode()

    @property
    def scripted(self) -> ScriptedClient:
        assert isinstance(self.engine, ScriptedClient)
        return self.engine

    @property
    def prompts(self) -> list[SeenPrompt]:
        """All that the engine was given, background included, in order."""
        assert self.engine is not None
        return [SeenPrompt.of(request, self.engine.vocab) for request in self.engine.requests]

    @property
    def prompt(self) -> SeenPrompt:
        """The last one that answered somebody."""
        assert self.engine is not None
        assert self.engine.typing, "the engine was never asked"
        return SeenPrompt.of(self.engine.typing[-1], self.engine.vocab)

    @property
    def n_calls(self) -> int:
        return len(self.engine.typing) if self.engine is not None else 0

    async def idle(self) -> None:
        """Until nothing is generated any more."""
        assert self.engine is not None
        while self.engine.unfinished:
            await asyncio.sleep(0.002)

    async def reason(self) -> str:
        answer = await self.client.command("midfill.explain")
        return str(answer["result"]["reason"])


def items_of(answer: Json) -> list[Json]:
    assert "error" not in answer, f"an error: {answer.get('error')}"
    result = answer["result"]
    items: list[Json] = result["items"] if isinstance(result, dict) else result or []
    return items
