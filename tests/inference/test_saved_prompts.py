"""Prompts that survive their engine, on the strict fake: when they are saved, that they come back as they were or not at all,
and that no text ever depends on it."""

from __future__ import annotations

import logging
import random
import threading
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inference.backend import Outcome
from inference.costs import CostTable
from inference.engine import Engine
from inference.models.lock import hold
from inference.prompt_cache import archive as archive_module
from inference.prompt_cache import store as store_module
from inference.prompt_cache.place import LOCK
from inference.prompt_cache.record import UnfitError, decode, encode
from inference.prompt_cache.restorer import MIN_GAIN
from inference.prompt_cache.saver import QUIET_S
from inference.prompt_cache.store import Store
from inference.serve.metrics import _add_stats, _Page
from inference.threads import ThreadCount
from inference.types import GenerationRequest, Priority, TokenEvent
from tests.support.fake_backend import FakeBackend
from tests.support.saved_prompts import OF, OTHER, Kept, record, tokens, value_files, wait_until
from tests.support.saving_engine import COSTS, NEVER, VOCAB, SavingEngine

States = dict[bytes, tuple[int, ...]]


@cache
def cold(path: tuple[int, ...], n_max: int = 4) -> str:
    """What an engine says that has never heard of anything."""
    backend = FakeBackend(VOCAB, n_ctx=4096, n_batch=512)
    backend.eos_bias = NEVER
    engine = Engine(backend, n_ctx=2048, n_sequences=1, costs=COSTS)
    events: list[TokenEvent] = []
    engine.submit(GenerationRequest(1, path, n_max=n_max), events.append)
    while engine.step():
        pass
    return "".join(event.text for event in events)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "prompts"


@pytest.fixture
def states() -> States:
    return {}


def saved(place: Path, states: States, *paths: tuple[int, ...]) -> None:
    """By an engine that is gone."""
    first = SavingEngine(place, states)
    for path in paths:
        first.say(path)
        first.rest()
    first.kill()


def test_the_next_engine_goes_on_where_the_last_one_was(place: Path, states: States) -> None:
    saved(place, states, tokens(1, 700))
    second = SavingEngine(place, states)
    assert second.engine.n_reusable(tokens(1, 700)) == 700 // 64 * 64
    said = second.say(tokens(1, 700))
    assert said.text == cold(tokens(1, 700))
    assert (said.stats.n_prompt, said.stats.n_reused, said.stats.n_evaluated) == (700, 699, 1)
    assert sum(map(len, second.backend.decoded)) <= 6, "the probe, the last token, and what it said"
    stats = second.stats
    assert (stats.n_disk_hits, stats.disk_misses, stats.n_discarded, stats.n_saved) == (1, (), 0, 1)
    said = second.say((*tokens(1, 600), 5, 6))
    assert said.text == cold((*tokens(1, 600), 5, 6)) and said.stats.n_reused == 600


def test_a_prompt_that_was_only_prepared_comes_back_too(place: Path, states: States) -> None:
    first = SavingEngine(place, states)
    first.say(tokens(1, 400), n_max=0, priority=Priority.PREFETCH)
    first.rest()
    first.kill()
    said = SavingEngine(place, states).say(tokens(1, 400))
    assert said.text == cold(tokens(1, 400)) and said.stats.n_reused >= 399


# -- when


def test_what_is_short_is_not_saved_and_what_is_quiet_is(place: Path) -> None:
    engine = SavingEngine(place)
    engine.say(tokens(1, 250), n_max=1)
    engine.rest(QUIET_S + 1)
    assert engine.stats.n_saves == 0
    engine.say(tokens(2, 300))
    engine.rest(QUIET_S - 1)
    assert engine.stats.n_saves == 0, "somebody may type on"
    engine.rest(1.5)
    assert engine.stats.n_saves == 1
    engine.say((*tokens(2, 300), 7, 7, 7))
    engine.rest()
    assert engine.stats.n_saves == 1, "too little has come"
    engine.say((*tokens(2, 300), *range(70)))
    engine.rest()
    assert (engine.stats.n_saves, engine.stats.n_saved) == (2, 1), "it takes the place of its beginning"
    assert len(value_files(place)) == 1


