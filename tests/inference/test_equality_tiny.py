"""Greedy text with reuse, chunks, copies, aborts, cancels, preemption and full cells equals text without, on tiny real models.

By the near-tie rule of `tests.support.near_tie`; the books are compared with the cells after every step.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context.fim import split_healing
from inference.backend import Outcome
from inference.config import EngineConfig
from inference.engine import Engine
from inference.llama.model import LlamaBackend
from inference.types import Costs, FinishReason, GenerationRequest, Priority, TokenEvent
from tests.inference.conftest import Open
from tests.support.feeding import TOLERANCE
from tests.support.layouts import markers_of
from tests.support.near_tie import CUT_SHORT, Comparer, Driver, Ran, Recording, Rows, Said, run_cold, share

archs = pytest.mark.parametrize("arch", ["llama", "qwen2", "gemma2", "mamba"])
N_CTX, N_CTX_FULL = 256, 128  # with the second, the 256 cells are too few for the sequences
WHOLE, SMALL, ODD = 512, 8, 21  # prefill chunks: the reference's, another cold run's, that of the runs with reuse

HEAD = b"import name\nfrom items import value\n\ndef len(items):\n    return None\n\n"
DOCUMENTS = (  # before the cursor, and behind it
    (HEAD + b"class print:\n    def range(self):\n        value = ", b"\n        return value\n"),
    (HEAD + b"for name in items:\n    if not name:\n        print(name)\n", b"\nprint(len(items))\n"),
    ("const café = function() {\n    let 日本 = Straße;\n".encode(), b"}\n"),
)
KEYS = ["n", "a", "name", "_", " ", "(", ")", "\n    ", "é", "self.", "=", "日"]

Action = tuple[str, Any]


@dataclass
class Typist:
    """Somebody at a few documents, as requests: keys and backspaces, jumps, cancels, prefills and swaps of the larger prompt.

    An action of "during" happens while the next step decodes, as another thread's submit or cancel would.
    """

    driver: Driver
    sent: dict[int, GenerationRequest] = field(default_factory=dict)
    at: int = 0
    typed: list[str] = field(default_factory=lambda: [""] * len(DOCUMENTS))
    is_large: list[bool] = field(default_factory=lambda: [False] * len(DOCUMENTS))

    def act(self, action: Action) -> None:
        name, value = action
        if name == "key":
            self.typed[self.at] += value
            self._ask()
        elif name == "back":
            self.typed[self.at] = self.typed[self.at][: -int(value)]
            self._ask()
        elif name == "jump":
            self.at = value
            self._ask()
        elif name == "prefill":
            self._submit(self._prompt(large=True), b"", 0, Priority.BACKGROUND if value is None else value)
        elif name == "review":
            why = self.driver.recording.vocab.encode(b"# why")
            self._submit((*self._prompt(large=False)[:-1], *why), b"", value, Priority.BACKGROUND)
        elif name == "invoke":
            self._ask(Priority.INVOKED)
        elif name == "swap":
            self.is_large[self.at] = not self.is_large[self.at]
            self._ask()
        elif name == "cancel" and self.sent:
            self.driver.engine.cancel(max(self.sent) - value)
        elif name == "steps":
            for _ in range(value):
                self.driver.step()
        elif name == "during":
            self._during(value)

    def _during(self, action: Action) -> None:
        def once(rows: object) -> None:
            self.driver.recording.on_decode = lambda rows: None
            self.act(action)

        self.driver.recording.on_decode = once
        self.driver.step()
        self.driver.recording.on_decode = lambda rows: None

    def _prompt(self, *, large: bool) -> tuple[int, ...]:
        vocab = self.driver.recording.vocab
        before, after = DOCUMENTS[self.at]
        before = before if large else before[before.rfind(b"\n", 0, -12) + 1 :]
        fim = markers_of(vocab.fim)
        return (fim.prefix, *vocab.encode(before), fim.suffix, *vocab.encode(after), fim.middle)

    def _ask(self, priority: Priority = Priority.TYPING) -> None:
        sent, heal = split_healing(self.typed[self.at].encode())
        tokens = self._prompt(large=self.is_large[self.at]) + self.driver.recording.vocab.encode(sent)
        self._submit(tokens, heal, 1 + len(self.sent) % 7, priority)

    def _submit(self, tokens: tuple[int, ...], heal: bytes, n_max: int, priority: Priority) -> None:
        request = GenerationRequest(len(self.sent) + 1, tokens, heal, n_max, priority=priority)
        self.sent[request.request_id] = request
        self.driver.submit(request)

    def finish(self) -> Ran:
        self.driver.drain()
        engine = self.driver.engine
        assert not engine._runs and all(s.is_idle for s in engine.kv.sequences)
        said = {i: self.driver.said(i) for i in self.sent}
        for i, each in said.items():
            stats = self.driver.events[i][-1].stats
            assert stats.n_reused + stats.n_evaluated <= stats.n_prompt == len(each.request.tokens)
            if each.finish not in (FinishReason.CANCELLED, FinishReason.CONTEXT):
                assert stats.n_reused + stats.n_evaluated == stats.n_prompt
        return Ran(said, self.driver.recording.rows)


class Reference:
    """Each request alone, in one chunk; kept, since examples share most of their requests."""

    def __init__(self, backend: LlamaBackend) -> None:
        self.backend = backend
        self.ran: dict[tuple[object, ...], Ran] = {}

    def __repr__(self) -> str:  # a failure is reported with its arguments: not with all these logits
        return f"Reference of {len(self.ran)}"

    def of(self, request: GenerationRequest, n_ctx: int) -> tuple[Said, Rows]:
        key = (request.tokens, request.heal, request.n_max, n_ctx)
        if key not in self.ran:
            self.ran[key] = run_cold(lambda rows: Driver(self.backend, n_chunk=WHOLE, n_ctx=n_ctx, rows=rows), [request])
        (said,) = self.ran[key].said.values()
        return said, self.ran[key].rows


@pytest.fixture(scope="module")
def references(open_tiny: Open) -> Iterator[dict[tuple[str, int], Reference]]:
    yield {(arch, n): Reference(open_tiny(arch, n_ctx=n)) for arch in ("llama", "qwen2", "gemma2", "mamba")
           for n in (N_CTX, N_CTX_FULL)}  # fmt: skip


simple = st.one_of(
    st.tuples(st.just("key"), st.sampled_from(KEYS)),
    st.tuples(st.just("key"), st.sampled_from(KEYS)),
    st.tuples(st.just("back"), st.integers(1, 3)),
    st.tuples(st.just("jump"), st.integers(0, len(DOCUMENTS) - 1)),
    st.tuples(st.just("swap"), st.none()),
    st.tuples(st.just("prefill"), st.sampled_from([Priority.PREFETCH, Priority.BACKGROUND])),
    st.tuples(st.just("review"), st.integers(1, 12)),
    st.tuples(st.just("invoke"), st.none()),
    st.tuples(st.just("cancel"), st.integers(0, 2)),
)
actions = st.lists(
    st.one_of(simple, st.tuples(st.just("steps"), st.integers(1, 9)), st.tuples(st.just("during"), simple)),
    min_size=4,
    max_size=24,
)


@archs
@settings(max_examples=40, deadline=None)
@given(
    actions=actions,
    n_sequences=st.integers(1, 3),
    n_ctx=st.sampled_from([N_CTX, N_CTX_FULL]),
    n_chunk=st.integers(8, 40),
    n_stowed=st.sampled_from([0, 1, 8]),
)
def test_any_interleaving_says_what_each_request_says_alone(
    open_tiny: Open,
    references: dict[tuple[str, int], Reference],
    arch: str,
    actions: list[Action],
    n_sequences: int,
    n_ctx: int,
    n_chunk: int,
    n_stowed: int,
) -> None:
    reference = references[arch, n_ctx]
    driver = Driver(open_tiny(arch, n_ctx=n_ctx), n_chunk=n_chunk, n_ctx=n_ctx, n_sequences=n_sequences, n_stowed=n_stowed)
    typist = Typist(driver)
    for action in actions:
        typist.act(action)
    ran = typist.finish()
    comparer = Comparer(reference.backend.vocab)
    for i, said in ran.said.items():
        alone, rows = reference.of(typist.sent[i], n_ctx)
        compared = comparer.compare(alone, said, rows, ran.rows)
        assert compared.noise < TOLERANCE


def typing_session(seed: int, n: int) -> list[Action]:
    """Mostly keys that wait for their answer; now and then a backspace, a jump, a prefill in the background with its swap."""
    rng = random.Random(seed)
    out: list[Action] = [("jump", 0)]
    for _ in range(n):
        kind = rng.random()
        if kind < 0.7:
            out.append(("key", rng.choice(KEYS)))
        elif kind < 0.8:
            out.append(("back", rng.randint(1, 3)))
        elif kind < 0.86:
            out.append(("jump", rng.randrange(len(DOCUMENTS))))
        elif kind < 0.93:
            out += [("prefill", None), ("during", ("key", rng.choice(KEYS))), ("steps", 40), ("swap", None)]
        else:
            out += [("key", rng.choice(KEYS)), ("steps", 2), ("cancel", 0)]
        out.append(("steps", rng.choice([2, 5, 40])))
    return out


@archs
@pytest.mark.parametrize("n_sequences", [3, 1], ids=["three resident", "one resident, the others stowed"])
def test_no_more_texts_part_with_reuse_than_between_two_cold_runs(
    open_tiny: Open, arch: str, n_sequences: int, capsys: pytest.CaptureFixture[str], record_property: Any
) -> None:
    backend = open_tiny(arch, n_ctx=N_CTX)
    typist = Typist(Driver(backend, n_chunk=ODD, n_ctx=N_CTX, n_sequences=n_sequences, n_stowed=16))
    for action in typing_session(seed=11, n=160):
        typist.act(action)
    reused = typist.finish()
    evaluated = [typist.driver.events[i][-1].stats for i in reused.said]
    recording = typist.driver.recording
    assert sum(s.n_reused for s in evaluated) > (2 if arch != "mamba" else 0.02) * sum(s.n_evaluated for s in evaluated)
    answered = [s for i, s in zip(reused.said, evaluated, strict=True) if reused.said[i].finish not in CUT_SHORT]
    assert sum(s.n_steps == 0 for s in answered) > (2 if arch != "mamba" else 0), "kept logits answered without a step"
    assert arch == "mamba" or (recording.n_copied and recording.outcomes[Outcome.ABORTED])
    assert recording.n_restored > 3 or n_sequences == 3 or arch not in ("llama", "qwen2")
    requests = [said.request for said in reused.said.values() if said.finish not in CUT_SHORT]
    reference, cold = (
        run_cold(lambda rows, n=n: Driver(backend, n_chunk=n, n_ctx=N_CTX, rows=rows), requests) for n in (WHOLE, SMALL)
    )
    shared = share(Comparer(backend.vocab), reference, cold, reused)
    record_property("parted", str(shared))
    with capsys.disabled():
        sys.stdout.write(f"\n{arch}: {shared}\n")
    assert shared.n > 100 and shared.noise < TOLERANCE
    assert shared.p > 0.05


@archs
def test_full_cells_end_somebody_and_the_rest_is_right(open_tiny: Open, arch: str) -> None:
    backend = open_tiny(arch, n_ctx=N_CTX_FULL)
    driver = Driver(backend, n_chunk=16, n_ctx=N_CTX_FULL)
    fim = markers_of(backend.vocab.fim)
    prompts = [(fim.prefix, *range(20 + i, 120 + i), fim.middle) for i in range(5)]
    requests = [GenerationRequest(i, p, n_max=20) for i, p in enumerate(prompts, 1)]
    requests.append(GenerationRequest(9, (fim.prefix, *range(40, 150)), n_max=0, priority=Priority.BACKGROUND))
    for request in requests:
        driver.submit(request)
        driver.step()
    driver.drain()
    reference = run_cold(lambda rows: Driver(backend, n_chunk=WHOLE, n_ctx=N_CTX_FULL, rows=rows), requests)
    ends = {r.request_id: driver.said(r.request_id).finish for r in requests}
    if arch != "mamba":  # there a sequence is one cell
        assert driver.recording.outcomes[Outcome.NO_ROOM] and FinishReason.CONTEXT in ends.values()
    assert set(ends.values()) & {FinishReason.LENGTH, FinishReason.STOP}, "the cells are enough for some"
    for i, said in reference.said.items():
        Comparer(backend.vocab).compare(said, driver.said(i), reference.rows, driver.recording.rows)


def test_no_room_for_ever_still_ends_everybody(open_tiny: Open) -> None:
    driver = Driver(open_tiny("llama"), n_chunk=16, n_ctx=N_CTX)
    driver.submit(GenerationRequest(1, tuple(range(5, 60)), n_max=2))
    driver.drain()
    before = driver.engine.counters()
    for i in range(2, 8):
        driver.submit(GenerationRequest(i, tuple(range(5 + i, 90)), n_max=3, priority=Priority(i % 2)))
    driver.recording.forced = [Outcome.NO_ROOM] * 10_000
    driver.drain()
    assert driver.recording.outcomes[Outcome.NO_ROOM] <= 2 * 7
    assert driver.engine.counters() == before, "what found no room was not put through the model"
    assert all(driver.said(i).finish in CUT_SHORT for i in range(2, 8))


@archs
@pytest.mark.parametrize("at", [0, 1, 2, 5])
def test_an_aborted_prefill_is_taken_up_where_it_ended(open_tiny: Open, arch: str, at: int) -> None:
    backend = open_tiny(arch)
    request = GenerationRequest(1, tuple(range(5, 95)), b"", 6)
    again = GenerationRequest(2, request.tokens, b"", 6)
    driver = Driver(backend, n_chunk=16, n_ctx=N_CTX)
    driver.submit(request)
    for _ in range(at):
        driver.step()
    driver.recording.on_decode = lambda rows: driver.engine.cancel(1)
    driver.step()
    assert driver.recording.outcomes[Outcome.ABORTED] == (arch != "mamba")
    driver.recording.on_decode = lambda rows: None
    driver.submit(again)
    driver.drain()
    assert driver.said(1).finish is FinishReason.CANCELLED
    # without partial removal nothing is aborted: that chunk counts
    assert driver.events[2][-1].stats.n_reused == min(90, 16 * (at + (arch == "mamba")))
    n_used = sum(bool(s.tokens) for s in driver.engine.kv.sequences)
    assert n_used == 1, "it goes on in its own sequence, in nobody else's"
    reference = run_cold(lambda rows: Driver(backend, n_chunk=WHOLE, n_ctx=N_CTX, rows=rows), [again])
    compared = Comparer(backend.vocab).compare(
        reference.said[2], driver.said(2), reference.rows, driver.recording.rows
    )
    assert compared.noise < TOLERANCE


@pytest.mark.parametrize("arch", ["llama", "qwen2", "gemma2"])
def test_background_work_takes_nothing_from_where_somebody_types(open_tiny: Open, arch: str) -> None:
    driver = Driver(open_tiny(arch), n_chunk=16, n_ctx=N_CTX, n_sequences=1)
    head = tuple(range(5, 85))
    key = GenerationRequest(1, (*head, *range(150, 170)), n_max=3)
    driver.submit(key)
    driver.drain()
    for i in (2, 3):  # the next prompt; and another one, for which the first is given up
        driver.submit(GenerationRequest(i, (*head, *range(200 + i, 225)), n_max=0, priority=Priority.BACKGROUND))
        driver.drain()
        again = GenerationRequest(i + 10, key.tokens, n_max=3)
        driver.submit(again)
        driver.drain()
        assert driver.said(i).finish is FinishReason.RESIDENT
        assert driver.events[i + 10][-1].stats.n_steps == 0
        assert driver.events[i][-1].stats.n_reused >= len(head)


def test_more_requests_than_sequences_are_all_answered_from_kept_logits(open_tiny: Open) -> None:
    driver = Driver(open_tiny("llama"), n_chunk=16, n_ctx=N_CTX, n_sequences=1)
    for i in range(1, 8):
        priority = Priority.BACKGROUND if i % 2 else Priority.TYPING
        driver.submit(GenerationRequest(i, tuple(range(5, 60)), n_max=1 - i % 2, priority=priority))
        if i == 1:
            driver.drain()
    driver.drain()
    assert not driver.engine._runs
    assert {driver.said(i).finish for i in range(1, 8)} <= {FinishReason.RESIDENT, FinishReason.LENGTH, FinishReason.STOP}


def test_a_refused_batch_whose_parts_then_fail_ends_each_run_once(open_tiny: Open) -> None:
    for second in (Outcome.FATAL, Outcome.NO_ROOM):
        driver = Driver(open_tiny("llama"), n_chunk=16, n_ctx=N_CTX)
        for i in (1, 2, 3):
            driver.submit(GenerationRequest(i, tuple(range(5, 20 + i)), n_max=8))
        driver.drain()
        for i in (4, 5, 6):
            driver.submit(GenerationRequest(i, tuple(range(50, 60 + i)), n_max=8))
        driver.step()
        driver.recording.forced = [Outcome.REFUSED, second, second]
        driver.drain()
        ends = [driver.said(i).finish for i in (4, 5, 6)]
        assert None not in ends
        assert (FinishReason.ERROR in ends) is (second is Outcome.FATAL)


def test_a_lost_context_answers_everybody_and_empties_the_books(open_tiny: Open) -> None:
    driver = Driver(open_tiny("qwen2"), n_chunk=16, n_ctx=N_CTX)
    for i in (1, 2):
        driver.submit(GenerationRequest(i, tuple(range(5, 60 + i)), n_max=5))
        driver.step()
    driver.recording.forced = [Outcome.FATAL]
    driver.drain()
    assert all(not s.tokens and not s.logits for s in driver.engine.kv.sequences)
    driver.submit(GenerationRequest(3, (5, 6), n_max=5))
    driver.drain()
    assert all("restart" in driver.events[i][-1].error for i in (1, 2, 3))


def test_closing_while_decoding_answers_everybody_and_frees_the_model(tiny_models: dict[str, Any]) -> None:
    for at in (0, 1, 3):
        config = EngineConfig(n_ctx=1024, n_sequences=2, n_threads=1, n_gpu_layers=0)
        recording = Recording(LlamaBackend(config, tiny_models["llama"]), lent=False)
        engine = Engine(recording, n_ctx=1024, n_sequences=2, costs=Costs(10.0, 10.0), chunk_ms=160.0)
        events: list[TokenEvent] = []
        n = iter(range(1000))

        def close_in_a_decode(rows: object, engine: Engine = engine, n: Iterator[int] = n, at: int = at) -> None:
            if next(n) == at:
                engine.close()

        recording.on_decode = close_in_a_decode
        for i in (1, 2):
            engine.submit(GenerationRequest(i, tuple(range(3, 300)) * 2, n_max=50), events.append)
        engine.submit(GenerationRequest(3, (5,) * 400, n_max=0, priority=Priority.BACKGROUND), events.append)
        thread = threading.Thread(target=engine.run_forever)
        thread.start()
        thread.join(60)
        assert not thread.is_alive() and recording.is_closed
        engine.submit(GenerationRequest(4, (5,), n_max=1), events.append)
        ends = {e.request_id: e.finish for e in events if e.finish is not None}
        assert ends == dict.fromkeys((1, 2, 3, 4), FinishReason.CANCELLED)
        assert recording.outcomes[Outcome.OK] == at and recording.outcomes[Outcome.ABORTED] == 1
