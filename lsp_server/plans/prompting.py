"""The prompt for a place as the product makes it, in this process and without an engine.

For `midfill explain`, benches and whoever compares prompts:

    async with indexed([folder], cache_dir) as index:           # an index of the folder, filled and waited for
        prompter = Prompter(vocab, name, n_ctx, config, index, [folder])
        made = await prompter.prompt(snapshot, offset)          # made.prompt.tokens, made.plan.zones, made.why

The whole prompt has at most `config.context.prompt_tokens` tokens (0: as n_ctx allows); `config.context.references = False`,
or no index, gives the prompt of the file alone. A `Completions` that was made with such an index does the same on its way to
the engine: `await completer.found(snapshot, offset)` before the request makes sure that the pieces are there. Owns none of
the parts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from context.tokens import TokenTable
from context.types import DocumentSnapshot, Plan, Prompt
from inference.backend import Vocab
from inference.types import Costs
from lsp_server.config import Config, ServerConfig
from lsp_server.index.room import IndexRoom
from lsp_server.plans.dressing import Dressing, placed
from lsp_server.plans.inquiry import Index
from lsp_server.plans.layouts import NO_NAME, choose_layout, file_name
from lsp_server.plans.planning import Planner
from lsp_server.plans.references import References
from lsp_server.trees import Trees

_POLL_S = 0.05


class NothingResident:
    """An engine that was just started, as far as planning asks."""

    def __init__(self, n_ctx: int) -> None:
        self.n_ctx = n_ctx

    async def n_reusable(self, tokens: Sequence[int]) -> int:
        return 0

    def costs(self) -> Costs:
        return Costs(1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Made:
    """why: the decision on pieces of other places, "" if none were looked for."""

    plan: Plan
    prompt: Prompt
    why: str


@asynccontextmanager
async def indexed(
    roots: Sequence[str], cache_dir: Path, config: ServerConfig | None = None, *, wait_s: float | None = None
) -> AsyncIterator[IndexRoom]:
    """An index of folders in cache_dir, filled by a process of its own. wait_s: go on with what is there after so long; None:
    wait until everything was looked at. On the event loop."""
    room = IndexRoom(lambda: cache_dir, "prompting")
    room.configure(config or ServerConfig(), roots)
    room.start()
    try:
        await room.settled()
        until = None if wait_s is None else time.monotonic() + wait_s
        while not await room.is_filled() and (until is None or time.monotonic() < until):
            await asyncio.sleep(_POLL_S)
        yield room
    finally:
        await room.aclose()


class Prompter:
    """vocab: the model's. config: its context part decides what a prompt holds. index: None: the file alone. roots: paths of
    the workspace folders. why_private: why a document may not be used, or "". pool: for what takes longer; None = threads of
    its own. fill: prompts use all of their tokens. EngineError: the model can't do the layout."""

    def __init__(
        self,
        vocab: Vocab,
        model_name: str,
        n_ctx: int,
        config: Config,
        index: Index | None = None,
        roots: Sequence[str] = (),
        why_private: Callable[[str], str] = lambda _doc_id: "",
        pool: Executor | None = None,
        fill: bool = False,
    ) -> None:
        context = config.context
        layout = placed(choose_layout(context.layout, vocab, model_name), context)
        table = TokenTable(vocab, vocab.pre_type, vocab.pieces)
        self._pool = pool
        self._trees = Trees(pool, pause=lambda _: None)
        used = index if context.references and config.server.index else None
        self._references = References(used, self._trees, time.monotonic, why_private, lambda: roots, pool)
        outlook = self._references.outlook if self._references.has_index else None
        self._planner = Planner(
            NothingResident(n_ctx), table, layout, replace(context, cold_budget_ms=0), config.server.max_tokens,
            lambda doc_id: file_name(doc_id, roots) if context.file_header else NO_NAME, outlook, fill=fill,
        )  # fmt: skip
        if outlook is not None:
            self._references.use(Dressing.of(table, self._planner, layout, context))

    async def prompt(self, snapshot: DocumentSnapshot, offset: int) -> Made:
        """The prompt that a request there has once it is prepared in full."""
        self._trees.opened(snapshot)
        self._references.opened(snapshot)
        try:
            await self._references.look(snapshot, offset)
            outlook = self._planner.outlook(snapshot)
            loop = asyncio.get_running_loop()
            plan = await loop.run_in_executor(self._pool, self._planner.full_plan, snapshot, offset, None, outlook)
            why = self._references.book(snapshot.doc_id).why if self._references.has_index else ""
            return Made(plan, self._planner.render(plan, snapshot, offset), why)
        finally:
            self._references.closed(snapshot.doc_id)
            self._trees.closed(snapshot.doc_id)

    def close(self) -> None:
        self._references.close()
        self._trees.close()
