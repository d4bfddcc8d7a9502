"""Several candidates of one request on the strict fake: the first is what there would be alone, the others share its prompt,
are what they would be alone behind the token they part with, and cost nobody else anything."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.backend import Outcome
from inference.candidates import WINDOW
from inference.costs import CostTable
from inference.run import Run
from inference.scheduler import STARVED, Scheduler
from inference.types import Costs, FinishReason, GenerationRequest, Priority, Ranked, SamplingParams
from tests.inference.test_engine import VOCAB, Harness, alone, heals, prompt, requests, texts
from tests.inference.test_scheduler import CPU, Some
from tests.support.fake_backend import FakeBackend
from tests.support.near_tie import watch

PROMPT = prompt("def foo():\n    return ")
IDS = {piece: i for i, piece in enumerate(VOCAB.pieces)}


class Opinion(FakeBackend):
    """A model that says at each text behind the prompt what the test says, {piece: logit}; elsewhere the end."""

    def __init__(self, says: dict[bytes, dict[bytes, float]], **options: Any) -> None:
        super().__init__(VOCAB, **options)
        self.says = says

    def _predict(self, tokens: tuple[int, ...]) -> Any:
        logits = np.full(VOCAB.n_tokens, -20.0, dtype=np.float32)
        logits[VOCAB.eos] = 0.0
        for piece, logit in self.says.get(VOCAB.text(tokens[len(PROMPT) :]), {}).items():
            logits[IDS[piece]] = logit
        return logits


class Endless(FakeBackend):
    """A model that never ends by itself."""

    def _predict(self, tokens: tuple[int, ...]) -> Any:
        logits = super()._predict(tokens)
        logits[sorted(VOCAB.stop_tokens)] = -20.0
        return logits


class Ranks(Harness):
    """A harness that knows the runs of each request."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.first = watch(self.engine)

    def runs(self, request_id: int) -> list[Run]:
        candidates = self.first[request_id].candidates
        assert candidates is not None
        return candidates._runs

    def ranking(self, request_id: int) -> tuple[Ranked, ...]:
        return self.last(request_id).ranking

    def texts(self, request_id: int) -> list[str]:
        """Best first."""
        return [self.text(request_id, r.candidate) for r in self.ranking(request_id)]


def ask(request_id: int = 1, heal: bytes = b"", n_max: int = 8, n: int = 3, **options: Any) -> GenerationRequest:
    return GenerationRequest(request_id, PROMPT, heal, n_max, n_candidates=n, **options)


def ran(request: GenerationRequest, backend: FakeBackend | None = None, **options: Any) -> Ranks:
    h = Ranks(backend, **options)
    h.submit(request)
    h.drain()
    return h


def of_one(h: Ranks, request_id: int = 1) -> None:
    """Whatever was asked for, its candidates are what they have to be."""
    runs, ranking, texts = h.runs(request_id), h.ranking(request_id), h.texts(request_id)
    request = runs[0].request
    assert sum(e.finish is not None for e in h.events[request_id]) == 1
    assert len(runs) <= request.n_candidates and 0 in {r.candidate for r in ranking}
    assert len(set(texts)) == len(texts)
    told = {e.candidate for e in h.events[request_id] if e.text}
    assert told <= {r.candidate for r in ranking}, "something was told that is not among them at the end"
    means = [-math.inf if r.mean_logprob is None else r.mean_logprob for r in ranking]
    assert means == sorted(means, reverse=True)
    if request.sampling.temperature == 0 and request.sampling.repeat_penalty == 1.0:
        for run in runs[1:]:
            again(run, runs[0], h.backend)


def again(branch: Run, first: Run, backend: FakeBackend) -> None:
    """The branch is what a request alone would be whose prompt ends with the token that it parted with."""
    at = next(i for i, (a, b) in enumerate(zip(branch.path, [*first.path, -1], strict=False)) if a != b)
    request, forced = first.request, branch.path[first.n_prompt : at + 1]
    said = VOCAB.text(forced)
    n_beyond = sum(len(VOCAB.text(forced[: k + 1])) > len(request.heal) for k in range(len(forced)))
    if n_beyond >= request.n_max or (request.first_line and b"\n" in said[len(request.heal) :]):
        assert branch.path[first.n_prompt :] == forced
        return
    h = Ranks(type(backend)(VOCAB) if isinstance(backend, Endless) else None)
    h.submit(
        GenerationRequest(
            1, tuple(branch.path[: at + 1]), request.heal[len(said) :], request.n_max - n_beyond, first_line=request.first_line
        )
    )
    h.drain()
    if branch.finish in (FinishReason.CANCELLED, FinishReason.CONTEXT):
        assert h.first[1].path[: len(branch.path)] == branch.path
    else:
        assert (h.first[1].path, h.first[1].finish) == (branch.path, branch.finish)