def test_while_somebody_types_what_has_grown_is_saved_now_and_then(place: Path, states: States) -> None:
    engine = SavingEngine(place, states)
    n_saves = []
    for i in range(40):  # a key every second, 20 tokens each
        engine.say(tokens(1, 300 + 20 * i))
        engine.now += 1.0
        engine.drain()
        wait_until(lambda: not engine.archive._pending)
        n_saves.append(engine.stats.n_saves)
    assert n_saves[18] == 0 and n_saves[21] == 1 and n_saves[34] == 1
    assert n_saves[-1] <= 2
    engine.kill()
    second = SavingEngine(place, states)
    said = second.say(tokens(1, 300 + 20 * 40))
    assert said.text == cold(tokens(1, 300 + 20 * 40))
    assert said.stats.n_reused >= 300 + 20 * 18, "all but what was typed since the last save"


def test_while_steps_get_fewer_threads_it_is_saved_when_all_is_quiet_and_the_question_gets_all(place: Path) -> None:
    given, at_decode = [2], []
    threads = ThreadCount(2, given.append, CostTable(COSTS, [(1, 30.0)]), lambda: 0.0)
    engine = SavingEngine(place, threads=threads)
    engine.backend.on_decode = lambda rows: at_decode.append(given[-1])
    threads.begin(1)
    threads.end(1, 1000.0, is_whole=False)
    for i in range(40):
        engine.say(tokens(1, 300 + 20 * i))
        engine.now += 1.0
        engine.drain()
        wait_until(lambda: not engine.archive._pending)
    assert engine.stats.n_saves == 0 and set(at_decode) == {1}
    at_decode.clear()
    engine.rest()
    assert engine.stats.n_saves == 1 and at_decode == [2] and given[-1] == 1


def test_at_the_end_everything_worth_it_is_saved(place: Path, states: States) -> None:
    engine = SavingEngine(place, states, n_stowed=9, stow_bytes=1 << 20)
    for i in range(6):
        engine.say(tokens(i, 300))
    assert engine.stats.n_stowed >= 2 and engine.stats.n_saves == 0
    engine.end()
    assert engine.stats.n_saves == 6 and engine.backend.closed
    second = SavingEngine(place, states)
    for i in range(6):
        said = second.say(tokens(i, 300))
        assert said.text == cold(tokens(i, 300)) and said.stats.n_reused >= 299


@pytest.mark.parametrize("n_stowed", [0, 1])
def test_what_goes_from_the_cache_for_lack_of_place_is_saved(n_stowed: int, place: Path, states: States) -> None:
    engine = SavingEngine(place, states, n_sequences=1, n_stowed=n_stowed, stow_bytes=1 << 20)
    for i in range(2 + n_stowed + 1):
        engine.say(tokens(i, 400))
    assert engine.engine.kv.n_known(tokens(0, 400)) == 0
    engine.say((1, 2, 3), n_max=1)
    engine.rest()
    assert engine.keeper.restorer.n_known(tokens(0, 400)) == 384
    said = engine.say(tokens(0, 400))
    assert said.text == cold(tokens(0, 400)) and said.stats.n_reused == 399


def test_nothing_is_saved_while_somebody_waits(place: Path) -> None:
    engine = SavingEngine(place)
    engine.say(tokens(1, 400))
    engine.now += 30
    engine.submit(tokens(2, 1500))
    while engine.step() and not any(run.has_byte for run in engine.engine._runs):
        assert engine.backend.n_saved == 0
    engine.rest()
    assert engine.stats.n_saves == 2


def test_a_key_that_comes_while_it_is_probed_costs_the_save_only(place: Path) -> None:
    engine = SavingEngine(place)
    engine.say(tokens(1, 400))
    engine.backend.outcomes = [Outcome.ABORTED]
    engine.rest()
    assert engine.stats.n_saves == 0
    assert engine.say(tokens(1, 400)).text == cold(tokens(1, 400))


def test_what_is_private_never_reaches_the_disk(place: Path) -> None:
    engine = SavingEngine(place, n_stowed=9, stow_bytes=1 << 20)
    engine.say(tokens(1, 500), is_private=True)
    engine.say((*tokens(1, 450), *tokens(3, 300)))  # goes on in it, or in a copy of it
    for i in range(4, 8):
        engine.say(tokens(i, 300))  # it is stowed
    engine.say(tokens(1, 500))  # and comes back
    engine.rest()
    engine.end()
    assert engine.stats.n_saves == 4
    assert all(engine.keeper.restorer.n_known(path) == 0 for path in (tokens(1, 500), (*tokens(1, 450), *tokens(3, 300))))
    assert len(value_files(place)) == 4


