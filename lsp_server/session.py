"""One document's completions: one live request of each kind, one generation, one plan, and what is prepared (`ahead`).

Owns supersession, parking and adopting, and typed-through reuse. Lives on the event loop; nothing here blocks it.

A request ends in exactly one of three ways: it returns a Completion, it raises Superseded (a newer one came), or it is
cancelled from outside. In the last two its generation is parked, not ended: the editor usually asks again within
milliseconds with a text that agrees. A client that asks for both kinds at the same place gets both answers from one generation.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import Any

from context.plan import Fit, check, shift
from context.prompt_form import to_prompt
from context.text import Edit
from context.types import DocumentSnapshot, Plan
from inference.types import FinishReason, GenerationRequest, GenerationStats
from lsp_server.ahead import Ahead
from lsp_server.desk import Desk
from lsp_server.generation import Generation, Said
from lsp_server.offer import as_if_selected, is_single_line_place, offers, why_empty
from lsp_server.reply import ReplyRules, decide, rules_for
from lsp_server.trace import Record
from lsp_server.types import Completion, CompletionQuery, Superseded
from lsp_server.uris import is_on_disk


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


class Session:
    def __init__(self) -> None:
        self._plan: Plan | None = None
        self._generation: Generation | None = None
        self.ahead = Ahead()
        self._live: list[Live] = []
        self._choosing = asyncio.Lock()  # two requests for the same place find or begin one generation, not two

    async def complete(self, query: CompletionQuery, desk: Desk, record: Record) -> Completion:
        """Answer one request, and record what it cost."""
        adopt_s = desk.config.server.adopt_ms / 1000
        for older in [live for live in self._live if live.is_ended_by(query)]:
            self._live.remove(older)
            older.supersede()
            # here, not where the older request wakes up: by then this one may have adopted its generation
            self._park(adopt_s)
        live = Live(query)
        self._live.append(live)
        live.task = asyncio.ensure_future(self._answer(live, query, desk, record))
        try:
            ends: set[asyncio.Future[Any]] = {live.task, live.superseded}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if live.superseded.done():
                record.reason = "superseded by a newer request"
                raise Superseded
            completion = live.task.result()
            record.phases.lap("deliver")
            return completion
        except asyncio.CancelledError:
            record.reason = "cancelled by the editor"
            live.task.cancel()
            if live in self._live:
                self._live.remove(live)
                self._park(adopt_s)
            raise
        finally:
            if live in self._live:
                self._live.remove(live)
            if live.generation is not None and live.generation is not self._generation and not self._is_read(live.generation):
                live.generation.cancel()  # replaced while this one read it

    @property
    def is_answering(self) -> bool:
        return bool(self._live)

    def changed(self, snapshot: DocumentSnapshot, edits: tuple[Edit, ...], cursor: int) -> None:
        """The document was edited: plans keep their place in it. Whether they still hold is decided when they are used.

        cursor: where it is now, as far as anybody knows.
        """
        for edit in edits:
            if self._generation is not None:
                self._generation.plan = shift(self._generation.plan, edit)
            if self._plan is not None:
                self._plan = shift(self._plan, edit)
        self.ahead.changed(snapshot, edits, cursor)

    async def warm(self, snapshot: DocumentSnapshot, cursor: int | None, desk: Desk, why: str) -> float | None:
        """See `Ahead.warm`."""
        return await self.ahead.warm(snapshot, cursor, self._plan, desk, why)

    def forget_plan(self) -> None:
        """Settings changed: plan anew."""
        self._plan = None
        self.ahead.forget()

    def rest(self) -> None:
        """Another document is asked about: what goes on here would only slow that down. What is resident stays."""
        if self.is_answering:
            return
        if self._generation is not None:
            self._generation.cancel()
        self.ahead.stop()

    def close(self) -> None:
        if self._generation is not None:
            self._generation.cancel()
        self.ahead.stop()
        for live in self._live:
            live.supersede()
        self._live.clear()

    def _park(self, adopt_s: float) -> None:
        if self._generation is not None and not self._is_read(self._generation):
            self._generation.park(adopt_s)

    def _is_read(self, generation: Generation) -> bool:
        return any(live.generation is generation for live in self._live)

    # -- one request

    async def _answer(self, live: Live, query: CompletionQuery, desk: Desk, record: Record) -> Completion:
        if desk.config.server.debounce_ms and not query.invoked:
            await asyncio.sleep(desk.config.server.debounce_ms / 1000)
            record.phases.lap("queue")
        snapshot, offset = as_if_selected(query)
        single_line = is_single_line_place(snapshot.text, offset)
        n = desk.config.server.n_candidates if query.invoked and not query.is_plain else 1
        async with self._choosing:
            generation = self._generation
            if generation is not None and self._is_usable(generation, snapshot, offset, desk, single_line, n):
                record.source = "adopted" if generation.is_parked else "typed through"
                generation.adopt()
                record.phases.lap("assemble")
            else:
                generation = await self._begin(snapshot, offset, desk, record, n, first_line=single_line and n > 1)
            live.generation = generation
        rules = rules_for(
            invoked=query.invoked,
            single_line=single_line and n == 1,  # several are compared when all have ended
            asked=query.received,
            deadline_ms=desk.config.server.reply_deadline_ms,
            n_new=generation.n_ahead,
            ms_per_token=desk.client.costs().prefill_ms_per_token,
            cold_budget_ms=desk.config.context.cold_budget_ms,
        )
        typed = to_prompt(snapshot.text.slice(generation.plan.anchor, offset), generation.plan.anchor == 0)
        first = await _read(generation, typed, rules, desk, record)
        items = offers(generation.said(typed) if n > 1 else (first,), query, snapshot, offset)
        record.n_offered = len(items[0].text) if items else 0
        record.reason = "" if items else generation.error or why_empty(first.rest, first.is_whole)
        record.phases.lap("postprocess")
        return Completion(generation.request_id, items, record.reason)

    def _is_usable(
        self, generation: Generation, snapshot: DocumentSnapshot, offset: int, desk: Desk, single_line: bool, n: int
    ) -> bool:
        """Does what was generated agree with what was typed since, and does it, or will it, say more than that? n: candidates
        wanted."""
        server = desk.config.server
        if generation.n_candidates < n:
            return False
        if generation.n_candidates > n and generation.is_running and not self._is_read(generation):
            return False  # a keystroke does not wait for steps that others ride in; its tokens are resident
        if not self._is_read(generation) and not (server.adopt_ms > 0 if generation.is_parked else server.typed_through):
            return False
        if generation.is_ending or generation.finish in (FinishReason.CANCELLED, FinishReason.ERROR):
            return False
        plan = generation.plan
        if offset < plan.anchor or check(plan, snapshot, offset)[0] is Fit.REPLAN:
            return False
        typed = to_prompt(snapshot.text.slice(plan.anchor, offset), plan.anchor == 0)
        first = generation.remainder(typed)
        if first is None or generation.is_running:
            return first is not None
        rests = [said.rest for said in (generation.said(typed) if n > 1 else (first,))]
        return any((rest.split("\n", 1)[0] if single_line else rest).strip() for rest in rests)

    async def _begin(
        self, snapshot: DocumentSnapshot, offset: int, desk: Desk, record: Record, n: int, *, first_line: bool
    ) -> Generation:
        """Plan, and start a new generation in place of the old one."""
        seconds = desk.tokenizer.seconds
        planned = await desk.planner.choose(snapshot, offset, self._plan, self.ahead.plan, desk.pool)
        record.phases.split("assemble", {"tokenize": (desk.tokenizer.seconds - seconds) * 1000})
        self._plan = planned.plan
        prompt = planned.prompt
        request = GenerationRequest(
            desk.client.next_id(), prompt.tokens, prompt.heal, desk.config.server.max_tokens, n_candidates=n,
            first_line=first_line, is_private=not is_on_disk(snapshot.doc_id),
        )  # fmt: skip
        earn = partial(_earn, desk, desk.clock())
        stream = desk.client.submit(request)
        generation = Generation(request.request_id, planned.plan, prompt.typed, planned.n_new, stream, n, earn)
        # submitted before the old one is cancelled: what the engine evaluates for both is then not thrown away
        if self._generation is not None and not self._is_read(self._generation):
            self._generation.cancel()
        self.ahead.overtaken(prompt.tokens)
        self._generation = generation
        record.source, record.n_new = "generated", planned.n_new
        record.layout, record.anchor, record.heal = planned.plan.layout.name, planned.plan.anchor, prompt.heal
        record.pieces, record.notes = prompt.pieces, (*planned.notes, *planned.plan.notes)
        if planned.prepare:
            record.notes += (f"preparing: {planned.prepare}",)
            self.ahead.prepare(snapshot, offset, self._plan, desk, planned.prepare)
        return generation


def _earn(desk: Desk, began: float, stats: GenerationStats) -> None:
    """What was evaluated for somebody who waited, the background may evaluate as well."""
    desk.allowance.ledger.earn(began, desk.clock(), stats.n_rows)


async def _read(generation: Generation, typed: bytes, rules: ReplyRules, desk: Desk, record: Record) -> Said:
    """Wait until there is an answer; what the first candidate says beyond `typed` by then."""
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