@settings(max_examples=60, deadline=None)
@given(texts, heals, st.integers(0, 12), st.integers(2, 5), st.booleans(), st.booleans(), st.sampled_from([0.0, 0.0, 0.9]))
def test_the_first_is_what_there_would_be_alone_and_so_is_each_other(
    text, heal, n_max, n, first_line, partial, temperature
) -> None:
    sampling = SamplingParams(temperature, seed=5)
    request = GenerationRequest(1, prompt(text), heal, n_max, sampling, n_candidates=n, first_line=first_line)
    h = ran(request, FakeBackend(VOCAB, n_ctx=1024, partial=partial))
    one = GenerationRequest(1, request.tokens, heal, n_max, sampling, first_line=first_line)
    assert (h.text(1), h.last(1).finish) == alone(one)
    of_one(h)
    assert not any(h.engine.kv.sequences[i].is_branch and h.engine.kv.sequences[i].tokens for i in range(4))
    assert sum(h.engine.kv.n_freed_by(s) for s in h.engine.kv.sequences) <= len(h.runs(1)[0].path), "a branch left cells behind"


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(requests, st.integers(0, 6), st.booleans()), min_size=2, max_size=6),
    st.sampled_from([150, 1024]),
    st.lists(st.sampled_from([Outcome.OK, Outcome.OK, Outcome.ABORTED, Outcome.NO_ROOM]), max_size=8),
    st.integers(1, 3),
    st.sampled_from([0, 4]),
)
def test_in_any_interleaving_each_is_what_it_would_be_alone(plan, n_cells, outcomes, n_sequences, n_stowed) -> None:
    h = Ranks(FakeBackend(VOCAB, n_ctx=n_cells), n_sequences=n_sequences, n_stowed=n_stowed)
    h.backend.outcomes = list(outcomes)
    for i, ((tokens, heal, n_max, priority, sampling, n, first_line), n_steps, cancel) in enumerate(plan, 1):
        h.submit(GenerationRequest(i, tokens, heal, n_max, sampling, priority, max(n, 2), first_line))
        for _ in range(n_steps):
            h.step()
        if cancel:
            h.engine.cancel(i)
    h.drain()
    for i in range(1, len(plan) + 1):
        of_one(h, i)


def test_they_share_the_prompt_and_ride_in_one_step() -> None:
    h = Ranks()
    h.backend.on_decode = lambda rows: setattr(h, "now", h.now + 0.05)
    h.submit(ask(heal=b"fo", n_max=12))
    h.drain()
    runs, stats, counters = h.runs(1), h.last(1).stats, h.engine.counters()
    assert len(h.ranking(1)) == len(runs) == 3
    n_alone = ran(ask(heal=b"fo", n_max=12, n=1)).last(1).stats.n_rows
    own = sum(len(run.path) - next(i for i, t in enumerate(run.path) if t != runs[0].path[i]) for run in runs[1:])
    assert stats.n_rows <= n_alone + own
    assert counters.prompt == len(PROMPT) == stats.n_prompt == stats.n_evaluated
    assert counters.prompt + counters.healing + counters.generated == stats.n_rows
    assert max(len({row.seq for row in rows}) for rows in h.backend.decoded) == 3
    longest = max(len(run.path) - len(PROMPT) for run in runs)
    assert stats.n_steps <= 1 + longest + WINDOW, "they don't ride in one step"
    assert stats.n_steps == counters.n_steps == len(h.backend.decoded)
    assert stats.prefill_ms + stats.decode_ms == pytest.approx(50 * stats.n_steps), "a step's time counts once"


