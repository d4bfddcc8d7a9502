"""Drafts on the strict fake: whatever a source says, and wherever it says it, texts and books are those without drafts."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.backend import Outcome, Vocab
from inference.costs import CostTable
from inference.drafts.chunks import Chunks, digest_of
from inference.drafts.draft import N_GRADES, Draft, Source
from inference.drafts.drafting import Drafting
from inference.drafts.found import LOOKUP, PREVIOUS
from inference.drafts.trail import Trail
from inference.engine import Engine, MakeDrafting
from inference.healing import HealingIndex
from inference.run import Run
from inference.types import FinishReason, GenerationRequest, Priority, SamplingParams
from tests.inference.test_engine import COSTS, VOCAB, Harness, alone, prompt, requests
from tests.support.fake_backend import FakeBackend

CPU = ((1, 27.0), (2, 48.0), (4, 66.0), (8, 110.0), (16, 174.0), (32, 322.0))


@dataclass
class Told:
    """Says what it was told, by the path; grades at random."""

    tokens_behind: Callable[[tuple[int, ...]], Sequence[int]]
    name: str = "told"

    def propose(self, run: Run, trail: Trail, n: int) -> Draft | None:
        tokens = tuple(self.tokens_behind(tuple(run.path)))[:n]
        return Draft(self.name, tokens, tuple(i % N_GRADES for i in range(len(tokens)))) if tokens else None


class Liar:
    """Says what would come, with lies in it: wrong tokens, control tokens, ids that no vocabulary has."""

    def __init__(self, seed: int, honesty: float) -> None:
        self._random, self._honesty = random.Random(seed), honesty
        self._model = FakeBackend(VOCAB)

    def __call__(self, path: tuple[int, ...]) -> list[int]:
        out: list[int] = []
        for _ in range(self._random.randrange(8)):
            if self._random.random() < self._honesty:
                token = int(np.argmax(self._model._predict((*path, *out))))
            else:
                token = self._random.choice([*range(VOCAB.n_tokens), VOCAB.eos, VOCAB.n_tokens + 7, -1])
            out.append(token)
            if not 0 <= token < VOCAB.n_tokens:
                break
        return out


def drafting(
    *sources: Source, forced: int = 6, chunks: Chunks | None = None, made: list[Drafting] | None = None
) -> MakeDrafting:
    def make(vocab: Vocab, table: CostTable, healing: HealingIndex) -> Drafting:
        new = Drafting(vocab, table, healing, sources=sources or None, forced=forced, chunks=chunks)
        if made is not None:
            made.append(new)
        return new

    return make


class Drafted(Harness):
    """A harness whose engine drafts."""

    def __init__(self, make: MakeDrafting, backend: FakeBackend | None = None, *, table: CostTable | None = None,
                 n_ctx: int = 512, n_sequences: int = 3, n_stowed: int = 0, stow_bytes: int = 1 << 20) -> None:  # fmt: skip
        super().__init__(backend)
        self.engine = Engine(
            self.backend, n_ctx=n_ctx, n_sequences=n_sequences, costs=COSTS, table=table, clock=lambda: self.now,
            n_stowed=n_stowed, stow_bytes=stow_bytes, make_drafting=make,
        )  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(requests, st.integers(0, 6), st.booleans()), min_size=1, max_size=6),
    st.sampled_from([200, 1024, 1024]),
    st.lists(st.sampled_from([Outcome.OK, Outcome.OK, Outcome.ABORTED, Outcome.NO_ROOM]), max_size=8),
    st.sampled_from([0, 1, 6]),
    st.sampled_from([0.0, 0.5, 0.9, 1.0]),
    st.integers(0, 1000),
    st.sampled_from([(0, 0), (4, 1 << 20)]),
)
def test_any_interleaving_with_any_drafts_equals_each_request_alone(
    plan, n_cells, outcomes, forced, honesty, seed, stowing
) -> None:
    backend = FakeBackend(VOCAB, n_ctx=n_cells)
    h = Drafted(drafting(Told(Liar(seed, honesty)), forced=forced), backend, n_stowed=stowing[0], stow_bytes=stowing[1])
    backend.outcomes = list(outcomes)
    sent = []
    for i, ((tokens, heal, n_max, priority, sampling, n_candidates, first_line), n_steps, cancel) in enumerate(plan, 1):
        request = GenerationRequest(i, tokens, heal, n_max, sampling, priority, n_candidates, first_line)
        sent.append(request)
        h.submit(request)
        for _ in range(n_steps):
            h.step()
        if cancel:
            h.engine.cancel(i)
    h.drain()
    for request in sent:
        want, finish = alone(replace(request, n_candidates=1))
        got, last = h.text(request.request_id), h.last(request.request_id)
        if last.finish in (FinishReason.CANCELLED, FinishReason.CONTEXT):
            assert want.startswith(got)
        else:
            assert (got, last.finish) == (want, finish)
        assert last.stats.n_accepted <= last.stats.n_drafted
    counters = h.engine.counters()
    n_rows = sum(h.last(request.request_id).stats.n_rows for request in sent)
    assert n_rows == counters.prompt + counters.healing + counters.generated + counters.background + counters.drafted
    assert all(s.is_idle for s in h.engine.kv.sequences)


def script(tokens: Sequence[int], answer: Sequence[int]) -> FakeBackend:
    backend = FakeBackend(VOCAB, n_ctx=1024)
    backend.scripts[tuple(tokens)] = tuple(answer)
    return backend


ANSWER = VOCAB.encode(b"value = total\n    print(value)\n    return number\n")


@pytest.mark.parametrize("n", [1, 3, 8])
def test_a_right_draft_divides_the_steps(n: int) -> None:
    tokens = prompt("def foo():\n    ")
    backend = script(tokens, ANSWER)
    h = Drafted(drafting(Told(lambda path: ANSWER[len(path) - len(tokens) :]), forced=n), backend)
    h.submit(GenerationRequest(1, tokens, n_max=64))
    h.drain()
    assert h.text(1).encode() == VOCAB.text(ANSWER) and h.last(1).finish is FinishReason.STOP
    n_generating = sum(any(row.pos >= len(tokens) for row in rows) for rows in backend.decoded)
    assert n_generating == -(-(len(ANSWER) + 1) // (n + 1))
    stats = h.last(1).stats
    assert stats.n_accepted == stats.n_drafted and stats.n_generated == len(ANSWER)


def test_what_stands_behind_an_end_is_dropped_and_the_answer_is_reused() -> None:
    tokens, junk = prompt("x = "), VOCAB.encode(b"foo bar")
    answer = VOCAB.encode(b"1")
    h = Drafted(drafting(Told(lambda path: (*answer, VOCAB.encode(b"2")[0], *junk))), script(tokens, answer))
    h.submit(GenerationRequest(1, tokens, n_max=16))
    h.drain()
    assert h.text(1) == "1" and h.last(1).finish is FinishReason.STOP
    (held,) = [s.tokens for s in h.engine.kv.sequences if s.tokens]
    assert held == [*tokens, *answer]
    h.submit(GenerationRequest(2, (*tokens, *answer), n_max=1))
    h.drain()
    assert h.last(2).stats.n_reused == len(held)


def test_rows_of_a_draft_ride_with_those_of_others_and_only_they_ask_for_more_logits() -> None:
    a, b = prompt("def foo():\n    "), prompt("import data\n" * 3)
    backend = script(a, ANSWER)
    backend.scripts[b] = ANSWER
    h = Drafted(drafting(Told(lambda path: ANSWER[len(path) - len(a) :] if path[: len(a)] == a else ()), forced=3), backend)
    h.submit(GenerationRequest(1, a, n_max=24))
    h.submit(GenerationRequest(2, b, n_max=24))
    h.drain()
    assert h.text(1).encode() == h.text(2).encode() == VOCAB.text(ANSWER)
    shared = [rows for rows in backend.decoded if len({row.seq for row in rows}) == 2 and all(row.wants_logits for row in rows)]
    assert [len(rows) for rows in shared][:2] == [5, 5]
    assert all(sum(row.wants_logits for row in rows) <= 5 for rows in backend.decoded)


def test_nobody_who_waits_for_a_first_byte_waits_for_a_draft() -> None:
    a, b = prompt("def foo():\n    "), prompt("import data\n" * 30)
    backend = script(a, ANSWER)
    h = Drafted(drafting(Told(lambda path: ANSWER[len(path) - len(a) :] if path[: len(a)] == a else ()), forced=3), backend)
    h.submit(GenerationRequest(1, a, n_max=24))
    for _ in range(3):
        h.step()
    h.submit(GenerationRequest(2, b, n_max=2))
    n = len(backend.decoded)
    while not any(e.text for e in h.events[2]) and h.step():
        pass
    waited = backend.decoded[n:]
    assert waited and not any(len({r.pos for r in rows if r.token in ANSWER and r.seq == 0}) > 1 for rows in waited)


def test_where_a_part_can_not_be_dropped_nothing_is_drafted() -> None:
    made: list[Drafting] = []
    tokens = prompt("def foo():\n    ")
    backend = script(tokens, ANSWER)
    backend.partial = False
    h = Drafted(drafting(Told(lambda path: ANSWER), made=made), backend)
    h.submit(GenerationRequest(1, tokens, n_max=64))
    h.drain()
    assert h.engine.drafting is None and not made and h.engine.counters().drafted == 0
    assert h.text(1).encode() == VOCAB.text(ANSWER)


def test_a_model_that_refuses_to_roll_back_once_is_evaluated_anew_and_drafts_no_more() -> None:
    tokens = prompt("def foo():\n    ")
    backend = script(tokens, ANSWER)
    h = Drafted(drafting(Told(lambda path: VOCAB.encode(b"foofoo"))), backend)
    h.submit(GenerationRequest(1, tokens, n_max=64))
    backend.on_decode = lambda rows: setattr(backend, "partial", not sum(row.wants_logits for row in rows) > 1)
    h.drain()
    assert h.text(1).encode() == VOCAB.text(ANSWER)
    assert h.last(1).stats.n_drafted <= 6


def test_no_draft_takes_a_cell_that_another_holds() -> None:
    held, tokens = prompt("import data\n" * 8), prompt("x")
    backend = FakeBackend(VOCAB, n_ctx=len(held) + len(tokens) + 4)
    answer = VOCAB.encode(b"foobar")
    backend.scripts[tokens] = answer
    h = Drafted(
        drafting(Told(lambda path: (*answer[len(path) - len(tokens) :], *VOCAB.encode(b"a b c d e f g"))), forced=6), backend
    )
    h.submit(GenerationRequest(1, held, n_max=0))
    h.drain()
    h.submit(GenerationRequest(2, tokens, n_max=32))
    h.drain()
    assert h.text(2) == "foobar" and h.engine.counters().drafted
    assert h.engine.stats().n_evictions == 0
    assert any(s.tokens[: len(held)] == list(held) for s in h.engine.kv.sequences)


# -- with a temperature


def test_drawn_texts_are_those_without_drafts_seed_by_seed() -> None:
    tokens = prompt("def foo():\n    return ")
    for seed in range(12):
        request = GenerationRequest(1, tokens, b" fo", 12, SamplingParams(temperature=0.9, top_p=0.95, seed=seed))
        h = Drafted(drafting(Told(Liar(seed, 0.6))))
        h.submit(request)
        h.drain()
        assert (h.text(1), h.last(1).finish) == alone(request)


def test_the_distribution_is_unchanged_by_drafts() -> None:
    """Chi-squared of the second token, behind a drafted first one, over many seeds, against the model's own distribution."""
    n_prompt, n = len(prompt("0000")), 250
    first, likely = VOCAB.encode(b" foo")[0], [VOCAB.encode(w)[0] for w in (b" bar", b" name", b" key", b" len")]
    odds = np.array([0.45, 0.3, 0.2, 0.05])

    class Skewed(FakeBackend):
        def _predict(self, held: tuple[int, ...]) -> np.ndarray:
            logits = np.full(VOCAB.n_tokens, -30.0, dtype=np.float32)
            if len(held) == n_prompt:
                logits[first] = 0.0
            else:
                logits[likely] = np.log(odds)
            return logits

    h = Drafted(drafting(Told(lambda path: (first, likely[0], likely[2])[len(path) - n_prompt :]), forced=3), Skewed(VOCAB))
    counts = dict.fromkeys(likely, 0)
    for seed in range(n):
        h.submit(GenerationRequest(seed, prompt(f"{seed:04}"), n_max=3, sampling=SamplingParams(temperature=1.0, seed=seed)))
        h.drain()
        told = VOCAB.encode(h.text(seed).encode())
        counts[told[1]] += 1
    expected = n * odds
    chi_squared = float((((np.array([*counts.values()])) - expected) ** 2 / expected).sum())
    assert chi_squared < 16.27, counts  # 3 degrees of freedom, p = 0.001; the seeds are fixed
    assert h.engine.counters().drafted > n


