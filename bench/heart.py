"""The product's completion path in this process, without the wire: what the server does with a request, from snapshot to item.

Composes the parts as `lsp_server.app` does: one engine, and for each layout the same sessions, planning and offering that the
server has. Differs from a user's settings where a count would otherwise depend on time: no deadline and no cold budget,
typed-through reuse and adopting off, and the engine's costs fixed instead of measured, so that a prompt is evaluated in the
same chunks everywhere. And without a file header: the benchmark's problems have no file.

With the index of a workspace (`lsp_server.plans.prompting.indexed`), files of it are completed as an editor would have them
completed: `file` opens one, with or without pieces of other files in its prompts, all within one budget of tokens.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from bench.errors import BenchError
from bench.tap import Call, Tap
from context.config import ContextConfig
from context.text import Edit, Text
from context.types import DocumentSnapshot
from inference.clients.base import EngineClient
from inference.config import EngineConfig
from inference.types import FinishReason, GenerationRequest
from lsp_server.app import open_local
from lsp_server.completer import Completions
from lsp_server.config import Config, ServerConfig
from lsp_server.plans.inquiry import Index
from lsp_server.types import CompletionQuery

LAYOUTS = ("anchored", "psm")


def engine_config(model: str, n_threads: int, kv_type: str = "f16") -> EngineConfig:
    """n_threads 0: measured, as the product does."""
    return EngineConfig(
        model=model, n_threads=n_threads, prefill_ms_per_token=8.0, step_ms=27.0, chunk_ms=60_000.0, n_stowed=0,
        prompt_cache=False, kv_type=kv_type,
    )  # fmt: skip


def budgeted(n_budget: int, full: bool) -> ContextConfig:
    """Settings for prompts that use a whole budget, with pieces of other files or without: no limit but the budget's stops the
    file's own text."""
    return ContextConfig(
        cold_budget_ms=0, prompt_tokens=n_budget, references=full, prefix_tokens=max(n_budget, ContextConfig().prefix_tokens)
    )


@dataclass(frozen=True, slots=True)
class Answer:
    """accepted: the document after accepting the item; as it was if there was none. offered: was there one?

    call: what the engine was asked and said. It may go on after the answer: `Heart.quiet` waits for its end.
    """

    accepted: str
    offered: bool
    reason: str
    call: Call


