"""What a document will need next: at most one prompt that is prefilled in the background.

Owns what is under way, what is resident and not yet used, and the last word on it for `midfill.explain`. Nothing is prepared
twice; what no longer fits the text is cancelled. Knows nothing of when to do so: requests (`session`) and quiet moments
(`warmup`) decide that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from context.plan import Fit, check, shift
from context.text import Edit
from context.types import DocumentSnapshot, Plan
from inference.types import Priority
from lsp_server.desk import Desk
from lsp_server.plans.planning import MIN_COLD_TOKENS
from lsp_server.uris import is_on_disk
from lsp_server.warm.preparation import Preparation

_SHARED = 32  # fewer tokens than this in common may have to be evaluated again: the engine does not share them
BUDGET = "the background had its share of this minute"


class Ahead:
    def __init__(self) -> None:
        self._preparation: Preparation | None = None
        self.plan: Plan | None = None  # the last one whose prompt became resident in full: the next request may use it
        self._planning: asyncio.Task[float | None] | None = None
        self._told: tuple[float, str] | None = None
        self._current: Plan | None = None  # the plan in use when something was warmed last
        self._is_private = True  # the document is no file of this disk: nothing of it is written there

    @property
    def running(self) -> Preparation | None:
        ahead = self._preparation
        return ahead if ahead is not None and ahead.is_running else None

    @property
    def is_busy(self) -> bool:
        """Something is being planned or prefilled."""
        return self._is_planning or self.running is not None

    async def quiet(self) -> None:
        """Until nothing is being planned or prefilled. Cancelling this ends nothing."""
        while self.is_busy:
            if self._planning is not None and not self._planning.done():
                await asyncio.wait({self._planning})
            if self.running is not None:
                await self.running.wait()

    def note(self, now: float) -> str:
        """What was warmed, or why not, and how long ago."""
        if self.running is not None:
            return f"{self.running.why}: {len(self.running.tokens)} prompt tokens are being prefilled"
        return "" if self._told is None else f"{self._told[1]}, {now - self._told[0]:.1f} s before"

    def tell(self, now: float, note: str) -> None:
        self._told = (now, note)

    # -- what happens to the document

    def changed(self, snapshot: DocumentSnapshot, edits: tuple[Edit, ...], cursor: int) -> None:
        """cursor: where it is now, as far as anybody knows."""
        if self._is_planning:
            self._stop_planning()  # for a text that is gone
        for edit in edits:
            if self.plan is not None:
                self.plan = shift(self.plan, edit)
            if self._preparation is not None and self._preparation.plan is not None:
                self._preparation.plan = shift(self._preparation.plan, edit)
        running = self.running
        if running is not None and running.plan is not None and check(running.plan, snapshot, cursor)[0] is Fit.REPLAN:
            self._drop()

    def overtaken(self, tokens: tuple[int, ...]) -> None:
        """A request was submitted, with this prompt: what it evaluates itself needs no background any more, nor is a beginning
        of use, now that the cursor is known."""
        running = self.running
        if running is not None and (running.plan is None or running.tokens == tokens[: len(running.tokens)]):
            self._drop()

    def stop(self) -> None:
        """Cancel what is under way; what is resident stays."""
        self._stop_planning()
        if self.running is not None:
            self._drop()

    def forget(self) -> None:
        self.stop()
        self.plan = self._current = None

    # -- preparing

    def prepare(self, snapshot: DocumentSnapshot, offset: int, current: Plan | None, desk: Desk, why: str) -> None:
        """Prefill the full prompt for this place, unless that is under way. Returns at once."""
        if self._is_planning:
            return
        self._is_private = not is_on_disk(snapshot.doc_id)
        running = self.running
        if running is not None and running.plan is not None and check(running.plan, snapshot, offset)[0] is Fit.KEEP:
            return
        self._drop()
        self._planning = asyncio.ensure_future(self._prefill_full(snapshot, offset, current, desk, why))

    async def warm(
        self, snapshot: DocumentSnapshot, offset: int | None, current: Plan | None, desk: Desk, why: str
    ) -> float | None:
        """Prefill what the next key needs, then the larger or newer prompt that would be better; returns when that is resident.

        offset: the cursor; None: nobody knows. current: the plan in use. Returns the seconds after which more is allowed, None
        if nothing is left to do. Cancelling this ends no prefill.
        """
        self._is_private, self._current = not is_on_disk(snapshot.doc_id), current
        if self._planning is not None:
            await asyncio.wait({self._planning})
        running = self.running
        if running is not None:
            if offset is None or (running.plan is not None and check(running.plan, snapshot, offset)[0] is Fit.KEEP):
                await running.wait()
            else:
                self._drop()
        if refusal := await desk.allowance.refusal(desk.config.server.background):
            self.tell(desk.clock(), f"not warmed {why}: {refusal}")
            return None
        if offset is None:
            return await self._warm_head(snapshot, desk, why)
        left = desk.allowance.left(desk.client, desk.clock(), desk.planner.n_full)
        planned = await desk.planner.choose(
            snapshot, offset, current, self.plan, desk.pool, n_allowed=max(left, MIN_COLD_TOKENS)
        )
        wait_s = await self._prefill(planned.plan, planned.prompt.tokens, Priority.PREFETCH, desk, why)
        if self.running is not None:
            await self.running.wait()
        if wait_s is None and planned.prepare:
            wait_s = await self._prefill_full(snapshot, offset, planned.plan, desk, f"{why} ({planned.prepare})")
            if self.running is not None:
                await self.running.wait()
        return wait_s

    async def keep(self, snapshot: DocumentSnapshot, offset: int, desk: Desk, why: str) -> None:
        """Let the prompt of another place in the document be resident, too, besides what was warmed last: somebody was at
        work there and may come back. Any request ends it."""
        if await desk.allowance.refusal(desk.config.server.background):
            return
        outlook = desk.planner.outlook(snapshot)
        loop = asyncio.get_running_loop()
        plan = await loop.run_in_executor(desk.pool, desk.planner.full_plan, snapshot, offset, self._current, outlook)
        tokens = desk.planner.render(plan, snapshot, offset).tokens
        await self._prefill(None, desk.planner.lasting(plan, tokens), Priority.BACKGROUND, desk, why)
        if self.running is not None:
            await self.running.wait()

    async def _warm_head(self, snapshot: DocumentSnapshot, desk: Desk, why: str) -> float | None:
        outlook = desk.planner.outlook(snapshot)
        tokens = await asyncio.get_running_loop().run_in_executor(desk.pool, desk.planner.head, snapshot, outlook)
        if len(tokens) < MIN_COLD_TOKENS:
            self.tell(desk.clock(), f"not warmed {why}: where the cursor is decides what the prompt begins with")
            return None
        wait_s = await self._prefill(None, tokens, Priority.BACKGROUND, desk, why)
        if self.running is not None:
            await self.running.wait()
        return wait_s

    async def _prefill_full(
        self, snapshot: DocumentSnapshot, offset: int, current: Plan | None, desk: Desk, why: str
    ) -> float | None:
        if refusal := await desk.allowance.refusal(desk.config.server.background):
            self.tell(desk.clock(), f"not warmed {why}: {refusal}")
            return None
        loop = asyncio.get_running_loop()
        outlook = desk.planner.outlook(snapshot)
        plan = await loop.run_in_executor(desk.pool, desk.planner.full_plan, snapshot, offset, current, outlook)
        tokens = desk.planner.render(plan, snapshot, offset).tokens
        return await self._prefill(plan, tokens, Priority.BACKGROUND, desk, why)

    async def _prefill(
        self, plan: Plan | None, tokens: tuple[int, ...], priority: Priority, desk: Desk, why: str
    ) -> float | None:
        """Submit what is not resident of a prompt, if the budget allows; else the seconds after which it does."""
        if plan is not None and len(lasting := desk.planner.lasting(plan, tokens)) < len(tokens):
            plan, tokens = None, lasting
        n_known = await desk.client.n_reusable(tokens)
        n_new = len(tokens) - (n_known if n_known >= min(_SHARED, len(tokens)) else 0)
        if not n_new:
            self.plan = plan or self.plan
            self.tell(desk.clock(), f"{why}: all {len(tokens)} prompt tokens were in the cache")
            return None
        n_full = max(desk.planner.n_full, len(tokens))
        wait_s = desk.allowance.wait_s(desk.client, n_new, desk.clock(), n_full)
        if wait_s > 0:
            self.tell(desk.clock(), f"not warmed {why}: {BUDGET} ({n_new} tokens are to be evaluated)")
            return wait_s
        ended = partial(self._ended, desk.clock)
        self._preparation = Preparation.begin(
            plan, tokens, n_new, priority, desk, why, ended, private=self._is_private
        )  # fmt: skip
        return None

    def _ended(self, clock: Callable[[], float], ahead: Preparation) -> None:
        done = f"{ahead.stats.n_evaluated} of {len(ahead.tokens)} prompt tokens prefilled"
        self.tell(clock(), f"{ahead.why}: {done}" + ("" if ahead.is_resident else ", then it was ended"))
        if ahead is self._preparation:
            self._preparation = None
            if ahead.is_resident and ahead.plan is not None:
                self.plan = ahead.plan

    @property
    def _is_planning(self) -> bool:
        return self._planning is not None and not self._planning.done()

    def _stop_planning(self) -> None:
        if self._planning is not None:
            self._planning.cancel()
            self._planning = None

    def _drop(self) -> None:
        if self._preparation is not None:
            self._preparation.cancel()
            self._preparation = None
