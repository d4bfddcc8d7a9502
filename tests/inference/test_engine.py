"""The engine on the strict fake: any interleaving gives each request the text it has alone, and the books are right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.backend import Outcome, Row
from inference.engine import Engine
from inference.sequence import pack
from inference.types import Costs, FinishReason, GenerationRequest, Priority, SamplingParams, TokenEvent
from tests.support.fake_backend import FakeBackend, FakeVocab
from tests.support.layouts import markers_of

COSTS = Costs(prefill_ms_per_token=8.0, step_ms=30.0)
VOCAB = FakeVocab()


class Harness:
    """An engine stepped by hand; after every step the record of each sequence equals its cells."""

    def __init__(
        self,
        backend: FakeBackend | None = None,
        *,
        n_ctx: int = 512,
        n_sequences: int = 3,
        n_stowed: int = 0,
        stow_bytes: int = 1 << 20,
    ) -> None:
        self.backend = backend or FakeBackend(VOCAB, n_ctx=1024)
        self.now = 0.0
        self.engine = Engine(
            self.backend, n_ctx=n_ctx, n_sequences=n_sequences, costs=COSTS, clock=lambda: self.now, n_stowed=n_stowed,
            stow_bytes=stow_bytes,
        )  # fmt: skip
        self.events: dict[int, list[TokenEvent]] = {}

    def submit(self, request: GenerationRequest) -> None:
        self.engine.submit(request, self.events.setdefault(request.request_id, []).append)

    def step(self) -> bool:
        busy = self.engine.step()
        self.now += 0.03
        self.check()
        return busy

    def check(self) -> None:
        for sequence in self.engine.kv.sequences:
            assert sequence.tokens == self.backend.tokens(sequence.seq)
            assert all(p < len(sequence.tokens) for p in sequence.logits)
            assert sequence.packed == pack(sequence.tokens) and len(sequence.cells) == len(sequence.packed)
        assert self.engine.kv.n_used() == self.backend.n_used()
        stowage = self.engine.kv.stowage
        assert stowage.n_bytes <= stowage.max_bytes
        for stowed in stowage.all:
            assert stowed.tokens == self.backend.saved_tokens(stowed.state)
        for events in self.events.values():
            finishes = [i for i, e in enumerate(events) if e.finish is not None]
            assert finishes in ([], [len(events) - 1])

    def drain(self) -> None:
        for _ in range(5000):
            if not self.step():
                return
        raise AssertionError("the engine never came to rest")

    def text(self, request_id: int, candidate: int = 0) -> str:
        return "".join(e.text for e in self.events[request_id] if e.candidate == candidate)

    def last(self, request_id: int) -> TokenEvent:
        return self.events[request_id][-1]


def alone(request: GenerationRequest, backend: FakeBackend | None = None) -> tuple[str, FinishReason | None]:
    h = Harness(backend)
    h.submit(request)
    h.drain()
    return h.text(request.request_id), h.last(request.request_id).finish


def prompt(text: str) -> tuple[int, ...]:
    fim = markers_of(VOCAB.fim)
    return (fim.prefix, *VOCAB.encode(text.encode()), fim.suffix, *VOCAB.encode(b"\nprint()\n"), fim.middle)


texts = st.sampled_from(
    [
        "def foo():\n    return ",
        "def foo():\n    return value\n",
        "def foo():\n" + "    value = total\n" * 20,
        "def foo():\n" + "    value = total\n" * 20 + "    return ",
        "import data\n" * 30,
        "x",
    ]
)
heals = st.sampled_from([b"", b"fo", b" foo", b"    ", b"valu", "é".encode(), b"\xf0\x9f\xa6\x8a", b"zq"])
requests = st.builds(
    lambda text, heal, n_max, priority, temperature, seed, n_candidates, first_line: (
        prompt(text), heal, 0 if priority is Priority.PREFETCH else n_max, priority,
        SamplingParams(temperature=temperature, top_p=0.9, repeat_penalty=1.1 if temperature else 1.0, seed=seed),
        n_candidates, first_line,
    ),
    texts, heals, st.integers(0, 20), st.sampled_from([Priority.TYPING, *Priority]), st.sampled_from([0.0, 0.0, 0.8]),
    st.integers(0, 3), st.sampled_from([1, 1, 1, 2, 3, 5]), st.sampled_from([False, False, False, True]),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(requests, st.integers(0, 6), st.booleans()), min_size=1, max_size=10),
    st.booleans(),
    st.sampled_from([200, 1024]),
    st.lists(st.sampled_from([Outcome.OK, Outcome.OK, Outcome.OK, Outcome.ABORTED, Outcome.NO_ROOM]), max_size=12),
    st.integers(1, 3),
    st.sampled_from([(0, 0), (2, 1 << 20), (8, 1 << 20), (8, 1500)]),
    st.integers(0, 2),
    st.booleans(),
)
def test_any_interleaving_equals_each_request_alone(
    plan, partial, n_cells, outcomes, n_sequences, stowing, n_refused, can_abort
) -> None:
    backend = FakeBackend(VOCAB, n_ctx=n_cells, partial=partial)
    backend.can_abort, backend.n_refused_restores = can_abort, n_refused
    h = Harness(backend, n_ctx=512, n_sequences=n_sequences, n_stowed=stowing[0], stow_bytes=stowing[1])
    h.backend.outcomes = list(outcomes)
    sent = []
    for i, ((tokens, heal, n_max, priority, sampling, n_candidates, first_line), n_steps, cancel) in enumerate(plan, 1):
        request = GenerationRequest(i, tokens, heal, n_max, sampling, priority, n_candidates, first_line)
        sent.append((request, cancel))
        h.submit(request)
        for _ in range(n_steps):
            h.step()
        if cancel:
            h.engine.cancel(i)
    h.drain()
    for request, cancelled in sent:
        last = h.last(request.request_id)
        want, finish = alone(replace(request, n_candidates=1))
        got = h.text(request.request_id)
        ranked = [r.candidate for r in last.ranking]
        told = [h.text(request.request_id, c) for c in ranked]
        assert len(set(ranked)) == len(ranked) == len(set(told)) <= request.n_candidates
        assert {e.candidate for e in h.events[request.request_id]} <= {0, *ranked}
        if last.finish in (FinishReason.CANCELLED, FinishReason.CONTEXT):
            # a cancelled request, or cells that are too few (or said to be): a beginning
            assert cancelled if last.finish is FinishReason.CANCELLED else n_cells == 200 or Outcome.NO_ROOM in outcomes
            assert want.startswith(got)
        else:
            assert (got, last.finish) == (want, finish)
            stats = last.stats
            assert stats.n_prompt == stats.n_reused + stats.n_evaluated == len(request.tokens)
    assert not h.engine._runs
    assert all(s.is_idle and not (s.is_branch and s.tokens) for s in h.engine.kv.sequences)
    counters = h.engine.counters()
    n_rows = sum(h.last(request.request_id).stats.n_rows for request, _ in sent)
    assert n_rows == counters.prompt + counters.healing + counters.generated + counters.background


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(sorted("foobar =()\n é")), min_size=1, max_size=25))
def test_typing_reuses_everything_and_changes_no_text(keys) -> None:
    h = Harness()
    base, typed, healed = prompt("def foo():\n" + "    value = total\n" * 8), "", ()
    for i, key in enumerate(keys, 1):
        typed += key
        cut = len(typed.rstrip("fobar"))
        request = GenerationRequest(i, base + VOCAB.encode(typed[:cut].encode()), typed[cut:].encode(), 6)
        h.submit(request)
        h.drain()
        assert h.text(i) == alone(request)[0]
        if i > 1:  # the word that was healed so far, if the key ended it, and the key
            assert h.last(i).stats.n_evaluated <= max(4, len(healed) + 2)
        healed = VOCAB.encode(typed[cut:].encode())


def test_kept_logits_answer_a_repeated_prompt_without_a_step() -> None:
    h = Harness()
    h.submit(GenerationRequest(1, prompt("def foo():\n    return "), b"fo", 5))
    h.drain()
    before = h.engine.counters()
    h.submit(GenerationRequest(2, prompt("def foo():\n    return "), b"fo", 5))
    h.drain()
    assert h.text(2) == h.text(1)
    assert h.engine.counters() == before
    assert h.last(2).stats.n_steps == 0


@pytest.mark.parametrize("n", [0, 1, 5, 31, 32, 33, 100, 255, 256, 257, 300])
def test_every_shared_length_is_found(n: int) -> None:
    h = Harness()
    a = tuple(i % 250 for i in range(300))
    h.submit(GenerationRequest(1, a, n_max=0, priority=Priority.BACKGROUND))
    h.drain()
    b = a[:n] + (251,) * 20
    assert h.engine.n_reusable(b) == n
    h.submit(GenerationRequest(2, b, n_max=1))
    h.drain()
    # too little to be worth a copy is evaluated; all else is reused
    assert h.last(2).stats.n_reused == (n if n >= 32 else 0)


def test_a_jump_keeps_the_place_it_came_from() -> None:
    h = Harness()
    here, there = prompt("import data\n" * 20), prompt("class foo:\n" * 20)
    for i, tokens in enumerate((here, there, here), 1):
        h.submit(GenerationRequest(i, tokens, n_max=2))
        h.drain()
    assert h.last(3).stats.n_evaluated <= 1


def test_typing_runs_before_background_and_background_goes_on() -> None:
    h = Harness()
    order: list[str] = []
    long = prompt("import data\n" * 40)
    background = GenerationRequest(1, long, n_max=0, priority=Priority.BACKGROUND)
    h.backend.on_decode = lambda rows: order.append("background" if len(rows) > 8 else "typing")
    h.submit(background)
    h.step()
    h.submit(GenerationRequest(2, (1, 2, 3), n_max=4))
    while not h.events[2] or h.events[2][-1].finish is None:
        h.step()
    n_typing = len(order) - 1
    assert order == ["background"] + ["typing"] * n_typing
    h.drain()
    assert h.last(1).finish is FinishReason.RESIDENT
    assert h.engine.n_reusable(long) == len(long)


def test_a_background_chunk_is_aborted_by_a_key_but_not_where_the_key_uses_it() -> None:
    for shared in (True, False):
        h = Harness()
        long = prompt("import data\n" * 40)
        h.submit(GenerationRequest(1, long, n_max=0, priority=Priority.BACKGROUND))
        key = GenerationRequest(2, long if shared else (9, 9, 9), n_max=1)
        h.backend.on_decode = lambda rows, h=h, key=key: h.submit(key) if not h.events.get(2) and 2 not in h.events else None
        h.step()
        assert bool(h.backend.decoded) is shared
        h.drain()
        assert h.last(2).finish is FinishReason.LENGTH
        assert h.last(1).finish in (FinishReason.RESIDENT, FinishReason.CANCELLED)


def test_a_cancelled_chunk_is_aborted_unless_a_waiting_request_shares_it() -> None:
    for successor in (True, False):
        h = Harness()
        long = prompt("import data\n" * 10)

        def act(rows: list[Row], h: Harness = h, long: tuple[int, ...] = long, successor: bool = successor) -> None:
            if 2 not in h.events:
                if successor:
                    h.submit(GenerationRequest(2, (*long, 7), n_max=1))
                h.events.setdefault(2, [])
                h.engine.cancel(1)

        h.submit(GenerationRequest(1, long, n_max=4))
        h.backend.on_decode = act
        h.step()
        assert bool(h.backend.decoded) is successor
        h.drain()
        assert h.last(1).finish is FinishReason.CANCELLED


@pytest.mark.parametrize("n_stowed", [0, 4])
def test_a_typing_request_takes_the_sequence_of_the_background_which_waits(n_stowed: int) -> None:
    h = Harness(n_sequences=1, n_stowed=n_stowed)
    background = prompt("class foo:\n" * 40)
    h.submit(GenerationRequest(2, background, n_max=0, priority=Priority.BACKGROUND))
    h.step()
    assert h.engine.counters().background == 32
    h.submit(GenerationRequest(1, prompt("import data\n" * 10), n_max=50))
    h.step()
    h.submit(GenerationRequest(3, prompt("for item in list:\n" * 10), n_max=3))
    h.step()
    assert h.engine.stats().n_set_aside == 1 and not h.events[2]
    h.drain()
    assert [h.last(i).finish for i in (2, 3)] == [FinishReason.RESIDENT, FinishReason.LENGTH]
    n_twice = h.engine.counters().background - len(background)
    assert n_twice == (0 if n_stowed else 31)  # all prompts begin with the same token


def test_a_refused_request_fails_alone() -> None:
    h = Harness()
    good = GenerationRequest(1, prompt("def foo():\n    return "), b"", 8)
    h.submit(good)
    h.submit(GenerationRequest(2, (1, 2, 99_999), n_max=4))
    h.drain()
    assert h.last(2).finish is FinishReason.ERROR and "refused" in h.last(2).error
    assert h.text(1) == alone(good)[0]


def test_too_long_and_empty_prompts_are_answered() -> None:
    h = Harness(n_ctx=64)
    h.submit(GenerationRequest(1, (1,) * 64, n_max=1))
    h.submit(GenerationRequest(2, (), n_max=1))
    h.submit(GenerationRequest(3, (1,) * 60, n_max=50, heal=b""))
    h.drain()
    assert "64 tokens" in h.last(1).error and "empty" in h.last(2).error
    assert h.last(3).finish in (FinishReason.CONTEXT, FinishReason.STOP)


def test_a_fatal_outcome_answers_everybody_now_and_later() -> None:
    h = Harness()
    h.backend.outcomes = [Outcome.FATAL]
    h.submit(GenerationRequest(1, (1, 2, 3)))
    h.submit(GenerationRequest(2, (4, 5, 6)))
    h.drain()
    h.submit(GenerationRequest(3, (1, 2, 3)))
    h.drain()
    assert all(h.last(i).finish is FinishReason.ERROR and "restart" in h.last(i).error for i in (1, 2, 3))


def test_generated_text_is_whole_characters_and_counts_tokens_beyond_the_cursor() -> None:
    fox = "🦊 ok".encode()
    vocab = FakeVocab(extra=[fox[:2], fox[2:4], fox[4:], b"fo"])
    for n_max, want in ((3, "🦊 ok"), (2, "🦊"), (1, "")):
        backend = FakeBackend(vocab)
        h = Harness(backend)
        tokens = (1, 2, 3)
        ids = {p: i for i, p in enumerate(vocab.pieces)}
        backend.scripts[tokens] = (ids[b"fo"], ids[fox[:2]], ids[fox[2:4]], ids[fox[4:]])
        h.submit(GenerationRequest(1, tokens, b"fo", n_max))
        h.drain()
        assert h.text(1) == want
        assert (h.last(1).stats.n_healing, h.last(1).stats.n_generated) == (1, n_max)


def test_control_tokens_end_the_text() -> None:
    for name in VOCAB.control:
        backend = FakeBackend(VOCAB)
        h = Harness(backend)
        backend.scripts[(1, 2)] = VOCAB.encode_special(f"1{name}2")
        h.submit(GenerationRequest(1, (1, 2)))
        h.drain()
        assert (h.text(1), h.last(1).finish) == ("1", FinishReason.STOP)


def test_closing_answers_what_waits() -> None:
    h = Harness()
    h.submit(GenerationRequest(1, prompt("import data\n" * 10), n_max=50))
    h.step()
    h.submit(GenerationRequest(2, (1, 2)))
    h.engine.close()
    h.engine.run_forever()
    h.submit(GenerationRequest(3, (1, 2)))
    assert [h.last(i).finish for i in (1, 2, 3)] == [FinishReason.CANCELLED] * 3
    assert h.backend.closed


def test_temperature_follows_the_distribution() -> None:
    from inference.sampler import choose

    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05], dtype=np.float32))
    rng = np.random.default_rng(1)
    n = 4000

    def share(params: SamplingParams, allowed=None) -> list[float]:
        drawn = [choose(logits, params, (), rng, allowed) for _ in range(n)]
        return [drawn.count(i) / n for i in range(4)]

    assert share(SamplingParams(temperature=1.0)) == pytest.approx([0.5, 0.3, 0.15, 0.05], abs=0.04)
    assert share(SamplingParams(temperature=1.0, top_p=0.6)) == pytest.approx([0.625, 0.375, 0, 0], abs=0.04)
    assert share(SamplingParams(temperature=1.0, min_p=0.5)) == pytest.approx([0.625, 0.375, 0, 0], abs=0.04)
    only = np.array([1, 3])
    assert share(SamplingParams(temperature=1.0), only) == pytest.approx([0, 0.857, 0, 0.143], abs=0.04)
    assert choose(logits, SamplingParams(repeat_penalty=5.0), (3, 2), rng) == 0
    penalized = choose(-logits, SamplingParams(repeat_penalty=9.0), (3,), rng)
    assert penalized == 2  # the last one would have won without the penalty
