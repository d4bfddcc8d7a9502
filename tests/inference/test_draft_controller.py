"""The controller on made-up tables: what it tries, what that costs at worst, and that it finds what pays."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.costs import CostTable
from inference.drafts.controller import PAUSE, Controller
from inference.drafts.draft import N_GRADES, Draft, grades_of
from inference.types import Costs

SMALL = ((1, 27.0), (2, 48.0), (4, 66.0), (8, 110.0), (16, 174.0), (32, 322.0))
LARGE = ((1, 40.0), (2, 69.0), (4, 119.0), (8, 267.0), (16, 338.0), (32, 593.0))
GPU = ((1, 4.0), (2, 4.1), (4, 4.2), (8, 4.4), (16, 4.8), (32, 5.6))
DEAR = ((1, 10.0), (2, 25.0), (4, 60.0), (8, 130.0))


def controller(rows: tuple[tuple[int, float], ...]) -> tuple[Controller, CostTable]:
    table = CostTable(Costs(8, rows[0][1]), rows)
    return Controller(table), table


def draft(n: int, n_agreeing: int, source: str = "s", ms: float = 0.0) -> Draft:
    return Draft(source, tuple(range(n)), grades_of(n_agreeing, n), ms)


def decide(one: Controller, offer: Draft, n_rows: int) -> int:
    """Of a run with one row."""
    return one.decide(offer, one.judge(offer, n_rows, 1), n_rows)


class Text:
    """Tokens one by one, each step with a draft of which each token is right with a probability of its grade's."""

    def __init__(self, rows: tuple[tuple[int, float], ...], seed: int) -> None:
        self.controller, self.table = controller(rows)
        self.random = random.Random(seed)
        self.cost = self.cost_without = 0.0
        self.n_drafts = 0

    def run(self, n_tokens: int, right: float, *, agreeing: int = 6, length: int = 31, source: str = "s") -> None:
        n_agreeing = agreeing
        while n_tokens > 0:
            offer = draft(min(length, max(1, n_tokens - 1)), n_agreeing, source)
            self.controller.begin_step()
            n = decide(self.controller, offer, 1)
            n_right = 0
            while n_right < n and self.random.random() < right:
                n_right += 1
            self.controller.stepped(1)
            if n:
                self.n_drafts += 1
                self.controller.learn(offer.cut(n), n_right, 1, 1)
                is_right = n_right == n
            else:
                is_right = self.random.random() < right
                self.controller.watched(source, offer.grades[0], is_right=is_right)
            n_agreeing = n_agreeing + n_right + 1 if is_right else agreeing
            self.cost += self.table.cost(1 + n)
            self.cost_without += (1 + n_right) * self.table.cost(1)
            n_tokens -= 1 + n_right
            assert self.cost <= 1.02 * self.cost_without, "wherever a text ends, it has cost no more"


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([SMALL, LARGE, GPU, DEAR]), st.integers(0, 10_000), st.integers(1, 40), st.data())
def test_whatever_the_source_says_the_loss_is_bounded(rows, seed, length, data) -> None:
    text = Text(rows, seed)
    for _ in range(data.draw(st.integers(1, 4))):
        right = data.draw(st.sampled_from([0.0, 0.2, 0.5, 0.7, 0.9, 1.0]))
        text.run(data.draw(st.integers(1, 150)), right, agreeing=data.draw(st.integers(0, 60)), length=length)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([SMALL, LARGE, GPU, DEAR]), st.integers(0, 10_000))
def test_who_is_right_only_while_nothing_is_tried_gains_nothing_by_it(rows, seed) -> None:
    one, table = controller(rows)
    chance = random.Random(seed)
    cost = without = 0.0
    for _ in range(400):
        offer = draft(chance.randrange(1, 40), 50)
        one.begin_step()
        n = decide(one, offer, 1)
        one.stepped(1)
        if n:
            one.learn(offer.cut(n), 0, 1, 1)
        else:
            one.watched("s", offer.grades[0], is_right=True)
        cost, without = cost + table.cost(1 + n), without + table.cost(1)
        assert cost <= 1.02 * without


def test_several_drafts_of_a_step_may_not_lose_more_than_one_might() -> None:
    one, table = controller(GPU)
    while decide(one, draft(3, 50), 1) == 0:
        one.begin_step()
        one.stepped(1)
    n_rows, n_drafts = 2, 1
    while n := decide(one, draft(3, 50, "other"), n_rows):
        n_rows, n_drafts = n_rows + n, n_drafts + 1
    balance = one._purse.balance
    assert table.cost(n_rows) - table.cost(1) <= balance + 1e-9 and n_drafts <= 2
    one.begin_step()
    assert decide(one, draft(3, 50), 1) > 0


@pytest.mark.parametrize("rows", [SMALL, LARGE, DEAR])
def test_a_source_that_is_never_right_costs_next_to_nothing(rows) -> None:
    text = Text(rows, 1)
    text.run(600, 0.0)
    assert text.cost <= 1.02 * text.cost_without
    assert all(f.is_off and f.saved_ms <= 0 for f in text.controller.figures)


@pytest.mark.parametrize(("rows", "least"), [(SMALL, 1.5), (LARGE, 1.25), (GPU, 8.0)])
def test_what_is_repeated_pays_soon(rows, least) -> None:
    texts = [Text(rows, seed) for seed in range(6)]
    for text in texts:
        text.run(300, 0.97)
    assert sum(text.cost_without for text in texts) / sum(text.cost for text in texts) >= least
    assert not texts[0].controller.figures[0].is_off


def test_where_rows_are_dear_nothing_is_drafted_but_seldom() -> None:
    text = Text(DEAR, 1)
    text.run(400, 0.6)
    assert text.n_drafts <= 2 + 400 // PAUSE and text.cost <= 1.02 * text.cost_without


def test_a_source_that_is_off_is_found_again_when_it_pays() -> None:
    text = Text(SMALL, 1)
    text.run(400, 0.0)
    assert text.controller.figures[0].is_off
    text.run(1500, 0.98)
    assert not text.controller.figures[0].is_off and text.controller.figures[0].saved_ms > 0


def test_sources_are_judged_apart() -> None:
    text = Text(SMALL, 1)
    text.run(300, 0.97, source="good")
    before = text.cost_without - text.cost
    text.run(300, 0.0, source="bad")
    good, bad = text.controller.figures
    assert (good.source, bad.source, good.is_off, bad.is_off) == ("good", "bad", False, True)
    assert before > 0 and good.saved_ms > 0 >= bad.saved_ms


def test_a_draft_beside_others_is_worth_what_their_step_would_be_shorter_by() -> None:
    one, _ = controller(SMALL)
    alone, beside = (one.judge(draft(3, 40), n_rows, 1).gain for n_rows in (1, 8))
    assert alone > 0 > beside


def test_its_length_is_the_one_that_makes_a_token_cheapest() -> None:
    sure, _ = controller(GPU)
    for _ in range(40):
        sure.learn(draft(8, 40), 8, 1, 1)
    assert decide(sure, draft(31, 40), 1) == 31
    unsure, _ = controller(SMALL)
    for grade in range(N_GRADES):
        for _ in range(80):
            unsure.learn(Draft("s", (1, 2), (grade, grade)), 1, 1, 1)
            unsure.learn(Draft("s", (1, 2, 3), (grade,) * 3), 3, 1, 1)
    assert 0 < decide(unsure, draft(31, 40), 1) <= 7
