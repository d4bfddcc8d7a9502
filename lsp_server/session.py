"""One document's completions: one live request of each kind, one generation, one plan, and what is prepared (`ahead`).

Owns supersession, parking and adopting, and typed-through reuse. Lives on the event loop; nothing here blocks it.

A request ends in exactly one of three ways: it returns a Completion, it raises Superseded (a newer one came), or it is
cancelled from outside. In the last two its generation is parked, not ended: the editor usually asks again within
milliseconds with a text that agrees. A client that asks for both kinds at the same place gets both answers from one generation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from context.plan import Fit, check, shift
from context.text import Edit, Text
from context.types import DocumentSnapshot, Plan
from inference.types import FinishReason, GenerationRequest, GenerationStats
from lsp_server.answers.enough import Wants
from lsp_server.answers.generation import Generation
from lsp_server.answers.live import Live, read
from lsp_server.answers.offer import as_if_selected, judge_of, offers, wants_line
from lsp_server.answers.reply import rules_for
from lsp_server.asking.reluctance import Kind, place_of
from lsp_server.asking.timing import Timing, around
from lsp_server.asking.trigger import LastEdit, last_edit
from lsp_server.desk import Desk
from lsp_server.learning.outcome import Following, Outcome
from lsp_server.plans.draft_material import DraftMaterial
from lsp_server.rules.confidence import n_wanted, silent_below
from lsp_server.trace import Record
from lsp_server.types import Completion, CompletionQuery, Superseded
from lsp_server.uris import is_on_disk
from lsp_server.warm.ahead import Ahead
from lsp_server.warm.prefetch import Prefetch


class Session:
    """tell: is told what became of each item."""

    def __init__(self, tell: Callable[[Outcome, Outcome | None], None] = lambda outcome, corrects: None) -> None:
        self._plan: Plan | None = None
        self._generation: Generation | None = None
        self.ahead = Ahead()
        self.prefetch = Prefetch()
        self.following = Following(tell)
        self._material = DraftMaterial()
        self._live: list[Live] = []
        self._choosing = asyncio.Lock()  # two requests for the same place find or begin one generation, not two
        self._is_closed = False
        self._text: Text | None = None  # as last reported
        self._last_edit: LastEdit | None = None

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
            self._follow(query, completion, live.generation, desk)
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

    def _follow(self, query: CompletionQuery, completion: Completion, generation: Generation | None, desk: Desk) -> None:
        """What becomes of the answer, and what would follow it."""
        self.following.asked(query.offset, desk.clock())
        if not completion.items or generation is None or query.selected is not None or self._text is not query.snapshot.text:
            return
        item, text = completion.items[0], query.snapshot.text
        generation.is_shown()
        kind = Kind(query.snapshot.language, "block" if "\n" in item.text else "line", place_of(*around(text, query.offset)))
        self.following.offered(completion.request_id, item, text, query.offset, kind, desk.clock())
        self.prefetch.answered(query.snapshot, item, generation, self._plan, self.ahead, desk)

    @property
    def is_answering(self) -> bool:
        return bool(self._live)

    def opened(self, snapshot: DocumentSnapshot) -> None:
        self._text = snapshot.text

    def changed(self, snapshot: DocumentSnapshot, edits: tuple[Edit, ...], cursor: int, now: float) -> LastEdit | None:
        """The document was edited: plans keep their place in it. Whether they still hold is decided when they are used.

        cursor: where it is now, as far as anybody knows. Returns what was done.
        """
        if self._text is not None and (last := last_edit(self._text, edits)) is not None:
            is_accepted = self.following.is_open and self.following.edited(self._text, edits, now)
            self._last_edit = replace(last, is_accepted=is_accepted)
        self._text = snapshot.text
        self.prefetch.changed(snapshot.text, self._last_edit)
        for edit in edits:
            if self._generation is not None:
                self._generation.plan = shift(self._generation.plan, edit)
            if self._plan is not None:
                self._plan = shift(self._plan, edit)
        self.ahead.changed(snapshot, edits, cursor)
        return self._last_edit

    async def warm(self, snapshot: DocumentSnapshot, cursor: int | None, desk: Desk, why: str) -> float | None:
        """See `Ahead.warm`."""
        return await self.ahead.warm(snapshot, cursor, self._plan, desk, why)

    def forget_plan(self) -> None:
        """Settings changed: plan anew, and generate anew."""
        self._plan = None
        if self._generation is not None and not self._is_read(self._generation):
            self._generation.cancel()
            self._generation = None
        self.prefetch.stop()
        self.ahead.forget()

    def rest(self) -> None:
        """Another document is asked about: what goes on here would only slow that down. What is resident stays."""
        if self.is_answering:
            return
        self.prefetch.stop()
        if self._generation is not None:
            self._generation.cancel()
        self.ahead.stop()

    def close(self) -> None:
        self._is_closed = True
        self.prefetch.close()
        self.following.closed()
        if self._generation is not None:
            self._generation.cancel()
        self.ahead.stop()
        self._material.stop()
        for live in self._live:
            live.supersede()
        self._live.clear()

    def _keep(self, generation: Generation, since: float, desk: Desk) -> None:
        if not self._is_closed and desk.config.server.typed_through:
            desk.learned.results.keep(generation, since)

    def _park(self, adopt_s: float) -> None:
        if self._generation is not None and not self._is_read(self._generation):
            self._generation.park(adopt_s)

    def _is_read(self, generation: Generation) -> bool:
        return any(live.generation is generation for live in self._live)

    # -- one request

    async def _answer(self, live: Live, query: CompletionQuery, desk: Desk, record: Record) -> Completion:
        snapshot, offset = as_if_selected(query)
        last = self._last_edit
        accepted = last is not None and last.is_accepted and last.end == query.offset
        single_line = wants_line(snapshot, offset, accepted=accepted)
        n = desk.config.server.n_candidates if query.invoked and not query.is_plain else 1
        wants = Wants(snapshot, offset, single_line, n, query.invoked)
        async with self._choosing:
            generation = self._known(wants, desk, record)
        timing = Timing()
        if generation is None and not query.invoked:
            shape = "line" if single_line else "block"
            costs = desk.client.costs()
            timing = desk.learned.asking.timing(query.snapshot, query.offset, self._last_edit, desk.config.server, costs, shape)
            if timing.refusal:
                record.reason = timing.refusal
                return Completion(0, (), record.reason)
            if timing.wait_s > 0:
                await asyncio.sleep(timing.wait_s)
                record.waited_ms = timing.wait_s * 1000
                record.phases.lap("queue")
        async with self._choosing:
            generation = generation or self._known(wants, desk, record) or await self._begin(wants, desk, record)
            live.generation = generation
        rules = rules_for(
            invoked=query.invoked,
            single_line=single_line and n == 1,  # several are compared when all have ended
            asked=query.received + timing.extra_s,
            deadline_ms=desk.config.server.reply_deadline_ms,
            n_new=generation.n_ahead,
            ms_per_token=desk.client.costs().prefill_ms_per_token,
            cold_budget_ms=desk.config.context.cold_budget_ms,
        )
        typed, asked = wants.typed_since(generation.plan.anchor), desk.clock()
        first = await read(generation, typed, rules, desk, record)
        if record.source == "generated" and not query.invoked:
            desk.learned.asking.pace.answered((desk.clock() - asked) * 1000)
        said, least = generation.said(typed) if n > 1 else (first,), silent_below(desk.client.model_name)
        tree, known = desk.trees.of(query.snapshot), desk.names.defined(snapshot.doc_id)
        told = offers(said, query, snapshot, offset, tree, known, self._text, least)
        generation.n_head = told.n_head or generation.n_head
        record.n_offered = len(told.items[0].text) if told.items else 0
        record.reason = "" if told.items else generation.error or told.reason
        record.notes += told.notes
        record.phases.lap("postprocess")
        return Completion(generation.request_id, told.items, record.reason)

    def _known(self, wants: Wants, desk: Desk, record: Record) -> Generation | None:
        """What says already, or is about to say, what comes here: the generation at hand, or one of before."""
        found = self._generation
        if found is not None and self._is_usable(found, wants, desk):
            record.source = "adopted" if found.is_parked else "typed through"
            found.adopt()
        elif not desk.config.server.typed_through:
            return None
        elif self.prefetch.has(wants) and (found := self.prefetch.take()) is not None:
            record.source, self._generation = "prefetched", found
        else:
            snapshot, offset = wants.snapshot, wants.offset
            pieces = desk.planner.outlook(snapshot).wanted

            def is_current(plan: Plan, since: float) -> bool:
                return desk.learned.versions.are_current(plan, since, pieces, snapshot.text)

            found = desk.learned.results.find(snapshot, offset, wants.has_enough, is_current)
            if found is None or (found.plan.limits != desk.planner.full and self._has_better(snapshot, offset, desk)):
                return None
            record.source = "prefetched" if found.request_id in self.prefetch.made else "known"
            if self._generation is not None and self._generation is not found and not self._is_read(self._generation):
                self._generation.cancel()
            self._generation = found
        record.phases.lap("assemble")
        return found

    def _is_usable(self, generation: Generation, wants: Wants, desk: Desk) -> bool:
        """Does what was generated agree with what was typed since, and does it, or will it, say more than that?"""
        server = desk.config.server
        if generation.n_candidates > wants.n and generation.is_running and not self._is_read(generation):
            return False  # a keystroke does not wait for steps that others ride in; its tokens are resident
        if not self._is_read(generation) and not (server.adopt_ms > 0 if generation.is_parked else server.typed_through):
            return False
        if generation.is_ending or generation.finish in (FinishReason.CANCELLED, FinishReason.ERROR):
            return False
        plan = generation.plan
        if wants.offset < plan.anchor or check(plan, wants.snapshot, wants.offset)[0] is Fit.REPLAN:
            return False
        return wants.has_enough(generation, wants.typed_since(plan.anchor))

    def _has_better(self, snapshot: DocumentSnapshot, offset: int, desk: Desk) -> bool:
        """A full prompt for this place is there: what a stopgap of before said is not worth repeating."""
        return any(desk.planner.is_full(plan, snapshot, offset) for plan in (self.ahead.plan, self._plan))

    async def _begin(self, wants: Wants, desk: Desk, record: Record) -> Generation:
        """Plan, and start a new generation in place of the old one."""
        snapshot, offset, n, seconds = wants.snapshot, wants.offset, wants.n, desk.tokenizer.seconds
        planned = await desk.planner.choose(snapshot, offset, self._plan, self.ahead.plan, desk.pool)
        record.phases.split("assemble", {"tokenize": (desk.tokenizer.seconds - seconds) * 1000})
        self._plan, prompt = planned.plan, planned.prompt
        request = GenerationRequest(
            desk.client.next_id(), prompt.tokens, prompt.heal, desk.config.server.max_tokens, n_candidates=n,
            first_line=wants.single_line and n > 1, is_private=not is_on_disk(snapshot.doc_id),
            n_logprobs=n_wanted(desk.client.model_name),
        )  # fmt: skip
        request, began = self._material.furnish(request, wants, self._generation, desk), desk.clock()

        def ended(stats: GenerationStats) -> None:
            # what was evaluated for somebody who waited, the background may evaluate as well
            desk.allowance.ledger.earn(began, desk.clock(), stats.n_rows)
            self._keep(generation, began, desk)

        judge = judge_of(snapshot, offset, single_line=wants.single_line, tree=desk.trees.of(snapshot))
        stream, heard = desk.client.submit(request), partial(desk.names.heard, snapshot.doc_id)
        generation = Generation(request.request_id, planned.plan, prompt.typed, planned.n_new, stream, n, ended, judge, heard)
        # submitted before the old one is cancelled: what the engine evaluates for both is then not thrown away
        if self._generation is not None and not self._is_read(self._generation):
            self._generation.cancel()
        self.prefetch.stop()
        self.ahead.overtaken(prompt.tokens)
        self._generation = generation
        record.source, record.n_new = "generated", planned.n_new
        record.layout, record.anchor, record.heal = planned.plan.layout.name, planned.plan.anchor, prompt.heal
        record.pieces, record.notes, record.state = prompt.pieces, (*planned.notes, *planned.plan.notes), planned.plan.state
        if planned.prepare:
            record.notes += (f"preparing: {planned.prepare}",)
            self.ahead.prepare(snapshot, offset, self._plan, desk, planned.prepare)
        return generation