# -- sources


def first_draft(source: str, tokens: tuple[int, ...], heal: bytes = b"", **more: object) -> bytes:
    """What a source alone drafts behind a prompt."""
    made: list[Drafting] = []
    chunks = more.pop("store", None)
    h = Drafted(drafting(forced=8, made=made, chunks=chunks))  # type: ignore[arg-type]
    h.submit(GenerationRequest(1, tokens, heal, **more))  # type: ignore[arg-type]
    h.engine._take_commands()
    (run,) = h.engine._runs
    (chosen,) = [s for s in made[0]._sources if s.name == source]
    draft = made[0]._fitting(run, chosen.propose(run, made[0]._trail(run), 8))
    return b"" if draft is None else VOCAB.text(draft.tokens)


def test_a_look_up_finds_the_longest_and_of_these_the_latest() -> None:
    text = "foo bar len\nself foo bar name\nif foo bar key\nself foo bar"
    assert first_draft(LOOKUP, prompt(text)).startswith(b" name\n")
    assert first_draft(LOOKUP, prompt("in foo bar len\nin foo bar key\nin foo bar")).startswith(b" key\n")
    assert first_draft(LOOKUP, prompt("foo bar len\nrange")) == b""


def test_a_look_up_reads_behind_the_cursor_and_what_was_typed_joins_the_prefix() -> None:
    fim = VOCAB.control
    tokens = (
        fim["<|fim_prefix|>"], *VOCAB.encode(b"value = open"), fim["<|fim_suffix|>"],
        *VOCAB.encode(b"value = open(line) or None\n"),
        fim["<|fim_middle|>"], *VOCAB.encode(b"("),
    )  # fmt: skip
    assert first_draft(LOOKUP, tokens).startswith(b"line")
    assert first_draft(LOOKUP, tokens[:-1], b"(x") == b"(" and first_draft(LOOKUP, tokens[:-1], b"(").startswith(b"(line)")