def test_they_part_within_the_healed_word_and_the_same_text_in_other_tokens_is_one() -> None:
    says = {
        b"": {b"foo": 9.0, b"for": 8.5, b"f": 8.2}, b"f": {b"o": 9.0}, b"fo": {b"o": 9.0}, b"foo": {b"()": 9.0},
        b"for": {b" in": 9.0},
    }  # fmt: skip
    h = ran(ask(heal=b"fo", n=4), Opinion(says))
    assert [VOCAB.text(run.path[len(PROMPT) :]) for run in h.runs(1)] == [b"foo()", b"for in", b"foo()"]
    assert h.texts(1) == ["o()", "r in"]
    says[b"fo"] = {b"bar": 9.0}  # behind the other split another text
    h = ran(ask(heal=b"fo", n=4), Opinion(says))
    assert sorted(h.texts(1)) == ["bar", "o()", "r in"]


def test_likely_tokens_begin_at_once_and_the_best_of_the_others_when_the_window_closes() -> None:
    chain: dict[bytes, dict[bytes, float]] = {}
    said = b""
    for k, piece in enumerate([b"value", b" total", b" name", b" item", b" list", b" open"]):
        chain[said] = {piece: 9.0}
        said += piece
        chain[said] = {}
        if k:
            chain[said[: -len(piece)]][b"=="] = 9.0 - (2.5, 2.0, 2.9, 0.1, 0.1)[k - 1]
    h = ran(ask(n=3), Opinion(chain))
    parts = {h.text(1, r.candidate) for r in h.ranking(1)} - {h.text(1)}
    # shares e^-2.5 and e^-2 of the second and third token; the fourth has e^-2.9, the fifth is behind the window
    assert parts == {"value==", "value total=="}
    chain[b"value total name"] = {b" item": 9.0, b"==": 8.5}
    h = ran(ask(n=2), Opinion(chain))
    assert [h.text(1, i) for i in (0, 1)] == ["value total name item list open", "value total name=="]
    chain[b"value"] = {b" total": 9.0, b"==": 8.5}
    assert ran(ask(n=2), Opinion(chain)).text(1, 1) == "value=="
    for pieces in chain.values():
        pieces.pop(b"==", None)
    assert len(ran(ask(), Opinion(chain)).ranking(1)) == 1, "nothing else was likely"


def test_they_stand_in_order_of_their_mean_log_probability() -> None:
    says = {
        b"": {b"value": 3.0, b"total": 2.9, b"name": 2.0},
        b"value": {b"==": 1.0, b"()": 0.9},  # unsure of what follows
        b"total": {b"()": 9.0},
        b"name": {},
    }
    h = ran(ask(n_max=2, n=3), Opinion(says))

    def logp(at: bytes, piece: bytes) -> float:
        scores = [*says[at].values(), 0.0]
        return says[at][piece] - math.log(sum(map(math.exp, scores)) + (VOCAB.n_tokens - len(scores)) * math.exp(-20))

    want = {
        "total()": (logp(b"", b"total") + logp(b"total", b"()")) / 2,
        "value==": (logp(b"", b"value") + logp(b"value", b"==")) / 2,
        "name": logp(b"", b"name"),
    }
    assert h.texts(1) == sorted(want, key=lambda text: -want[text])
    assert h.texts(1)[0] == "total()" and h.text(1) == "value=="
    assert [r.mean_logprob for r in h.ranking(1)] == pytest.approx(sorted(want.values(), reverse=True), abs=1e-4)


def test_a_token_is_as_probable_as_among_those_that_go_with_what_was_typed() -> None:
    """How sure the model is of `value` behind `val` isn't for `total` to say."""
    says = {b"": {b"value": 3.0, b"total": 9.0}, b"value": {b"()": math.log(VOCAB.n_tokens), b"==": math.log(VOCAB.n_tokens)}}
    h = ran(ask(heal=b"val", n_max=2, n=1, n_logprobs=2), Opinion(says))
    told = [(e.text, e.logprob) for e in h.events[1] if e.text]
    assert [text for text, _ in told] == ["ue", "()"]
    assert [logprob for _, logprob in told] == pytest.approx([0, -math.log(2 + 1 / VOCAB.n_tokens)], abs=1e-3)
    several = ran(ask(heal=b"val", n_max=1), Opinion(says)).ranking(1)
    assert [r.mean_logprob for r in several if r.candidate == 0] == pytest.approx([0], abs=1e-3)


