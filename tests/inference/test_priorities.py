"""Typing before invoked before prefetch before background: who waits for whom, and that what waits is not lost."""

from __future__ import annotations

import statistics

import pytest

from inference.backend import Row
from inference.run import Run
from inference.types import FinishReason, GenerationRequest, Priority, SamplingParams
from tests.inference.test_engine import VOCAB, Harness, alone, prompt
from tests.support.desk import CPU, DEVICE, Desk, Typist
from tests.support.fake_backend import FakeBackend

LONG = tuple(i * 7 % 250 for i in range(1500))


def typists(desk: Desk, n: int, pause_s: float, *, n_keys: int = 10) -> None:
    for number in range(n):
        Typist(desk, number, n_keys=n_keys, gap_s=0.15, pause_s=pause_s)


@pytest.mark.parametrize("n_typists", [1, 2])
@pytest.mark.parametrize("pause_s", [0.3, 1.0, 1.5, 2.0, 3.0, 5.0])
def test_of_a_background_prefill_during_bursts_little_is_evaluated_twice(n_typists: int, pause_s: float) -> None:
    desk = Desk()
    typists(desk, n_typists, pause_s)
    background = desk.submit(LONG, 0, Priority.BACKGROUND)
    desk.run(lambda: desk.finish(background) is not None)
    assert desk.finish(background) is FinishReason.RESIDENT
    assert len(desk.first_bytes_ms) > 20
    n_twice = desk.engine.counters().background - len(LONG)
    assert 0 < n_twice < 0.15 * len(LONG)


@pytest.mark.parametrize("rows", [CPU, DEVICE], ids=["cpu", "device"])
@pytest.mark.parametrize("n_typists", [1, 2])
def test_a_first_byte_comes_as_fast_with_background_prefill_and_decode(rows, n_typists: int) -> None:
    medians = []
    for with_background in (False, True):
        desk = Desk(rows)
        typists(desk, n_typists, 1.0)
        if with_background:
            for k in range(40):
                desk.at(1.7 * k, lambda k=k, desk=desk: desk.submit((250 - k, *LONG[:700]), 50, Priority.BACKGROUND))
        desk.run(lambda desk=desk: desk.now > 60)
        first_bytes = desk.first_bytes_ms[5:]
        medians.append(statistics.median(first_bytes))
        assert (desk.engine.counters().background > 800) is with_background
    alone_ms, under_load_ms = medians
    assert under_load_ms <= min(1.5 * alone_ms, alone_ms + 50)


@pytest.mark.parametrize("rows", [CPU, DEVICE], ids=["cpu", "device"])
def test_background_advances_under_typing_that_never_pauses(rows) -> None:
    desk = Desk(rows)
    typists(desk, 2, 0.0, n_keys=200)
    short: list[int] = []
    for i, priority in enumerate((Priority.BACKGROUND, Priority.PREFETCH)):
        desk.at(5.0, lambda i=i, p=priority: short.append(desk.submit((i, *LONG[:150]), 3, p)))
    desk.run(lambda: len(short) == 2 and all(desk.finish(i) is not None for i in short))
    assert {desk.finish(i) for i in short} <= {FinishReason.LENGTH, FinishReason.STOP}
    assert desk.now < 100 and len(desk.first_bytes_ms) > 1.5 * desk.now


class Closed:
    """Two clients who type on at once: at each first byte the next key; all steps are counted."""

    def __init__(self, h: Harness) -> None:
        self.h = h
        self.n_keys = 0
        self.steps: list[int] = []  # steps to first byte, of each key
        self.typed = [[1, *range(30, 60)], [2, *range(30, 60)]]
        self.ids = [0, 0]

    def step(self) -> None:
        for who in (0, 1):
            events = self.h.events.get(self.ids[who], [])
            if self.ids[who] == 0 or any(e.stats.first_byte_ms is not None or e.finish for e in events):
                self.n_keys += 1
                self.typed[who].append(60 + self.n_keys * 7 % 100)
                if self.ids[who]:
                    self.steps.append(events[-1].stats.n_steps if events[-1].finish else events[0].stats.n_steps)
                last, self.ids[who] = self.ids[who], 1000 + self.n_keys
                self.h.submit(GenerationRequest(self.ids[who], tuple(self.typed[who]), n_max=30))
                self.h.engine.cancel(last)
        self.h.step()