def test_what_is_repeated_with_another_token_in_it_goes_on_behind_that() -> None:
    block = "value = open(line)\n    if not total and data:\n        return key\n"
    text, new = (
        "def foo(self):\n    " + block + "def bar(self):\n    ",
        block.replace("total", "number").replace("key", "index"),
    )
    tokens = prompt(text)
    backend = script(tokens, VOCAB.encode(new.encode()))
    h = Drafted(drafting(forced=4), backend)
    h.submit(GenerationRequest(1, tokens, n_max=40))
    h.drain()
    assert h.text(1) == new
    stats = h.last(1).stats
    assert stats.n_accepted >= stats.n_generated - 8, "a changed token costs one step, and no more"


def test_a_look_up_goes_on_with_what_is_to_be_healed() -> None:
    text = "list not foo\nlist not bar\nlist not number\nlist not key\nlist not"
    assert first_draft(LOOKUP, prompt(text), b" nu").startswith(b" number\n")
    assert first_draft(LOOKUP, prompt(text), b" zq") == b""


def test_a_look_up_reads_chunks_and_stops_at_their_ends() -> None:
    store = Chunks(1 << 20)
    parts = [VOCAB.encode(b"while data in text: index"), VOCAB.encode(b"while data in key")]
    for part in parts:
        assert store.put(digest_of(part), part)
    tokens = prompt("while data in")
    digests = tuple(digest_of(part) for part in parts)
    assert first_draft(LOOKUP, tokens, store=store, chunks=digests) == b" key"
    assert first_draft(LOOKUP, tokens, store=store, chunks=digests[:1]) == b" text: index"
    assert first_draft(LOOKUP, tokens, store=store, chunks=("0" * 32,)) == b""


