"""One model, and perhaps a draft of it, run over the places of a task with drafts of one kind or without.

Owns the passes: what is written at each place, in how many steps, what these cost by the table, how long they took. Everything
but the writing is done before: a prompt is in the cache when its pass begins, so a pass is made of steps that write. Counted is
by a table that stands still, so that two passes with the same steps cost the same. What is timed belongs to a session, as in
the product: tables go on learning what steps take, and what drafts were worth and have earned goes from pass to pass.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.speculation_tasks import Place
from inference.backend import Outcome, Row, Vocab
from inference.costs import CostTable
from inference.drafts.controller import Controller
from inference.drafts.draft import ComputedSource, Draft, Source
from inference.drafts.drafting import Drafting
from inference.drafts.found import LOOKUP, PREVIOUS, Lookup, Previous
from inference.drafts.model import CONFIDENT, MODEL, DraftModel
from inference.engine import Engine
from inference.healing import HealingIndex
from inference.types import GenerationRequest, TokenEvent

ALL, OFF = "controller", "off"
# tokens of each draft where a source is forced: a step of four rows where that shows enough, more where rates are told
_FORCED = {PREVIOUS: 3, LOOKUP: 3, MODEL: 6}


class StandingTable(CostTable):
    """Costs as they were measured before; steps made since change nothing."""

    def observe(self, n: int, ms: float) -> None:
        return


@dataclass
class Session:
    """What the product keeps from one request to the next. Empty: the rig's tables are where it begins."""

    tables: dict[str, CostTable] = field(default_factory=dict)
    controller: Controller | None = None

    def table(self, name: str, standing: CostTable) -> CostTable:
        if name not in self.tables:
            self.tables[name] = CostTable(standing.costs, standing.rows)
        return self.tables[name]

    def enter(self, drafting: Drafting) -> None:
        if self.controller is None:
            self.controller = drafting.controller
        drafting.controller = self.controller


@dataclass
class Priced:
    """A backend whose steps are added up by the table. Passes everything else through; `close` does nothing: it is used
    again."""

    backend: Any
    table: CostTable
    n_steps: int = 0
    cost: float = 0.0
    is_counting: bool = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)

    def decode(self, rows: Sequence[Row]) -> Outcome:
        if self.is_counting:
            self.n_steps += 1
            self.cost += self.table.cost(len(rows))
        outcome: Outcome = self.backend.decode(rows)
        return outcome

    def close(self) -> None:
        return

    def begin(self) -> None:
        for seq in range(self.backend.n_seq_max):
            self.backend.truncate(seq, 0)
        self.n_steps, self.cost = 0, 0.0


@dataclass(frozen=True)
class Pass:
    """At each place: what was written, in how many tokens and steps of the target, what these cost (ms by the tables, the
    draft's steps included), and how many seconds it took. drafted: by source, how many tokens stand and how many were drafted.
    positions: of a forced draft model's drafts, how many have reached each position with all tokens before it right, and how
    many of them were right there."""

    texts: list[str]
    tokens: list[int]
    steps: list[int]
    costs: list[float]
    clocks: list[float]
    drafted: dict[str, list[int]]
    positions: list[list[int]]

    @property
    def n_tokens(self) -> int:
        return sum(self.tokens)

    @property
    def n_steps(self) -> int:
        return sum(self.steps)

    @property
    def cost(self) -> float:
        return sum(self.costs)

    @property
    def acceptance(self) -> dict[str, float]:
        return {source: round(n_right / n, 3) for source, (n_right, n) in self.drafted.items() if n}