# -- only what is right


class Elsewhere(FakeBackend):
    """Says something else behind every token, by so much."""

    more = 0.0

    def logits(self, i: int) -> Any:
        return super().logits(i) + np.float32(self.more)


@pytest.mark.parametrize("more, is_used", [(0.004, True), (0.02, False), (float("nan"), False)])
def test_what_says_something_else_than_before_is_discarded_and_said(
    more: float, is_used: bool, place: Path, states: States, caplog: pytest.LogCaptureFixture
) -> None:
    saved(place, states, tokens(1, 400))
    backend = Elsewhere(VOCAB, n_ctx=4096, n_batch=256, states=states)
    backend.more, backend.eos_bias = more, NEVER
    second = SavingEngine(place, backend=backend)
    with caplog.at_level(logging.WARNING):
        said = second.say(tokens(1, 400))
        wait_until(lambda: is_used or second.stats.n_saved == 0)
    assert said.stats.n_reused == (399 if is_used else 0)
    if not is_used:
        assert second.stats.disk_misses == (("different", 1),) and second.stats.n_discarded == 1 and not value_files(place)
        assert "discarded" in caplog.text and "something else" in caplog.text
    else:
        assert said.text == cold(tokens(1, 400))


def test_what_the_model_does_not_take_back_is_discarded(place: Path, states: States) -> None:
    saved(place, states, tokens(1, 400))
    second = SavingEngine(place, states)
    second.backend.n_refused_restores = 1
    said = second.say(tokens(1, 400))
    assert said.text == cold(tokens(1, 400)) and said.stats.n_reused == 0
    wait_until(lambda: second.stats.n_discarded == 1 and not value_files(place))
    assert second.stats.disk_misses == (("refused", 1),)


def test_of_another_fingerprint_nothing_is_found(place: Path, states: States) -> None:
    saved(place, states, tokens(1, 400))
    second = SavingEngine(place, states, fingerprint=OTHER)
    said = second.say(tokens(1, 400))
    assert said.text == cold(tokens(1, 400)) and said.stats.n_reused == 0
    assert second.stats.disk_misses == (("new", 1),) and len(value_files(place)) == 1


def test_a_file_in_another_ones_place_is_not_used(place: Path, states: States) -> None:
    saved(place, states, tokens(1, 400), tokens(2, 400))
    one, other = value_files(place)
    one_bytes, other_bytes = one.read_bytes(), other.read_bytes()
    one.write_bytes(other_bytes)
    other.write_bytes(one_bytes)
    second = SavingEngine(place, states)
    for i in (1, 2):
        said = second.say(tokens(i, 400))
        assert said.text == cold(tokens(i, 400)) and said.stats.n_reused == 0
    assert second.stats.disk_misses == (("foreign", 2),)
    wait_until(lambda: second.stats.n_saved == 0)