@pytest.mark.parametrize("can_abort", [True, False])
def test_two_who_never_wait_leave_the_background_its_steps_and_lose_none(can_abort: bool) -> None:
    """There is always somebody without a byte. Bounded: one step in 17."""
    n = 60
    keys = []
    for with_background in (True, False):
        backend = FakeBackend(VOCAB, n_ctx=4096)
        backend.can_abort = can_abort
        h = Harness(backend, n_ctx=2048)
        clients = Closed(h)
        for _ in range(10):
            clients.step()
        if with_background:
            h.submit(GenerationRequest(1, LONG[:n], n_max=0, priority=Priority.BACKGROUND))
            n_steps = 0
            while not h.events[1]:
                clients.step()
                n_steps += 1
                assert n_steps <= n * 17 + 17
            assert h.last(1).finish is FinishReason.RESIDENT
        else:
            for _ in range(n_steps):
                clients.step()
        keys.append(clients)
    n_same = min(len(clients.steps) for clients in keys)
    assert n_same > 100
    assert keys[0].steps[:n_same] == keys[1].steps[:n_same]


def rows_of(h: Harness, request_id: int) -> int:
    """The sequence of a request that runs."""
    (run,) = [run for run in h.engine._runs if run.request_id == request_id]
    assert run.sequence is not None
    return run.sequence.seq


@pytest.mark.parametrize("front", [Priority.TYPING, Priority.INVOKED])
def test_no_lower_row_rides_with_a_request_that_has_no_byte(front: Priority) -> None:
    h = Harness(n_sequences=4, backend=FakeBackend(VOCAB, n_ctx=2048, n_seq_max=8))
    for i, priority in ((1, Priority.BACKGROUND), (2, Priority.PREFETCH)):
        h.submit(GenerationRequest(i, (i, *LONG[:200]), n_max=40, priority=priority))
        h.step()
    before = h.engine.counters().background
    h.submit(GenerationRequest(3, (3, *LONG[:90]), n_max=12, priority=front))
    while not any(e.stats.first_byte_ms is not None for e in h.events.get(3, [])):
        h.step()
    assert h.engine.counters().background == before
    h.drain()
    assert h.engine.counters().background > before


def test_invoked_gives_way_to_typing_and_typing_not_to_invoked() -> None:
    def order(first: Priority, second: Priority) -> list[int]:
        h = Harness()
        seqs: list[int] = []
        h.backend.on_decode = lambda rows: seqs.extend({r.seq for r in rows})
        h.submit(GenerationRequest(1, (1, *LONG[:150]), n_max=1, priority=first))
        h.step()
        mine = rows_of(h, 1)
        h.submit(GenerationRequest(2, (2, *LONG[:20]), n_max=1, priority=second))
        h.drain()
        return [1 if seq == mine else 2 for seq in seqs]

    for steps in (order(Priority.INVOKED, Priority.TYPING), order(Priority.TYPING, Priority.INVOKED)):
        assert steps[0] == 1 and {*steps} == {1, 2}
    assert order(Priority.INVOKED, Priority.TYPING)[1] == 2
    typing_first = order(Priority.TYPING, Priority.INVOKED)
    assert typing_first.index(2) > typing_first.count(1) - 1


def test_an_invoked_chunk_is_ended_by_a_key_and_goes_on_in_smaller_ones() -> None:
    h = Harness()
    sizes: list[int] = []
    keys = iter(range(100, 110))

    def key(rows: list[Row]) -> None:
        if rows[0].seq == mine:
            sizes.append(len(rows))
            if len(sizes) <= 5:
                h.submit(GenerationRequest(i := next(keys), (i, 9, 9), n_max=1))

    h.submit(GenerationRequest(1, (1, *LONG[:400]), n_max=2, priority=Priority.INVOKED))
    h.step()
    mine = rows_of(h, 1)
    h.backend.on_decode = key
    h.drain()
    # by chunk_ms; halved by each key; one row is not ended; then doubled as long as no key comes
    assert sizes[:11] == [31, 15, 7, 3, 1, 2, 4, 8, 16, 31, 31]
    assert h.last(1).finish in (FinishReason.LENGTH, FinishReason.STOP)
    assert all(h.last(i).finish is not None for i in h.events)


