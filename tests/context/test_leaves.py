"""Where the leaves of a text are: after any replacements as in a plain row of them, and most of it shared."""

from __future__ import annotations

from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from context.leaf import Leaf
from context.leaves import MOST, Leaves, Place
from context.text import Text

some = st.lists(st.sampled_from([b"a", b"xyz", b"\n", b"a\nb\r\n", b"\r\r", b"long and \n longer\n"]).map(Leaf), max_size=14)
changes = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), some), max_size=6)


def check(leaves: Leaves, row: list[Leaf]) -> None:
    """Everything that holds for a row of these very leaves, in branches of 2 to 4."""
    assert len(leaves) == len(row) and all(a is b for a, b in zip(leaves, row, strict=True))
    starts, breaks = [0], [0]
    for leaf in row:
        starts.append(starts[-1] + len(leaf.data))
        breaks.append(breaks[-1] + leaf.n_breaks)
    assert (leaves.n_bytes, leaves.n_breaks) == (starts[-1], breaks[-1])
    if not row:
        return

    def is_at(place: Place | None, k: int) -> bool:
        return (place.leaf is row[k] and place[1:3] == (starts[k], breaks[k])) if place is not None else k in (-1, len(row))

    place = leaves.at(0)
    for k in range(len(row)):
        assert is_at(place, k) and is_at(leaves.previous(place), k - 1)
        for offset in range(starts[k], starts[k + 1]):
            assert is_at(leaves.at(offset), k) and is_at(leaves.before(offset + 1), k)
        for n in range(breaks[k] + 1, breaks[k + 1] + 1):
            assert is_at(leaves.with_break(n), k)
        after = leaves.next(place)
        assert is_at(after, k + 1)
        place = after or place
    assert is_at(leaves.at(starts[-1]), len(row) - 1) and is_at(leaves.before(0), 0)
    sizes = [len(branch.leaves) for branch in leaves._branches]
    assert max(sizes) <= 4 and (len(sizes) == 1 or min(sizes) >= 2), f"{sizes}"


@settings(max_examples=60, deadline=None)
@given(some, changes)
def test_after_any_replacements_every_leaf_is_found(
    row: list[Leaf], replacements: list[tuple[float, float, list[Leaf]]]
) -> None:
    with mock.patch("context.leaves.MOST", 4), mock.patch("context.leaves._FEWEST", 2):
        leaves = Leaves.of(row)
        check(leaves, row)
        for a, b, new in replacements:
            if not row:
                break
            i, j = sorted((int(a * (len(row) - 1)), int(b * (len(row) - 1))))
            before, old = leaves, list(row)
            places = [leaves.at(sum(len(leaf.data) for leaf in row[:k])) for k in (i, j)]
            leaves = leaves.replaced(*places, tuple(new))  # type: ignore[arg-type]
            row[i : j + 1] = new
            check(leaves, row)
            check(before, old)


def test_an_edit_of_a_long_text_shares_all_but_a_few_branches() -> None:
    text = Text.of("some line of code, as in most files\n" * 50_000)
    n = len(text._leaves._branches)
    assert n > 20, "too short: this shows nothing"
    for line in (0, 777, 25_000, 49_999):
        at = text.line_end(line)
        for new in (b"x", b"\n", b"word\n" * 300):
            known = {id(branch) for branch in text._leaves._branches}
            text = text.edit(at, at, new)
            fresh = [branch for branch in text._leaves._branches if id(branch) not in known]
            assert len(fresh) <= 3 and all(len(branch.leaves) <= MOST for branch in fresh)


def test_what_is_emptied_leaves_no_crumbs_of_branches() -> None:
    text = Text.of("some line of code, as in most files\n" * 50_000)
    while len(text) > 100_000:  # again and again the middle of what is there
        third = len(text) // 300
        for at in range(len(text) - 2 * third, third, -3 * third):
            text = text.edit(at, at + third, b"")
        sizes = [len(branch.leaves) for branch in text._leaves._branches]
        assert len(sizes) <= 1 + sum(sizes) // 8, f"{sizes}"