def damaged(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """Bits turned, bytes replaced, a part of another file, an end cut off, something behind it."""
    at, n = chance.randrange(len(data)), chance.randrange(1, 200)
    match chance.randrange(6):
        case 0:
            return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
        case 1:
            return data[:at] + chance.randbytes(n) + data[at + n :]
        case 2:
            return data[:at] + bytes(n) + data[at + n :]
        case 3:
            return data[:at] + other[at : at + n] + data[at + n :]
        case 4:
            return data[:at]
        case _:
            return data + chance.randbytes(n)


def test_a_thousand_damaged_files_are_no_records() -> None:
    chance = random.Random(1)
    data, other = (b"".join(encode(record(i, 300, 3000), OF)) for i in (1, 2))
    n_same = 0
    for _ in range(1000):
        changed = damaged(data, other, chance)
        if changed == data:
            n_same += 1
            continue
        with pytest.raises(UnfitError):
            decode(changed, OF)
    assert n_same < 20


def test_damaged_files_never_change_a_text(place: Path, states: States) -> None:
    chance = random.Random(2)
    saved(place, states, *(tokens(i, 300) for i in range(25)))
    files = value_files(place)
    assert len(files) == 25
    contents = [file.read_bytes() for file in files]
    for file, data, other in zip(files, contents, contents[1:] + contents[:1], strict=True):
        changed = damaged(data, other, chance)
        file.write_bytes(changed if changed != data else b"")
    second = SavingEngine(place, states)
    for i in range(25):
        said = second.say(tokens(i, 300))
        assert said.text == cold(tokens(i, 300)) and said.stats.n_reused == 0
    assert sum(n for _, n in second.stats.disk_misses) == 25 and second.stats.n_disk_hits == 0
    wait_until(lambda: second.stats.n_saved == 0)
    second.rest()
    assert second.stats.n_saved > 0, "and what they were of is saved anew"


# -- waiting


class Slow(Store):
    """Reads when it is let."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.may_read, self.may_open = threading.Event(), threading.Event()
        self.may_open.set()

    def open(self) -> str:
        self.may_open.wait(20)
        return super().open()

    def get(self, of: bytes, path: bytes) -> bytes | None:
        self.may_read.wait(20)
        return super().get(of, path)


def test_others_go_on_while_one_waits_for_the_disk(place: Path, states: States) -> None:
    saved(place, states, tokens(1, 400))
    store = Slow(place, 1 << 30)
    engine = SavingEngine(place, states, store=store)
    waits, other = engine.submit(tokens(1, 400)), engine.submit(tokens(2, 300))
    while not engine.events[other] or engine.events[other][-1].finish is None:
        engine.step()
    assert not engine.events[waits]
    for _ in range(5):
        assert not engine.step(), "what waits for the disk is nothing to do"
    store.may_read.set()
    said = engine.said(waits)
    assert said.text == cold(tokens(1, 400)) and said.stats.n_reused == 399


def test_two_that_want_the_same_read_it_once(place: Path, states: States) -> None:
    saved(place, states, tokens(1, 400))
    engine = SavingEngine(place, states)
    both = [engine.submit((*tokens(1, 400), i)) for i in range(2)]
    assert [engine.said(i).stats.n_reused for i in both] == [400, 400]
    assert engine.stats.n_disk_hits == 2
    assert engine.backend.n_restored == 2, "it was put back once, and once more for the question whether it is right"


@pytest.mark.parametrize("ends", ["late", "cancelled", "opening"])
def test_a_disk_that_does_not_answer_holds_nobody_up_for_long(ends: str, place: Path, states: States) -> None:
    saved(place, states, tokens(1, 400))
    store = Slow(place, 1 << 30)
    if ends == "opening":
        store.may_open.clear()
    engine = SavingEngine(place, states, store=store, is_open=ends != "opening")
    waits = engine.submit(tokens(1, 400))
    assert not engine.step()
    if ends == "cancelled":
        engine.engine.cancel(waits)
        assert not engine.step() and engine.events[waits][-1].finish == "cancelled"
    else:
        assert engine.keeper.wait_s() is not None
        engine.now += 0.3 if ends == "opening" else 2.0
        while not engine.events[waits] or engine.events[waits][-1].finish is None:
            assert engine.step()
        assert engine.stats.disk_misses == ((ends, 1),)
    store.may_open.set()
    store.may_read.set()
    assert engine.say(tokens(1, 400)).text == cold(tokens(1, 400))
    engine.kill()


def test_what_others_have_removed_is_a_miss(place: Path, states: States) -> None:
    saved(place, states, tokens(1, 400))
    engine = SavingEngine(place, states)
    other = Kept(place)
    for each in other.store.listed():
        other.store.remove(each.of, each.entry.path)
    said = engine.say(tokens(1, 400))
    assert said.text == cold(tokens(1, 400)) and engine.stats.disk_misses == (("gone", 1),)


def test_too_little_in_common_is_not_read(place: Path, states: States) -> None:
    saved(place, states, tokens(1, 400))
    engine = SavingEngine(place, states)
    said = engine.say((*tokens(1, MIN_GAIN - 1), *tokens(2, 300)))
    assert said.stats.n_reused == 0 and engine.stats.disk_misses == (("short", 1),) and engine.backend.n_restored == 0


# -- the disk


def test_a_directory_that_cannot_be_used_is_said_once_and_costs_nothing(
    place: Path, states: States, caplog: pytest.LogCaptureFixture
) -> None:
    place.write_text("")
    with caplog.at_level(logging.WARNING):
        engine = SavingEngine(place, states)
        for i in range(3):
            assert engine.say(tokens(i, 300)).text == cold(tokens(i, 300))
            engine.rest()
        engine.end()
    assert [r.levelname for r in caplog.records] == ["WARNING"] and "is not a directory" in caplog.text
    stats = engine.stats
    assert stats.n_saves == 0 and stats.why_not_saving == caplog.messages[0] and stats.disk_misses == (("off", 3),)
    assert engine.backend.n_saved == 0, "nothing is prepared that can't be written"


def test_a_directory_that_others_hold_for_long_is_opened_later(
    place: Path, states: States, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_OPEN_S", 0.02)
    monkeypatch.setattr(archive_module, "_AGAIN_S", 0.02)
    saved(place, states, tokens(1, 400))
    with hold(place / LOCK):
        engine = SavingEngine(place, states)
        engine.say(tokens(2, 400))
        engine.rest()
        assert engine.stats.n_saved == engine.stats.n_saves == 0 and engine.stats.why_not_saving == ""
    wait_until(lambda: engine.stats.n_saved == 1)
    assert engine.say(tokens(1, 400)).stats.n_reused >= 399, "what was saved before is not found"
    engine.rest()
    assert engine.stats.n_saves >= 1, "nothing is saved from then on"
    engine.kill()


def test_a_fault_of_our_own_turns_it_off(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = SavingEngine(place)
    monkeypatch.setattr(Store, "put", lambda *args, **more: 1 / 0)
    engine.say(tokens(1, 300))
    engine.rest()
    wait_until(lambda: "fault" in engine.stats.why_not_saving)
    assert engine.say(tokens(1, 310)).text == cold(tokens(1, 310))


def test_after_too_much_within_an_hour_nothing_is_written_for_a_while(place: Path) -> None:
    store = Store(place, 1 << 30, hourly_bytes=4500)
    engine = SavingEngine(place, store=store)
    n_prepared = []
    for i in range(5):
        engine.say(tokens(i, 300))
        engine.rest()
        n_prepared.append(engine.backend.n_saved)
    stats = engine.stats
    assert (stats.n_saves, stats.saves_skipped) == (1, (("too much", 1),))
    assert n_prepared[0] < n_prepared[1] == n_prepared[-1], "what can't be written is not prepared"
    assert stats.why_not_saving == "" and stats.written_bytes <= 4500


def test_what_is_too_large_is_said_once(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    engine = SavingEngine(place, store=Store(place, 100))
    with caplog.at_level(logging.WARNING):
        for i in range(3):
            engine.say(tokens(i, 300))
            engine.rest()
    assert engine.stats.saves_skipped == (("too large", 1),) and engine.stats.n_saved == 0 and engine.backend.n_saved == 2
    assert len([m for m in caplog.messages if "too large" in m]) == 1


def test_figures_are_in_the_metrics(place: Path, states: States) -> None:
    saved(place, states, tokens(1, 300))
    engine = SavingEngine(place, states)
    engine.say(tokens(1, 300))
    engine.say(tokens(2, 300))
    page = _Page()
    _add_stats(page, engine.stats)
    for line in ("midfill_engine_saved 1", "midfill_engine_disk_hits 1", 'midfill_engine_disk_misses{kind="new"} 1'):
        assert line in page.text().splitlines()


# -- whatever happens

ACTIONS = ["say", "say", "say", "rest", "type", "end", "kill", "damage", "private", "remove"]
actions = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 3), st.integers(0, 330)), max_size=14)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(actions, st.sampled_from([0, 2]), st.integers(1, 3))
def test_no_text_depends_on_what_was_saved(
    tmp_path_factory: pytest.TempPathFactory, todo: list[tuple[str, int, int]], n_stowed: int, n_sequences: int
) -> None:
    place, states = tmp_path_factory.mktemp("any") / "prompts", States()

    def new() -> SavingEngine:
        return SavingEngine(place, states, n_sequences=n_sequences, n_stowed=n_stowed, stow_bytes=1 << 20)

    engine = new()
    for what, i, n in todo:
        path = (*tokens(9, 200), *tokens(i, n + 100))
        match what:
            case "say" | "private" | "type":
                said = engine.say(path, is_private=what == "private")
                assert said.text == cold(path)
                assert said.stats.n_prompt == said.stats.n_reused + said.stats.n_evaluated
                engine.now += 21.0 if what == "type" else 0.5
            case "rest":
                engine.rest()
            case "end" | "kill":
                engine.end() if what == "end" else engine.kill()
                engine = new()
            case "damage" | "remove":
                for file in value_files(place)[: i + 1]:
                    data = file.read_bytes()
                    file.unlink() if what == "remove" else file.write_bytes(
                        data[: n % len(data)] + b"?" + data[n % len(data) :]
                    )
    engine.kill()