@pytest.mark.parametrize(("n_max", "n_kept"), [(1, 1), (2, 2)])
def test_a_beginning_is_a_duplicate_if_it_was_cut_and_a_text_if_it_ended_there(n_max: int, n_kept: int) -> None:
    says = {b"": {b"foobar": 9.0, b"foo": 8.9}, b"foobar": {}, b"foo": {}}
    h = ran(ask(n_max=n_max), Opinion(says))
    assert [h.text(1), *(h.text(1, r.candidate) for r in h.ranking(1) if r.candidate)] == ["foobar", "foo"][:n_kept]


def test_where_the_first_says_nothing_others_may() -> None:
    says = {b"": {b"value": -0.5}, b"value": {b"()": 5.0}}
    h = ran(ask(), Opinion(says))
    assert (h.text(1), h.last(1).finish) == ("", FinishReason.STOP)
    assert h.texts(1) == ["value()", ""] and h.ranking(1)[-1].mean_logprob is None


def test_with_a_temperature_each_draws_its_own_by_the_seed() -> None:
    sampling = SamplingParams(1.0, seed=7)
    h, same = ran(ask(n=4, sampling=sampling)), ran(ask(n=4, sampling=sampling))
    other = ran(ask(n=4, sampling=SamplingParams(1.0, seed=8)))
    assert h.texts(1) == same.texts(1) != other.texts(1)
    assert len(h.texts(1)) > 2 and h.engine.counters().prompt == len(PROMPT)
    assert (h.text(1), h.last(1).finish) == alone(GenerationRequest(1, PROMPT, b"", 8, sampling))


def test_cancelled_in_the_middle_nothing_is_left() -> None:
    for n_steps in range(1, 7):
        h = Ranks(Endless(VOCAB))
        h.submit(ask(n_max=30))
        for _ in range(n_steps):
            h.step()
        h.engine.cancel(1)
        h.drain()
        assert h.last(1).finish is FinishReason.CANCELLED
        of_one(h)
        kv = h.engine.kv
        assert all(s.is_idle for s in kv.sequences) and not h.engine._runs
        assert sum(bool(s.tokens) for s in kv.sequences) == 1 and kv.n_used() <= len(h.runs(1)[0].path)


def test_one_sequence_gives_one_candidate() -> None:
    h = ran(ask(), FakeBackend(VOCAB, n_seq_max=1))
    assert len(h.ranking(1)) == 1 and (h.text(1), h.last(1).finish) == alone(ask(n=1))


@pytest.mark.parametrize("n_stowed", [0, 8])
def test_what_is_idle_is_lost_for_no_candidate(n_stowed: int) -> None:
    h = Ranks(n_stowed=n_stowed)
    others = [prompt(f"{word}\n" * 20) for word in ("class foo", "import data", "for item in list", "while not total")]
    for i, tokens in enumerate(others, 10):
        h.submit(GenerationRequest(i, tokens, n_max=0))
        h.drain()
    n_known = [h.engine.n_reusable(tokens) for tokens in others]
    h.submit(ask(n_max=4))
    h.drain()
    # the request itself takes the place of one of them, and without a store in RAM that one is lost
    assert len(h.ranking(1)) == (3 if n_stowed else 1)
    lost = [before - h.engine.n_reusable(tokens) for tokens, before in zip(others, n_known, strict=True)]
    assert sum(n > 1 for n in lost) == (0 if n_stowed else 1)


@pytest.mark.parametrize("priority", [Priority.TYPING, Priority.INVOKED, Priority.BACKGROUND])
def test_whoever_needs_a_sequence_gets_that_of_a_candidate(priority: Priority) -> None:
    h = Ranks(Endless(VOCAB), n_sequences=2)
    h.submit(ask(n_max=40, priority=Priority.INVOKED))
    while len(h.runs(1)) < 3:
        h.step()
    for i in (2, 3):
        h.submit(GenerationRequest(i, prompt("import data\n" * i), n_max=3, priority=priority))
    h.step()
    assert h.engine.stats().n_set_aside == 0 and sum(h.engine.stats().running) == 3
    h.drain()
    assert [run.finish for run in h.runs(1)[1:]] == [FinishReason.CONTEXT] * 2
    of_one(h)
    assert (h.text(1), h.last(1).finish) == alone(ask(n_max=40, n=1), Endless(VOCAB))
    for i in (2, 3):
        assert h.text(i) == alone(GenerationRequest(i, prompt("import data\n" * i), n_max=3), Endless(VOCAB))[0]


