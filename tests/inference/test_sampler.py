"""The greedy choice alone; what is drawn, penalized or healed is tested with the engine."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from inference.sampler import highest


@given(st.lists(st.sampled_from([-2.0, 0.0, 1.5, 3.0, float("-inf")]), min_size=1, max_size=30))
def test_the_highest_is_the_first_of_several_also_in_what_may_not_be_changed(values: list[float]) -> None:
    scores = np.array(values, dtype=np.float32)
    scores.flags.writeable = False
    assert highest(scores) == values.index(max(values))