@dataclass
class Rig:
    """table, draft_table: of the two, standing still."""

    target: Any
    table: CostTable
    draft: Any = None
    draft_table: CostTable | None = None
    _states: dict[tuple[int, ...], bytes] = field(default_factory=dict)
    _earlier: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def sources(self) -> tuple[str, ...]:
        return (PREVIOUS, LOOKUP, MODEL) if self.draft is not None else (PREVIOUS, LOOKUP)

    def run(self, places: Sequence[Place], kind: str, session: Session | None = None) -> Pass:
        """kind: a source that is forced, ALL with the controller, or OFF. session: that it goes on with; None: it begins anew,
        and the tables stand still."""
        target = Priced(self.target, self.table if session is None else session.table("target", self.table))
        target.begin()
        draft = None
        if self.draft is not None and self.draft_table is not None:
            draft = Priced(
                self.draft, self.draft_table if session is None else session.table("draft", self.draft_table)
            )
        if draft is not None:
            draft.begin()
            draft.is_counting = True
        positions: list[list[int]] = []
        engine = self._engine(target, draft, kind, positions)
        if session is not None and engine.drafting is not None:
            session.enter(engine.drafting)
        known = _drafted(engine)
        made = Pass([], [], [], [], [], {}, positions)
        for number, place in enumerate(places, 1):
            previous = self._before(place) if kind in (PREVIOUS, ALL) else ()
            tokens = self._prompt(place.before, place.after)
            self._warm(engine, GenerationRequest(2 * number, tokens, n_max=0))
            n_steps, cost = target.n_steps, target.cost + (draft.cost if draft is not None else 0.0)
            target.is_counting, began = True, time.perf_counter()
            n_max = min(place.n_max, len(self.target.vocab.encode(place.like.encode())) if place.like else place.n_max)
            events = _drain(engine, GenerationRequest(2 * number + 1, tokens, n_max=n_max, previous=previous))
            made.clocks.append(time.perf_counter() - began)
            target.is_counting = False
            made.texts.append("".join(event.text for event in events))
            made.tokens.append(events[-1].stats.n_generated)
            made.steps.append(target.n_steps - n_steps)
            made.costs.append(target.cost + (draft.cost if draft is not None else 0.0) - cost)
        for source, (n_right, n) in _drafted(engine).items():
            right_before, before = known.get(source, (0, 0))
            made.drafted[source] = [n_right - right_before, n - before]
        return made

    def _engine(self, target: Priced, draft: Priced | None, kind: str, positions: list[list[int]]) -> Engine:
        found: dict[str, Callable[[HealingIndex], Source]] = {PREVIOUS: Previous, LOOKUP: Lookup}

        def make(vocab: Vocab, table: CostTable, healing: HealingIndex) -> Drafting:
            sources = [made(healing) for name, made in found.items() if kind in (name, ALL)]
            computed: ComputedSource | None = None
            if draft is not None and kind in (MODEL, ALL):
                # forced, it drafts on where it is not sure, too: the rates are those of all its tokens
                sure = 0.0 if kind == MODEL else CONFIDENT
                computed = DraftModel(draft, draft.table, healing, n_ctx=target.n_ctx_seq, confident=sure)
            drafting = Drafting(vocab, table, healing, sources=sources, computed=computed, forced=_FORCED.get(kind, 0))
            if kind == MODEL:
                _count_positions(drafting, positions)
            return drafting

        return Engine(
            target, n_ctx=target.n_ctx_seq, n_sequences=2, costs=target.table.costs, table=target.table,
            make_drafting=None if kind == OFF else make,
        )  # fmt: skip

    def _warm(self, engine: Engine, request: GenerationRequest) -> None:
        """Its prompt is in the cache afterwards. It is evaluated once for all passes."""
        state = self._states.get(request.tokens)
        if state is not None:
            engine.kv.bring(request.tokens, state, len(request.tokens))
        _drain(engine, request)
        if state is None:
            held = next(s for s in engine.kv.sequences if tuple(s.tokens) == request.tokens)
            saved = self.target.save(held.seq)
            assert saved is not None, "a model that drafts are checked by can be saved"
            self._states[request.tokens] = saved

    def _before(self, place: Place) -> tuple[int, ...]:
        """What was suggested at the place before its text changed: written once, by the model, without drafts."""
        if not place.earlier:
            return ()
        if place.earlier not in self._earlier:
            target = Priced(self.target, self.table)
            target.begin()
            tokens = self._prompt(place.earlier, place.after)
            events = _drain(self._engine(target, None, OFF, []), GenerationRequest(1, tokens, n_max=place.n_max))
            self._earlier[place.earlier] = self.target.vocab.encode("".join(event.text for event in events).encode())
            target.begin()
        return self._earlier[place.earlier]

    def _prompt(self, before: str, after: str) -> tuple[int, ...]:
        vocab = self.target.vocab
        parts = {"prefix": before, "suffix": after}
        tokens: list[int] = [] if vocab.bos is None else [vocab.bos[0]]
        for part in vocab.fim.psm:
            tokens += [part[0]] if isinstance(part, tuple) else vocab.encode(parts.get(part, "").encode())
        return tuple(tokens)


def _count_positions(drafting: Drafting, positions: list[list[int]]) -> None:
    learn = drafting.controller.learn

    def counted(draft: Draft, n_right: int, n_rows: int, n_own: int) -> None:
        for position in range(min(n_right + 1, len(draft.tokens))):
            if position == len(positions):
                positions.append([0, 0])
            positions[position][0] += 1
            positions[position][1] += position < n_right
        learn(draft, n_right, n_rows, n_own)

    drafting.controller.learn = counted  # type: ignore[method-assign]


def _drafted(engine: Engine) -> dict[str, tuple[int, int]]:
    figures = engine.drafting.figures if engine.drafting is not None else ()
    return {each.source: (each.n_accepted, each.n_drafted) for each in figures}


def _drain(engine: Engine, request: GenerationRequest) -> list[TokenEvent]:
    events: list[TokenEvent] = []
    engine.submit(request, events.append)
    while not events or events[-1].finish is None:
        engine.step()
    return events
