"""The longest latest match, compared with a search that looks at every place."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from inference.drafts.draft import N_GRADES, grades_of
from inference.drafts.match import LONGEST, Match, longest_match


def plain(text: list[int], last: list[int], shortest: int, first: list[int] | None, near: int | None) -> Match | None:
    found = []
    for end in range(len(text) - 1):
        n = 0
        while n < min(len(last), LONGEST, end + 1) and text[end - n] == last[-1 - n]:
            n += 1
        if n and (first is None or text[end + 1] in first):
            found.append((n, end + 1))
    n = max((n for n, _ in found), default=0)
    places = [at for m, at in found if m == n]
    if not n or n < shortest:
        return None
    return Match(n, places[-1] if near is None else min(places, key=lambda at: abs(at - near)))


tokens = st.lists(st.integers(0, 2), max_size=40)


@settings(max_examples=400, deadline=None)
@given(
    tokens,
    tokens,
    st.booleans(),
    st.integers(1, 3),
    st.none() | st.lists(st.integers(0, 2), max_size=2),
    st.none() | st.integers(0, 40),
)
@example([1] * 80, [1] * 70, False, 1, None, None)
@example([0, 1, 2] * 50, [0, 1, 2] * 30, False, 2, [0], None)
@example([0] + [1, 2] * 40, [0] + [1, 2] * 40, True, 1, None, 3)
def test_it_is_the_longest_and_of_these_the_latest(text, last, is_same, shortest, first, near) -> None:  # type: ignore[no-untyped-def]
    """is_same: a text looked for in itself."""
    array = np.array(text, dtype=np.int32)
    end = array if is_same else np.array(last, dtype=np.int32)
    wanted = None if first is None else np.array(sorted(first), dtype=np.int64)
    found = longest_match(array, end, shortest=shortest, first=wanted, near=near)
    assert found == plain(text, text if is_same else last, shortest, first, near)


def test_a_token_behind_more_that_agree_is_no_less_sure() -> None:
    for n in range(60):
        grades = grades_of(n, 60)
        assert len(grades) == 60 and list(grades) == sorted(grades) and grades[-1] == N_GRADES - 1
        assert grades[1:] == grades_of(n + 1, 59)
