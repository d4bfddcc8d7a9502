"""Pairs and their sign test."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.paired import Pairs, sign_test


@pytest.mark.parametrize(
    ("n_a", "n_b", "p"),
    [
        (0, 0, 1.0),
        (1, 0, 1.0),
        (1, 1, 1.0),
        (5, 5, 1.0),
        (6, 0, 0.03125),
        (13, 1, 0.0018310546875),
        (8, 2, 0.109375),
        (10, 3, 0.09228515625),
    ],
)
def test_known_values(n_a: int, n_b: int, p: float) -> None:
    assert sign_test(n_a, n_b) == pytest.approx(p, rel=1e-6)


@given(st.integers(0, 6), st.integers(0, 6))
def test_it_is_the_share_of_splits_at_least_as_uneven(n_a: int, n_b: int) -> None:
    splits = [abs(2 * sum(wins) - n_a - n_b) for wins in product((0, 1), repeat=n_a + n_b)]
    assert sign_test(n_a, n_b) == pytest.approx(sum(split >= abs(n_a - n_b) for split in splits) / len(splits))


def test_large_numbers() -> None:
    assert sign_test(4000, 0) == 0
    assert 0.1 < sign_test(5000, 4900) < 0.4


@given(st.integers(0, 60), st.integers(0, 60))
def test_it_is_a_probability_and_has_no_favourite(n_a: int, n_b: int) -> None:
    p = sign_test(n_a, n_b)
    assert 0 <= p <= 1
    assert p == sign_test(n_b, n_a)
    if n_a >= n_b:
        assert sign_test(n_a + 1, n_b) <= p


def test_pairs() -> None:
    pairs = Pairs.of([(True, True)] * 4 + [(True, False)] * 3 + [(False, True)] * 2 + [(False, False)])
    assert pairs == Pairs(both=4, only_anchored=3, only_psm=2, neither=1)
    assert (pairs.n, pairs.anchored, pairs.psm, pairs.p) == (10, 7, 6, 1.0)
    assert Pairs.of([]).p == 1.0
    assert Pairs(0, 13, 1, 0).p == 0.001831
