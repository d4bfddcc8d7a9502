"""Which drafts ride in a step: the sources asked in the order of what they cost, the controller's judgement, and what was
learnt.

Owns, for each run, the texts that its drafts come from. Refuses the backend and the cache: the engine puts the rows through the
model and says how many of them stand. A draft is given only

- behind the whole path of a run that says something, and never beyond what it may still say, nor beyond the context;
- as far as it goes on with the bytes that are to be healed, and not beyond a token that would end the text;
- where no other request in the step, of its rank or above, waits for its first byte: that one would wait longer.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence

from inference.backend import Vocab
from inference.costs import CostTable
from inference.drafts.chunks import Chunks
from inference.drafts.controller import Controller, Judgement
from inference.drafts.draft import ComputedSource, Draft, Source
from inference.drafts.found import Lookup, Previous
from inference.drafts.trail import Trail
from inference.healing import HealingIndex
from inference.prompt_cache.partner import Partner
from inference.run import Run
from inference.types import DraftFigures

LONGEST = 48  # tokens of a draft
_LONGEST_COMPUTED = 16

Batch = Sequence[tuple[Run, int]]  # runs of a step, and how many rows of its path each has


class Drafting:
    """sources: tried for each run, cheapest first. computed: a draft model, tried where none of these pays. forced: drafts of
    so many tokens always, whatever they cost; 0: the controller decides."""

    def __init__(
        self,
        vocab: Vocab,
        table: CostTable,
        healing: HealingIndex,
        *,
        chunks: Chunks | None = None,
        sources: Sequence[Source] | None = None,
        computed: ComputedSource | None = None,
        forced: int = 0,
    ) -> None:
        self.chunks = Chunks(0) if chunks is None else chunks  # an empty one is falsy
        self.controller = Controller(table)
        self.computed = computed
        self._vocab = vocab
        self._table = table
        self._forced = forced
        self._sources: Sequence[Source] = (Previous(healing), Lookup(healing)) if sources is None else tuple(sources)
        self._trails: weakref.WeakKeyDictionary[Run, Trail] = weakref.WeakKeyDictionary()
        self._watched: weakref.WeakKeyDictionary[Run, tuple[int, list[Draft]]] = weakref.WeakKeyDictionary()
        self._is_stopped = False
        self.partner: Partner | None = None  # what saves the draft model's states
        self.why_not_computed = ""  # why there is no draft model though one was asked for

    @property
    def figures(self) -> tuple[DraftFigures, ...]:
        return self.controller.figures

    def stop(self) -> None:
        """No more drafts: this model could not drop those that did not stand."""
        self._is_stopped = True

    def listen(self, is_hurried: Callable[[], bool]) -> None:
        """is_hurried: somebody has come; what computes a draft ends then."""
        if self.computed is not None:
            self.computed.is_hurried = is_hurried

    def close(self) -> None:
        if self.computed is not None:
            self.computed.close()

    def drafts(self, batch: Batch, *, n_room: int, n_ctx: int) -> list[Draft | None]:
        """For each run of the step a draft behind its rows, or None. n_room: rows that may be added in all."""
        n_rows = sum(n for _, n in batch)
        self.controller.begin_step()
        out: list[Draft | None] = []
        for run, n in batch:
            most = 0 if self._is_stopped else min(self._most(run, n, batch, n_ctx), n_room)
            draft = self._draft(run, n, n_rows, most) if most > 0 else None
            if draft is not None:
                n_rows += len(draft.tokens)
                n_room -= len(draft.tokens)
            out.append(draft)
        return out

    def checked(self, batch: Batch, drafts: Sequence[Draft | None], n_right: Sequence[int]) -> None:
        """The step is done: so many tokens of each draft stand."""
        n_rows = sum(n for _, n in batch)
        if any(run.pos >= run.n_prompt for run, _ in batch):
            self.controller.stepped(n_rows)
        for (_, n), draft, n_good in zip(batch, drafts, n_right, strict=True):
            if draft is not None:
                self.controller.learn(draft, n_good, n_rows, n)
                n_rows += len(draft.tokens)

    def unused(self, drafts: Sequence[Draft | None]) -> None:
        """The step came to nothing, and so did what making these took."""
        for draft in drafts:
            if draft is not None and draft.ms:
                self.controller.lost(draft.source, draft.ms)

    def _most(self, run: Run, n: int, batch: Batch, n_ctx: int) -> int:
        """How many tokens may be drafted for it at all."""
        request = run.request
        if request.n_max == 0 or run.pos + n < len(run.path):
            return 0
        if any(_waits_beside(other, run) for other, _ in batch):
            return 0
        left = request.n_max - run.n_generated - 1 + len(run.rest)  # the step itself brings one, without a draft
        return min(LONGEST, left, n_ctx - len(run.path) - 1)

    def _draft(self, run: Run, n_own: int, n_rows: int, most: int) -> Draft | None:
        best: Draft | None = None
        judged = Judgement(0.0, 0)
        if self._sources:
            trail = self._trail(run)
            found = [self._fitting(run, source.propose(run, trail, most)) for source in self._sources]
            proposals = [draft for draft in found if draft is not None]
            if self._forced and proposals:
                return proposals[0].cut(self._forced)
            self._watch(run, proposals)
            if proposals:
                judgements = [self.controller.judge(draft, n_rows, n_own) for draft in proposals]
                i = max(range(len(proposals)), key=lambda i: judgements[i].gain)
                best, judged = proposals[i], judgements[i]
        is_reading = self.partner is not None and self.partner.is_reading
        if self.computed is not None and not self.computed.is_lost and judged.gain <= 0 and not is_reading:
            draft = self._computed(self.computed, run, n_rows, min(most, _LONGEST_COMPUTED))
            if draft is not None:
                return draft
        if best is None or self._forced:
            return None
        n = self.controller.decide(best, judged, n_rows)
        if not n:
            return None
        at, proposals = self._watched[run]
        self._watched[run] = (
            at,
            [draft for draft in proposals if draft is not best],
        )  # that one is learnt from when it is checked
        return best.cut(n)

    def _computed(self, source: ComputedSource, run: Run, n_rows: int, most: int) -> Draft | None:
        if self._forced:
            return self._used(source.draft(run, min(most, self._forced), lambda n, held: True), run, n_rows)
        if not run.priority.is_foreground:
            return None
        controller = self.controller
        start = source.cost_of_start(run)
        gain, n, token_ms = controller.outlook(source.name, source.step_ms, n_rows, most)
        can_begin = self._can_lose(source, start, 1, n_rows)
        if gain * (run.request.n_max - run.n_generated) / (1 + n) > start and can_begin:
            return self._used(source.draft(run, most, self._worth(source, start, n_rows, token_ms)), run, n_rows)
        if can_begin and controller.passed(source.name):
            return self._used(source.draft(run, 1, lambda n, held: True), run, n_rows)
        return None

    def _used(self, made: Draft, run: Run, n_rows: int) -> Draft | None:
        """What of it can be tried; if that is nothing, its cost is lost."""
        draft = self._fitting(run, made)
        if draft is None:
            self.controller.lost(made.source, made.ms)
        else:
            self.controller.stakes(draft, n_rows)
        return draft

    def _can_lose(self, source: ComputedSource, start: float, n: int, n_rows: int) -> bool:
        """May a draft of n tokens be made, should none of it be right?"""
        added = self._table.cost(n_rows + n) - self._table.cost(n_rows)
        return self.controller.allows(start + n * source.step_ms + added)

    def _worth(self, source: ComputedSource, start: float, n_rows: int, token_ms: float) -> Callable[[int, float], bool]:
        """token_ms: what a token is worth."""
        table = self._table

        typical = self.controller.typical(source.name)

        def worth(n: int, held: float) -> bool:
            added = table.cost(n_rows + n + 1) - table.cost(n_rows + n)
            is_worth = min(held, typical**n) * typical * token_ms > source.step_ms + added
            return is_worth and self._can_lose(source, start, n + 1, n_rows)

        return worth

    def _watch(self, run: Run, proposals: list[Draft]) -> None:
        """What was proposed at the path's end before, and not tried, is compared with what was chosen there."""
        at, before = self._watched.pop(run, (0, []))
        if at < len(run.path):
            for draft in before:
                self.controller.watched(draft.source, draft.grades[0], is_right=draft.tokens[0] == run.path[at])
        self._watched[run] = (len(run.path), proposals)

    def _trail(self, run: Run) -> Trail:
        trail = self._trails.get(run)
        if trail is None:
            request = run.request
            trail = self._trails[run] = Trail(
                request.tokens, self._vocab.fim, self._vocab.stop_tokens, self.chunks.get(request.chunks), request.previous
            )
        trail.follow(run.path)
        return trail

    def _fitting(self, run: Run, draft: Draft | None) -> Draft | None:
        """As much of it as the run could choose at all, and needs to have looked behind."""
        if draft is None or not draft.tokens:
            return None
        rest, only_line = run.rest, run.request.first_line
        pieces, stops = self._vocab.pieces, self._vocab.stop_tokens
        n_known = len(pieces)
        for n, token in enumerate(draft.tokens):
            if not 0 <= token < n_known or token in stops:
                return draft.cut(n) if n else None
            if not (rest or only_line):
                continue
            piece = pieces[token]
            if rest and not (piece and (piece.startswith(rest) or rest.startswith(piece))):
                return draft.cut(n) if n else None
            if only_line and b"\n" in piece[len(rest) :]:
                return draft.cut(n) if n else None
            rest = rest[len(piece) :]
        return draft


def _waits_beside(other: Run, run: Run) -> bool:
    """Does it wait for its first byte, and would wait longer for this run's draft?"""
    return other.request_id != run.request_id and not other.has_byte and other.priority <= run.priority
