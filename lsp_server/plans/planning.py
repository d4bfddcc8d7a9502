"""Which prompt a request gets: the plan in use, one prepared in the background, or a new one that fits the cold budget.

Pure but for one question to the engine (what is resident). Decides; the session remembers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Protocol

from context.budget import Sizes, own_demand, zone_limits
from context.config import ContextConfig
from context.fim import render
from context.plan import Fit, check, make_plan
from context.tokens import TokenTable
from context.types import DocumentSnapshot, FileName, Layout, Limits, Plan, Prompt
from context.zones.types import ZoneLimits, Zones
from context.zones.wrapping import COMMENTS
from inference.types import Costs
from lsp_server.plans.outlook import NOTHING, Outlook

HEALING_TOKENS = 16  # room in the context window beside the prompt and max_tokens
MIN_COLD_TOKENS = 48  # a prompt smaller than this is not worth asking with
AFFORDABLE = 4  # cold budgets that the pieces of other places may cost: the background pays for them, once
NO_ZONES = Zones()
_MOST_CHOICES = 3
_BETTER = "better pieces of other places are known"


class Residency(Protocol):
    """What planning asks of an engine (`inference.clients.base.EngineClient` fits)."""

    @property
    def n_ctx(self) -> int: ...
    async def n_reusable(self, tokens: Sequence[int]) -> int: ...
    def costs(self) -> Costs: ...


@dataclass(frozen=True, slots=True)
class Planned:
    """n_new: prompt tokens that must be evaluated. prepare: why a better plan should be prepared in the background, or ""."""

    plan: Plan
    prompt: Prompt
    n_new: int
    prepare: str
    notes: tuple[str, ...]


class Planner:
    """Knows the vocabulary's token table and the limits; keeps nothing about documents."""

    def __init__(
        self,
        client: Residency,
        table: TokenTable,
        layout: Layout,
        config: ContextConfig,
        max_tokens: int,
        name_of: Callable[[str], FileName],
        outlook: Callable[[DocumentSnapshot], Outlook] | None = None,
        *,
        fill: bool = False,
    ) -> None:
        """name_of: what the model is told of a document's place, by document id. outlook: what is known around a document,
        told at once and on the event loop; None: prompts hold the document alone. fill: prompts use all of the limits
        (`context.types.Limits`), where nobody types."""
        self._client = client
        self._table = table
        self._layout = layout
        self._name_of = name_of
        self._config = config
        self._outlook = outlook
        n_total = max(16, client.n_ctx - max_tokens - HEALING_TOKENS)
        if config.prompt_tokens:
            n_total = min(n_total, max(16, config.prompt_tokens))
        self.full = Limits(n_prefix=config.prefix_tokens, n_suffix=config.suffix_tokens, n_total=n_total, fill=fill)

    def render(self, plan: Plan, snapshot: DocumentSnapshot, offset: int) -> Prompt:
        return render(plan, snapshot, offset, self._table)

    def outlook(self, snapshot: DocumentSnapshot) -> Outlook:
        """What is known around a document now. For the event loop."""
        return NOTHING if self._outlook is None else self._outlook(snapshot)

    def is_full(self, plan: Plan | None, snapshot: DocumentSnapshot, offset: int) -> bool:
        """Is this a plan without a cold budget, and still one for that place?"""
        return plan is not None and plan.limits == self.full and check(plan, snapshot, offset)[0] is not Fit.REPLAN

    def full_plan(self, snapshot: DocumentSnapshot, offset: int, previous: Plan | None, outlook: Outlook = NOTHING) -> Plan:
        """The plan without a cold budget. Takes milliseconds where much text is new: not for the event loop."""
        kept = previous if previous is not None and previous.limits == self.full else None
        return self._make(snapshot, offset, self.full, kept, outlook.wanted, outlook)

    def _make(
        self,
        snapshot: DocumentSnapshot,
        offset: int,
        limits: Limits,
        previous: Plan | None,
        zones: Zones | None,
        outlook: Outlook,
    ) -> Plan:
        file = self._name_of(snapshot.doc_id)
        return make_plan(
            snapshot, offset, limits, self._table, self._layout, file=file, previous=previous, zones=zones, tree=outlook.tree
        )  # fmt: skip

    def zone_limits(self, n_bytes: int) -> ZoneLimits:
        """Of the pieces of other places, for a document of so many bytes."""
        config = self._config
        sizes = Sizes(config.edited_tokens, config.reference_tokens, config.rolling_tokens)
        n_own = own_demand(n_bytes, config.prefix_tokens + config.suffix_tokens)
        n_affordable = self.full.n_total if config.cold_budget_ms <= 0 else AFFORDABLE * self._n_allowed()
        return zone_limits(self.full.n_total, n_own, sizes, n_affordable)

    @property
    def n_full(self) -> int:
        """Tokens of one full prompt, by the settings."""
        n_others = 0 if self._outlook is None else self.zone_limits(4 * (self.full.n_prefix + self.full.n_suffix)).n_total
        return min(self.full.n_total, self.full.n_prefix + self.full.n_suffix + self._config.typed_tokens + n_others)

    def lasting(self, plan: Plan, tokens: tuple[int, ...]) -> tuple[int, ...]:
        """What a plan's prompt has in common with that of the next key. In a layout where the prefix ends at the cursor,
        nothing behind it."""
        return tokens if plan.layout.is_healed else _up_to_prefix(plan)

    def head(self, snapshot: DocumentSnapshot, outlook: Outlook = NOTHING) -> tuple[int, ...]:
        """What prompts for this document begin with, wherever the cursor is: as far as the text before it goes. Where the
        file is longer than a prompt, the pieces of other places alone. Empty where all depends on the cursor: there are no
        such pieces, or the suffix comes first. For the planning thread."""
        order = self._layout.order
        if "suffix" in order and order.index("suffix") < order.index("prefix"):
            return ()
        plan = self._make(snapshot, len(snapshot.text), self.full, None, outlook.wanted, outlook)
        head = _up_to_prefix(plan)
        if plan.window_start == 0:
            return head
        # the last token of the pieces may be another one with what follows
        return head[: max(len(head) - plan.n_prefix + _n_front(plan) - 1, 0)] if plan.n_zones else ()

    async def choose(
        self,
        snapshot: DocumentSnapshot,
        offset: int,
        current: Plan | None,
        prepared: Plan | None,
        pool: Executor,
        n_allowed: int | None = None,
    ) -> Planned:
        """The first of these that is valid and within the cold budget: the prepared plan, the current one, a full new one,
        one with a short suffix, a small one around the cursor.

        n_allowed: tokens that may be evaluated instead, where nobody waits; what is small still fits the cold budget.
        """
        cold = self._n_allowed()
        allowed = cold if n_allowed is None else min(n_allowed, self.full.n_total)
        outlook = self.outlook(snapshot)
        wanted = outlook.wanted
        reason = "nothing planned yet"
        kept = [plan for plan in (prepared, current) if plan is not None and not _is_refused(plan, outlook)]
        if wanted is not None:
            kept.sort(key=lambda plan: plan.asked != wanted.digest)
        for plan in kept:
            fit, why = check(plan, snapshot, offset, self._table)
            if fit is Fit.REPLAN:
                reason = why
                continue
            prompt = self.render(plan, snapshot, offset)
            n_new = len(prompt.tokens) - await self._client.n_reusable(prompt.tokens)
            if len(prompt.tokens) > self.full.n_total:
                reason = "the typed part has outgrown the context"
            elif n_new > allowed:
                reason = "the prompt is no longer in the cache"
            else:
                can_move = snapshot.text.line_start(snapshot.text.line_of(offset)) > plan.anchor
                prepare = self._prepare_reason(plan, prompt, fit, why, can_move)
                if not prepare and wanted is not None and plan.asked != wanted.digest:
                    prepare = _BETTER
                return Planned(plan, prompt, n_new, prepare, ())
        loop = asyncio.get_running_loop()
        full = await loop.run_in_executor(pool, self.full_plan, snapshot, offset, current, outlook)
        choices = _choices(outlook, kept)
        absent: set[str] = set()  # pieces that the engine has nothing of
        for limits, zones in self._tries(choices, max(MIN_COLD_TOKENS, min(cold, allowed))):
            if zones is not None and zones.digest in absent:
                continue
            chosen = full
            if limits is not self.full or zones is not wanted:
                before = full if zones is wanted or limits is not self.full else current
                chosen = await loop.run_in_executor(pool, self._make, snapshot, offset, limits, before, zones, outlook)
                # the budget was for now: what is typed from here on is warm, and may go up to the context's end
                chosen = replace(chosen, limits=replace(limits, n_total=self.full.n_total))
            prompt = self.render(chosen, snapshot, offset)
            n_new = len(prompt.tokens) - await self._client.n_reusable(prompt.tokens)
            if n_new <= allowed:
                break
            if zones is not None and len(prompt.tokens) - n_new < zones.n_tokens:
                absent.add(zones.digest)
        prepare = "" if chosen.tokens == full.tokens else "a larger prompt than the cold budget allows"
        return Planned(chosen, prompt, n_new, prepare, (f"new plan: {reason}",))

    def _tries(self, choices: Sequence[Zones | None], n_small: int) -> list[tuple[Limits, Zones | None]]:
        """What to try where the full prompt is too cold: with other pieces that may be resident; a resident prefix with a short
        suffix; then all of it small, around pieces that are resident or around none."""
        known = list(choices)
        short, small = self._smaller(n_small)
        tries: list[tuple[Limits, Zones | None]] = [(self.full, zones) for zones in known]
        tries += [(short, zones) for zones in known]
        for zones in known:
            if zones is not None and zones.files:
                n_total = min(small.n_total + zones.n_tokens, self.full.n_total)
                tries.append((replace(small, n_total=n_total), zones))
        return [*tries, (small, None if known[0] is None else NO_ZONES)]

    def _n_allowed(self) -> int:
        """Tokens that may be evaluated for one request."""
        if self._config.cold_budget_ms <= 0:
            return self.full.n_total
        return max(MIN_COLD_TOKENS, int(self._config.cold_budget_ms / max(self._client.costs().prefill_ms_per_token, 1e-6)))

    def _smaller(self, allowed: int) -> tuple[Limits, Limits]:
        """Limits to try where the full prompt is too cold: a resident prefix with a short suffix; then all of it small."""
        n_total = min(allowed, self.full.n_total)
        n_suffix = min(self.full.n_suffix, n_total // 4)
        return (
            Limits(self.full.n_prefix, n_suffix, self.full.n_total),
            Limits(min(self.full.n_prefix, n_total), n_suffix, n_total, fill=True),
        )

    def _prepare_reason(self, plan: Plan, prompt: Prompt, fit: Fit, why: str, can_move: bool) -> str:
        """can_move: a new anchor would stand on a later line. In one long line it would be the same plan again."""
        if fit is Fit.MOVE_SOON:
            return why
        if can_move and prompt.n_typed > self._config.typed_tokens:
            return "much was typed since the anchor"
        return "" if plan.limits == self.full else "a larger prompt than the cold budget allowed"


def _choices(outlook: Outlook, kept: Sequence[Plan]) -> list[Zones | None]:
    """The pieces to try, the wanted ones first, each once; none where nothing is asked for."""
    if outlook.wanted is None:
        return [None]
    found: list[Zones | None] = [outlook.wanted]
    for zones in (*(plan.zones for plan in kept), *outlook.others):
        if zones is not None and len(found) < _MOST_CHOICES and all(zones.digest != each.digest for each in found if each):
            found.append(zones)
    return found


def _is_refused(plan: Plan, outlook: Outlook) -> bool:
    """It holds a piece of a file that has become private."""
    pieces = () if plan.zones is None else plan.zones.pieces
    return any(piece.source in outlook.refused for piece in pieces)


def _n_front(plan: Plan) -> int:
    """Of the prefix's tokens, those of the pieces in front of it."""
    return plan.n_zones if plan.layout.placement == COMMENTS else 0


def _up_to_prefix(plan: Plan) -> tuple[int, ...]:
    """A plan's tokens up to the prefix's last."""
    lengths = {"header": plan.n_header, "prefix": plan.n_prefix, "suffix": plan.n_suffix, "typed": 0}
    before = plan.layout.order[: plan.layout.order.index("prefix") + 1]
    return plan.tokens[: sum(lengths[entry] if isinstance(entry, str) else 1 for entry in before)]
