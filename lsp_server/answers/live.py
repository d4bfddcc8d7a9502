"""A request being answered, and how it reads from a generation until there is an answer.

Owns what ends it: its answer, or a newer request. Which generation it reads from is decided elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

from inference.types import FinishReason, GenerationStats
from lsp_server.answers.generation import Generation, Said
from lsp_server.answers.reply import ReplyRules, decide
from lsp_server.desk import Desk
from lsp_server.trace import Record
from lsp_server.types import Completion, CompletionQuery


class Live:
    """A request being answered: `superseded` is resolved when a newer one ends it, and its work is cancelled. generation: what
    it reads from, once that is known."""

    def __init__(self, query: CompletionQuery) -> None:
        self.superseded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[Completion] | None = None
        self.generation: Generation | None = None
        self._query = query

    def is_ended_by(self, newer: CompletionQuery) -> bool:
        """Inline and plain completion of the same place stand side by side; anything else that is newer takes over."""
        mine = self._query
        is_same_place = newer.snapshot.text is mine.snapshot.text and newer.offset == mine.offset
        return newer.is_plain == mine.is_plain or not is_same_place

    def supersede(self) -> None:
        if not self.superseded.done():
            self.superseded.set_result(None)
        if self.task is not None:
            self.task.cancel()


async def read(generation: Generation, typed: bytes, rules: ReplyRules, desk: Desk, record: Record) -> Said:
    """Wait until there is an answer; what the first candidate says beyond `typed` by then. Who types through what is shown does
    not wait: there is at least the rest of that."""
    if rules.deadline is not None and len(typed) < generation.n_shown:
        rules = replace(rules, deadline=desk.clock(), cold_until=None)
    changed = asyncio.Event()
    generation.readers.add(changed)
    try:
        while True:
            changed.clear()
            said = generation.remainder(typed) or Said(0, "", generation.finish is FinishReason.STOP)
            verdict = decide(said.rest, not generation.is_running, desk.clock(), rules)
            if verdict.answer:
                break
            timeout = None if verdict.wake_at is None else max(0.0, verdict.wake_at - desk.clock())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), timeout)
    finally:
        generation.readers.discard(changed)
    mine, stats = record.source == "generated", generation.stats
    record.phases.split("queue", {"prefill": stats.prefill_ms, "decode": stats.decode_ms} if mine else {})
    record.request_id = generation.request_id
    record.stats = stats if mine else GenerationStats()
    record.finish = str(generation.finish or verdict.answer)
    return said