def test_what_is_set_aside_for_a_key_goes_on_where_it_was() -> None:
    """With one sequence for all: whoever is set aside comes back from RAM, and says what it says alone."""
    h = Harness(FakeBackend(VOCAB, n_ctx=1024, n_seq_max=2), n_sequences=1, n_stowed=8)
    requests = [
        GenerationRequest(i, prompt(text * 12), b"", n_max=20, priority=priority)
        for i, (text, priority) in enumerate(
            [("import data\n", Priority.BACKGROUND), ("class foo:\n", Priority.PREFETCH), ("for item in\n", Priority.INVOKED),
             ("while True:\n", Priority.TYPING), ("def name():\n", Priority.TYPING), ("value = 1\n", Priority.TYPING)], 1
        )
    ]  # fmt: skip
    for request in requests:
        h.submit(request)
        for _ in range(4):
            h.step()
    h.drain()
    assert [h.text(r.request_id) for r in requests] == [alone(r)[0] for r in requests]
    stats = h.engine.stats()
    assert stats.n_set_aside >= 3 and stats.n_restores >= 2
    total = stats.counters
    n_prompt = sum(len(r.tokens) for r in requests)
    n_said = sum(h.last(r.request_id).stats.n_generated for r in requests)
    assert total.prompt + total.background + total.generated <= n_prompt + n_said + 3 * len(requests), "nothing was lost"
    for r in requests:
        stats = h.last(r.request_id).stats
        assert stats.n_reused + stats.n_evaluated == stats.n_prompt


def test_full_cells_set_the_lowest_aside_until_somebody_ends() -> None:
    h = Harness(FakeBackend(VOCAB, n_ctx=256, n_seq_max=4), n_ctx=256, n_stowed=8)
    requests = [
        GenerationRequest(i, (i, *LONG[: 60 + i]), n_max=60, priority=priority)
        for i, priority in enumerate((Priority.BACKGROUND, Priority.INVOKED, Priority.TYPING, Priority.TYPING), 1)
    ]
    for i, request in enumerate(requests):
        h.backend.scripts[request.tokens] = (100 + i,) * 70
        h.submit(request)
        for _ in range(4):
            h.step()
    h.drain()
    for request in requests:
        assert h.text(request.request_id) and h.last(request.request_id).finish is FinishReason.LENGTH
    stats = h.engine.stats()
    assert stats.n_set_aside >= 2 and stats.n_restores >= 1
    counters = stats.counters
    n_twice = counters.prompt + counters.generated + counters.background - sum(61 + r.request_id for r in requests) - 4 * 59
    assert n_twice <= stats.n_set_aside, "at most the last token again"


def test_whoever_lacked_room_comes_back_as_soon_as_one_ends() -> None:
    h = Harness(FakeBackend(VOCAB, n_ctx=256, n_seq_max=4), n_ctx=256, n_stowed=8)
    for i, n_max in ((1, 150), (2, 40), (3, 100)):
        tokens = (i, *LONG[:60])
        h.backend.scripts[tokens] = (100 + i,) * 160
        h.submit(GenerationRequest(i, tokens, n_max=n_max))
    while not h.engine.stats().n_set_aside:
        h.step()
    assert not any(h.events[i][-1].finish for i in (1, 2, 3)), "all have said something, and none has ended"
    (waits,) = [run.request_id for run in h.engine._runs if run.sequence is None]
    while not any(h.events[i][-1].finish for i in (1, 2, 3)):
        h.step()
        assert any(run.sequence is None for run in h.engine._runs)
    h.step()
    assert len(h.engine._runs) == 2 and all(run.sequence is not None for run in h.engine._runs)
    assert waits in {run.request_id for run in h.engine._runs}
    h.drain()
    assert [h.last(i).finish for i in (1, 2, 3)] == [FinishReason.LENGTH] * 3