def test_the_text_before_is_drafted_from_its_beginning_and_again_where_it_agrees_once_more() -> None:
    tokens, old = prompt("def foo():\n    "), VOCAB.encode(b"value = open(name)\n    return value\n")
    assert first_draft(PREVIOUS, tokens, previous=old).startswith(b"value = open(name)")
    assert first_draft(PREVIOUS, tokens, b"val", previous=old).startswith(b"value = open(")
    assert first_draft(PREVIOUS, tokens, b"x", previous=old) == b""
    new = VOCAB.encode(b"total = open(name)\n    return total\n")
    backend = script(tokens, new)
    h = Drafted(drafting(), backend)
    h.submit(GenerationRequest(1, tokens, n_max=40, previous=old))
    h.drain()
    assert h.text(1).encode() == VOCAB.text(new)
    figures = {f.source: f for f in h.engine.drafting.figures}  # type: ignore[union-attr]
    assert figures[PREVIOUS].n_accepted >= 6
    assert len(backend.decoded) <= len(new) - 5


# -- chunks


def test_chunks_are_kept_by_use_within_their_bytes_and_named_rightly() -> None:
    parts = [tuple(range(i, i + 100)) for i in range(4)]
    store = Chunks(3 * (400 + 256))
    for part in parts[:3]:
        assert store.put(digest_of(part), part)
    assert store.unknown([digest_of(parts[0])]) == ()
    assert store.put(digest_of(parts[3]), parts[3])
    assert store.unknown(map(digest_of, parts)) == (digest_of(parts[1]),)
    assert len(store) == 3 and store.n_bytes <= store.max_bytes
    with pytest.raises(ValueError, match="digest"):
        store.put(digest_of(parts[0]), parts[1])
    assert not store.put(digest_of(range(5000)), range(5000))


def test_drafts_of_the_background_and_of_candidates_change_nothing() -> None:
    tokens = prompt("def foo():\n    return ")
    make = partial(Drafted, drafting(Told(Liar(3, 0.8))))
    for priority, n in ((Priority.BACKGROUND, 1), (Priority.INVOKED, 3)):
        request = GenerationRequest(1, tokens, b"", 12, priority=priority, n_candidates=n)
        with_drafts, without = make(), Harness()
        for h in (with_drafts, without):
            h.submit(request)
            h.drain()
        for candidate in range(n):
            assert with_drafts.text(1, candidate) == without.text(1, candidate)
        assert [r.candidate for r in with_drafts.last(1).ranking] == [r.candidate for r in without.last(1).ranking]
        assert with_drafts.engine.counters().drafted