def test_where_the_cells_are_full_candidates_go_before_anybody_is_set_aside() -> None:
    h = ran(ask(n_max=40), Endless(VOCAB, n_ctx=len(PROMPT) + 44))
    assert len(h.runs(1)) == 3 and FinishReason.CONTEXT in {run.finish for run in h.runs(1)[1:]}
    assert h.last(1).finish is FinishReason.LENGTH and h.engine.stats().n_set_aside == 0
    of_one(h)


def test_none_is_longer_than_the_context() -> None:
    for n_more in (1, 2, 3):
        h = ran(ask(n_max=8), Endless(VOCAB), n_ctx=len(PROMPT) + n_more)
        assert {run.finish for run in h.runs(1)} == {FinishReason.CONTEXT} and len(h.runs(1)) == 3
        assert max(len(run.path) for run in h.runs(1)) == len(PROMPT) + n_more
        assert h.texts(1)[:1] and (h.text(1), h.last(1).finish) == (
            alone_in(GenerationRequest(1, PROMPT, n_max=8), len(PROMPT) + n_more), FinishReason.CONTEXT,
        )  # fmt: skip


def alone_in(request: GenerationRequest, n_ctx: int) -> str:
    h = Harness(Endless(VOCAB), n_ctx=n_ctx)
    h.submit(request)
    h.drain()
    return h.text(request.request_id)


def test_a_failed_context_and_a_closed_engine_answer_once() -> None:
    h = Ranks()
    h.submit(ask())
    while len(h.runs(1)) < 3:
        h.step()
    h.backend.outcomes = [Outcome.FATAL]
    h.drain()
    assert h.last(1).finish is FinishReason.ERROR and "restart" in h.last(1).error
    h = Ranks()
    h.submit(ask())
    h.step()
    h.engine.close()
    h.engine.run_forever()
    h.submit(ask(2))
    assert [h.last(i).finish for i in (1, 2)] == [FinishReason.CANCELLED] * 2 and h.backend.closed


def test_a_line_is_cut_behind_its_end() -> None:
    says = {
        b"": {b"value": 9.0, b"total": 8.5}, b"value": {b"):\n": 9.0}, b"total": {b"\n    ": 9.0}, b"total\n    ": {b"x": 9.0},
    }  # fmt: skip
    h = ran(ask(first_line=True), Opinion(says))
    assert sorted(h.texts(1)) == ["total\n", "value):\n"]
    assert {r.finish for r in h.ranking(1)} == {FinishReason.LENGTH}


def test_where_somebody_else_is_in_front_candidates_only_ride_along() -> None:
    scheduler = Scheduler(CostTable(Costs(10, 27), CPU), n_batch=512, chunk_ms=250.0, background_rows=32, can_abort=True)
    mine = [Some(Priority.INVOKED, 1, True, request_id=1, is_branch=i > 0) for i in range(3)]
    assert scheduler.plan(mine, 1e9) == [(0, 1), (1, 1), (2, 1)]
    typing = Some(Priority.TYPING, 1, True, request_id=2)
    assert scheduler.plan([*mine, typing], 1e9) == [(0, 1), (3, 1)]  # a third row would be dear: 4 cost 66 ms, 2 cost 48
    first = Some(Priority.TYPING, 3, request_id=2)
    assert scheduler.plan([*mine[1:], first], 1e9) == [(0, 1), (2, 3)]  # 4 rows are the bound for 3, too
    assert scheduler.plan([*mine, Some(Priority.TYPING, 4, request_id=2)], 1e9) == [(3, 4)]
    waited = Some(Priority.INVOKED, 1, True, STARVED, request_id=1, is_branch=True)
    assert scheduler.plan([waited, Some(Priority.TYPING, 4, request_id=2)], 1e9) == [(0, 1)]