def test_if_nobody_is_left_to_end_the_first_that_lacked_room_tries_again() -> None:
    h = Harness()
    runs = [Run(GenerationRequest(i, (i, 2, 3)), lambda event: None, 0.0) for i in (1, 2)]
    for run in runs:
        run.lacks_room = True
    h.engine._admission.admit(runs)
    assert [run.sequence is not None for run in runs] == [True, False]
    h.engine._admission.admit(runs)
    assert runs[1].sequence is None, "one runs now"


def test_each_of_two_with_the_same_prompt_comes_back_to_what_it_has_said() -> None:
    h = Harness(endless(n_seq_max=2), n_sequences=1, n_stowed=8)
    said = {i: GenerationRequest(i, LONG[:60], n_max=30, sampling=SamplingParams(temperature=0.7, seed=i + 1),
                                 priority=Priority.INVOKED) for i in (1, 2)}  # fmt: skip
    for request in said.values():
        h.submit(request)
    for _ in range(14):
        h.step()
    assert [len(run.path) > 64 for run in h.engine._runs] == [True, True]
    for i in (3, 4):
        h.submit(GenerationRequest(i, (i, *LONG[:50]), n_max=4))
    h.drain()
    stats = h.engine.stats()
    assert stats.n_set_aside >= 2 and stats.n_restores >= 2
    n_said = sum(h.last(i).stats.n_generated for i in h.events)
    assert stats.counters.generated <= n_said
    for i, request in said.items():
        assert (h.text(i), h.last(i).finish) == alone(request, endless())


def endless(*, n_seq_max: int = 4) -> FakeBackend:
    """A model that does not end by itself."""
    backend = FakeBackend(VOCAB, n_ctx=1024, n_seq_max=n_seq_max)
    backend.eos_bias = -9.0
    return backend


def test_idle_sequences_are_stowed_once_nobody_waits_for_a_byte() -> None:
    h = Harness(FakeBackend(VOCAB, n_ctx=8192, n_seq_max=9), n_sequences=8, n_stowed=16, n_ctx=2048)
    for i in range(1, 7):
        h.submit(GenerationRequest(i, (i, *LONG[:600]), n_max=0, priority=Priority.TYPING))
    while not h.engine.is_idle:
        h.step()
        assert h.engine.is_idle or not h.engine.stats().n_stows
    h.drain()
    stats = h.engine.stats()
    assert (stats.n_resident, stats.n_stowed, stats.n_used_cells) == (2, 4, 2 * 601)
    assert all(h.engine.n_reusable((i, *LONG[:600])) == 601 for i in range(1, 7))


def test_stats_say_what_is_there() -> None:
    h = Harness(FakeBackend(VOCAB, n_ctx=1024, n_seq_max=2), n_sequences=1, n_stowed=8)
    for i in range(1, 4):
        h.submit(GenerationRequest(i, (i, *LONG[:100]), n_max=0, priority=Priority.TYPING))
        h.drain()
    h.submit(GenerationRequest(9, (1, *LONG[:100], 5), n_max=0, priority=Priority.PREFETCH))
    waiting = h.engine.stats()
    assert (waiting.waiting, waiting.running) == ((0, 0, 1, 0), (0, 0, 0, 0))
    h.submit(GenerationRequest(10, (8, *LONG[:200]), n_max=0, priority=Priority.INVOKED))
    h.submit(GenerationRequest(11, (9, *LONG[:200]), n_max=0, priority=Priority.BACKGROUND))
    h.step()
    stats = h.engine.stats()
    assert (stats.waiting, stats.running) == ((0, 0, 0, 1), (0, 1, 1, 0))
    assert dict(stats.claims) == dict.fromkeys(dict(stats.claims), 0) | {"new": 4, "restored": 1}
    assert stats.n_used_cells == stats.n_resident_tokens == h.backend.n_used()
    assert (stats.n_cells, stats.n_stowed, stats.n_stowed_tokens, stats.n_stows, stats.n_restores) == (1024, 2, 202, 3, 1)
    assert stats.stowed_bytes == h.engine.kv.stowage.n_bytes > 2 * 404
    assert stats.counters == h.engine.counters()
    assert hash(stats)
