"""States of a draft model that survive its engine with its target's, on the strict fake: put back whole and verified, or alone
thrown away, and whatever comes of it the target's is used and says the same."""

from __future__ import annotations

import random
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inference.backend import Vocab
from inference.costs import CostTable
from inference.drafts.drafting import Drafting
from inference.drafts.model import DraftModel
from inference.healing import HealingIndex
from inference.prompt_cache.archive import Archive
from inference.prompt_cache.partner import Partner
from inference.prompt_cache.store import Store
from inference.types import Costs
from tests.inference.test_saved_prompts import States, cold, damaged
from tests.inference.test_saved_records import FINGERPRINT
from tests.support.fake_backend import FakeBackend
from tests.support.saved_prompts import Kept, tokens, value_files, wait_until
from tests.support.saving_engine import NEVER, VOCAB, SavingEngine

DRAFT = replace(FINGERPRINT, model="b" * 64).digest


class Pair(SavingEngine):
    """A target and a draft that is always asked and always right, each with states of its own on one directory."""

    def __init__(self, place: Path, states: tuple[States, States], of: bytes = DRAFT, draft: Any = None, **more: Any) -> None:
        self.draft = draft or FakeBackend(VOCAB, n_ctx=4096, n_batch=256, n_seq_max=3, states=states[1])
        self.draft.eos_bias = NEVER
        archive = Archive(Store(place, 1 << 30), of)
        archive.start()
        wait_until(lambda: not archive.is_opening)

        def make(vocab: Vocab, table: CostTable, healing: HealingIndex) -> Drafting:
            self.model = DraftModel(self.draft, CostTable(Costs(0.1, 1.0)), healing, n_ctx=2048, confident=0.0)
            made = Drafting(vocab, table, healing, sources=(), computed=self.model, forced=3)
            self.partner = made.partner = Partner(archive, self.model, self.draft, lambda: self.now)
            return made

        super().__init__(place, states[0], make_drafting=make, **more)

    def step(self) -> bool:
        busy = super().step()
        for sequence in self.model.cells.sequences:
            assert sequence.tokens == self.draft.tokens(sequence.seq)
        return busy

    def rest(self, seconds: float = 6.0) -> None:
        super().rest(seconds)
        self.written()

    def written(self) -> None:
        wait_until(lambda: not self.partner.archive._pending)

    def say_again(self, path: tuple[int, ...]) -> tuple[str, int]:
        """In two requests, as keys come; what was said, and how many rows the draft was given for both."""
        before = sum(map(len, self.draft.decoded))
        first = self.say(path, n_max=2)
        self.now += 0.5
        wait_until(lambda: self.partner._fetch is None or self.partner._fetch.is_done)
        self.drain()
        return first.text + self.say((*path, 7), n_max=2).text, sum(map(len, self.draft.decoded)) - before

    def kill(self) -> None:
        super().kill()
        self.partner.finish(100.0)


def expected(path: tuple[int, ...]) -> str:
    return cold(path, 2) + cold((*path, 7), 2)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "prompts"


@pytest.fixture
def states() -> tuple[States, States]:
    return {}, {}


def saved(place: Path, states: tuple[States, States], *paths: tuple[int, ...]) -> None:
    """By an engine that is gone."""
    first = Pair(place, states)
    for path in paths:
        first.say(path)
        first.rest()
    assert len(Kept(place).store.listed(DRAFT)) == len(paths)
    first.kill()


def test_the_draft_goes_on_where_it_was_with_its_target(place: Path, states: tuple[States, States]) -> None:
    path = tokens(1, 700)
    saved(place, states, path)
    second = Pair(place, states)
    said, n_rows = second.say_again(path)
    assert said == expected(path)
    assert second.stats.n_disk_hits == 1 and second.partner.n_hits == 1 and n_rows < 30
    third = Pair(place, ({}, {}), of=b"x" * 32, fingerprint=b"y" * 32)
    _, n_cold = third.say_again(path)
    assert n_cold >= 700
    second.kill()
    third.kill()


def test_at_the_end_it_is_saved_with_its_target(place: Path, states: tuple[States, States]) -> None:
    first = Pair(place, states)
    first.say(tokens(1, 400))
    first.end()
    assert len(Kept(place).store.listed(DRAFT)) == 1 and len(value_files(place)) == 2