class Heart:
    """Use on one event loop. The engine's cache is shared by the layouts; `forget` empties it."""

    def __init__(
        self,
        client: EngineClient,
        max_tokens: int,
        *,
        n_sequences: int,
        clock: Callable[[], float] = time.monotonic,
        pool: Executor | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._n_sequences = n_sequences
        self._n_forgotten = 0
        self._pool = pool
        self.tap = Tap(client)
        self._server = server = ServerConfig(
            max_tokens=max_tokens, n_candidates=1, typed_through=False, adopt_ms=0, reply_deadline_ms=0, background="off"
        )
        self._completers: dict[str, Completions] = {}
        for layout in LAYOUTS:
            context = ContextConfig(layout=layout, cold_budget_ms=0, file_header=False)
            completer = Completions(Config(server, context), clock, pool)
            completer.attach(self.tap)
            self._completers[layout] = completer
        self._others: dict[tuple[int, bool], Completions] = {}
        self._index: Index | None = None
        self._roots: tuple[str, ...] = ()

    def use_workspace(self, index: Index, roots: Sequence[str]) -> None:
        """For `file`: the index of these folders, which is filled."""
        self._index, self._roots = index, tuple(roots)

    def file(self, doc_id: str, language: str, text: str, *, n_budget: int, full: bool) -> Document:
        """A file of the workspace, newly opened. n_budget: most tokens of its prompts. full: with pieces of other files; else
        the file alone."""
        key = n_budget, full
        if key not in self._others:
            config = Config(self._server, budgeted(n_budget, full))
            completer = Completions(config, self._clock, self._pool, index=self._index, fill=True)
            completer.roots = lambda: self._roots
            completer.attach(self.tap)
            self._others[key] = completer
        return Document(self._others[key], self.tap, self._clock, text, doc_id, language)

    @classmethod
    async def load(cls, config: EngineConfig, max_tokens: int) -> Heart:
        """Load the model. Raises EngineError."""
        client = await asyncio.to_thread(open_local, config, lambda share: None)
        if config.kv_type != "f16" and client.notices:
            await client.aclose()
            raise BenchError(f"cells of {config.kv_type} were not to be had: {client.notices[0]}")
        # the engine holds one sequence more than the setting says: the background's
        return cls(client, max_tokens, n_sequences=config.n_sequences + 1)

    def another(self, max_tokens: int) -> Heart:
        """On the same engine, to be used at the same time. The first one closes it."""
        return Heart(self._client, max_tokens, n_sequences=self._n_sequences, clock=self._clock, pool=self._pool)

    @property
    def model_name(self) -> str:
        return self._client.model_name

    def document(self, layout: str, text: str) -> Document:
        """A newly opened document, completed in this layout."""
        return Document(self._completers[layout], self.tap, self._clock, text)

    async def quiet(self) -> None:
        """Until nothing is generated any more."""
        await self.tap.quiet()

    async def forget(self) -> None:
        """Fill every sequence of the cache with a token of its own, that no prompt begins with: nothing else is left."""
        await self.quiet()
        for _ in range(self._n_sequences):
            self._n_forgotten += 1
            # a token other than that of the time before, or its sequence would be taken again
            letter = bytes([ord("A") + self._n_forgotten % 26])
            tokens = self._client.vocab.encode(letter)[:1]
            stream = self._client.submit(GenerationRequest(self._client.next_id(), tokens, n_max=0))
            while (event := await stream.next()).finish is None:
                pass
            if event.finish is not FinishReason.RESIDENT:
                raise BenchError(f"the engine could not be emptied: {event.error or event.finish}")

    async def aclose(self) -> None:
        for completer in (*self._completers.values(), *self._others.values()):
            await completer.aclose()
        await self._client.aclose()


class Document:
    """An open document. Positions are in bytes of its UTF-8 text."""

    def __init__(
        self,
        completer: Completions,
        tap: Tap,
        clock: Callable[[], float],
        text: str,
        doc_id: str = "untitled:bench",
        language: str = "python",
    ) -> None:
        self._doc_id = doc_id
        self._language = language
        self._completer = completer
        self._tap = tap
        self._clock = clock
        self._text = Text.of(text)
        self._version = 1
        completer.opened(self._snapshot)

    @property
    def _snapshot(self) -> DocumentSnapshot:
        return DocumentSnapshot(self._doc_id, self._version, self._language, self._text)

    def insert(self, at: int, typed: str) -> None:
        """Type, as one change."""
        edit = Edit(at, at, typed.encode())
        self._text, self._version = self._text.edit(edit.start, edit.end, edit.new), self._version + 1
        self._completer.changed(self._snapshot, (edit,))

    async def ask(self, at: int, *, n_most: int | None = None) -> Answer:
        """An invoked request. n_most: generate no more than so many tokens. Raises BenchError if the engine fails."""
        self._tap.calls.clear()
        await self._completer.found(self._snapshot, at)
        self._tap.n_most = n_most
        try:
            completion = await self._completer.complete(CompletionQuery(self._snapshot, at, True, None, self._clock()))
        finally:
            self._tap.n_most = None
        if len(self._tap.calls) != 1:
            why = completion.reason or "no reason was given"
            raise BenchError(f"a request led to {len(self._tap.calls)} generations ({why})")
        call = self._tap.calls[0]
        if call.error:
            raise BenchError(f"the engine failed: {call.error}")
        text = self._text
        if completion.items:
            item = completion.items[0]
            text = text.edit(item.start, item.end, item.text.encode())
        accepted = text.slice(0, len(text)).decode()
        return Answer(accepted, bool(completion.items), completion.reason, call)

    def explain(self) -> dict[str, object]:
        """The last request's record: its pieces, notes and cuts."""
        return self._completer.explain()

    async def close(self) -> None:
        """Close it; what is generated for it ends."""
        self._completer.closed(self._snapshot.doc_id)
        await self._tap.quiet()