def test_what_is_private_is_not_saved_by_way_of_the_draft(place: Path, states: tuple[States, States]) -> None:
    """It has fewer sequences than its target: what it holds goes on with a private text, behind what another has too."""
    first = Pair(place, states, draft=FakeBackend(VOCAB, n_ctx=4096, n_batch=256, n_seq_max=1, states=states[1]))
    secret = tuple(150 + i % 7 for i in range(200))
    first.say(tokens(1, 700))
    first.say((*tokens(1, 300), *secret), is_private=True)
    assert first.draft.tokens(0)[300:500] == list(secret)
    first.rest()
    first.end()
    (listed,) = Kept(place).store.listed(DRAFT)
    assert listed.entry.n_tokens == 300
    contents = [file.read_bytes() for file in value_files(place)]
    assert len(contents) == 2 and all(np.array(secret[:20], "<i4").tobytes() not in data for data in contents)


class Elsewhere(FakeBackend):
    def logits(self, i: int) -> Any:
        return super().logits(i) + np.float32(0.02)


@pytest.mark.parametrize("how", ["says something else", "refused"])
def test_what_is_wrong_with_the_draft_is_discarded_alone(how: str, place: Path, states: tuple[States, States]) -> None:
    path = tokens(1, 400)
    saved(place, states, path)
    kind = Elsewhere if how == "says something else" else FakeBackend
    draft = kind(VOCAB, n_ctx=4096, n_batch=256, n_seq_max=3, states=states[1])
    draft.n_refused_restores = int(how == "refused")
    second = Pair(place, states, draft=draft)
    said, _ = second.say_again(path)
    assert said == expected(path) and second.stats.n_disk_hits == 1 and second.partner.n_hits == 0
    wait_until(lambda: second.partner.figures.n_discarded == 1)
    assert second.stats.n_discarded == 0
    wait_until(lambda: not Kept(place).store.listed(DRAFT))
    second.kill()


def test_bits_that_turned_in_the_draft_s_file_cost_the_draft_only(place: Path, states: tuple[States, States]) -> None:
    chance, paths = random.Random(3), [tokens(i, 300) for i in range(8)]
    saved(place, states, *paths)
    listed = {each.entry.path: each for each in Kept(place).store.listed(DRAFT)}
    files = [file for file in value_files(place) if any(is_of_draft(file, path) for path in paths)]
    assert len(listed) == len(files) == 8
    contents = [file.read_bytes() for file in files]
    for file, data, other in zip(files, contents, contents[1:] + contents[:1], strict=True):
        changed = damaged(data, other, chance)
        file.write_bytes(changed if changed != data else b"")
    second = Pair(place, states)
    for path in paths:
        assert second.say_again(path)[0] == expected(path)
    assert second.stats.n_disk_hits == 8 and second.stats.n_discarded == 0 and second.partner.n_hits == 0
    wait_until(lambda: second.partner.figures.n_discarded == 8)
    second.kill()


def is_of_draft(file: Path, path: tuple[int, ...]) -> bool:
    data = file.read_bytes()
    return DRAFT in data[:96] and np.array(path[:200], "<i4").tobytes() in data


@pytest.mark.parametrize("name", [field.name for field in fields(FINGERPRINT)])
def test_of_a_draft_that_differs_in_anything_nothing_is_found(name: str, place: Path, states: tuple[States, States]) -> None:
    path = tokens(1, 400)
    saved(place, states, path)
    value = getattr(FINGERPRINT, name)
    other = not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else value + "x"
    second = Pair(place, states, of=replace(FINGERPRINT, **{"model": "b" * 64, name: other}).digest)
    assert second.say_again(path)[0] == expected(path)
    assert second.stats.n_disk_hits == 1 and second.partner.n_hits == 0 and second.draft.n_restored == 0
    second.kill()


def test_a_draft_that_is_lost_is_neither_saved_nor_put_back(place: Path, states: tuple[States, States]) -> None:
    path = tokens(1, 400)
    saved(place, states, path)
    second = Pair(place, states)
    second.model.is_lost = True
    assert second.say_again(path)[0] == expected(path)
    second.say(tokens(2, 400))
    second.rest()
    assert second.partner.n_hits == 0 and len(Kept(place).store.listed(DRAFT)) == 1
    second.kill()
