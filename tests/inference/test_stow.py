"""Sequences in RAM, and the cache that takes them out and puts them back: what is kept, what is found, what goes first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.backend import Outcome, Row
from inference.kv_cache import IDLE_CELLS, MIN_COPY, Claim, KvCache
from inference.sequence import Sequence, n_common, n_common_packed, pack
from inference.stow import Stowage, Stowed
from inference.types import ClaimKind
from tests.support.fake_backend import FakeBackend, FakeVocab

VOCAB = FakeVocab()
LIMIT = 1 << 20


def stowed(tokens: tuple[int, ...], last_used: int = 0, n_bytes: int = 10) -> Stowed:
    return Stowed(tokens, pack(tokens), b"x" * n_bytes, {}, len(tokens), False, last_used)


def test_the_one_used_longest_ago_goes_by_number_and_by_bytes() -> None:
    for stowage in (Stowage(2, 1000), Stowage(9, 25)):
        a, b, c = stowed((1,), 1), stowed((2,), 3), stowed((3,), 2)
        assert all(stowage.put(s) for s in (a, b, c))
        assert stowage.all == (c, b)
        assert stowage.n_bytes == 20
        assert not stowage.put(stowed((4,), 0)), "it is itself the one used longest ago"
        assert stowage.all == (c, b)


@pytest.mark.parametrize("stowage", [Stowage(0, 1000), Stowage(5, 0), Stowage(5, 9)])
def test_what_has_no_place_is_not_kept(stowage: Stowage) -> None:
    assert not stowage.put(stowed((1,)))
    assert not len(stowage)
    assert stowage.is_open is (stowage.max_bytes == 9)


def test_nothing_goes_for_what_is_not_kept() -> None:
    stowage = Stowage(9, 25)
    oldest, newest = stowed((1, 2), 1), stowed((3,), 3)
    assert stowage.put(oldest) and stowage.put(newest)
    assert not stowage.put(stowed((4,), 2, n_bytes=20)), "without the oldest it would have no place yet"
    assert not stowage.put(stowed((1, 2, 5), 2, n_bytes=20)), "nor instead of its own beginning"
    assert stowage.all == (oldest, newest)
    assert stowage.put(stowed((4,), 2, n_bytes=15))
    assert [s.tokens for s in stowage.all] == [(4,), (3,)]


def test_what_goes_has_gone_before_another_comes() -> None:
    seen: list[int] = []

    class Watched(Stowage):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if name == "_stowed":
                seen.append(self.n_bytes)

    stowage = Watched(9, 25)
    for i in range(5):
        assert stowage.put(stowed((i,), i, n_bytes=20))
    assert seen == [0, 0, 20, 0, 20, 0, 20, 0, 20, 0, 20]


def test_a_longer_one_replaces_its_beginning() -> None:
    stowage = Stowage(9, 1000)
    stowage.put(stowed((1, 2), 5))
    stowage.put(stowed((1, 3), 5))
    stowage.put(stowed((1, 2, 3), 6))
    assert [s.tokens for s in stowage.all] == [(1, 3), (1, 2, 3)]
    assert stowage.match(pack((1, 2, 9))) == (stowage.all[1], 2)
    assert stowage.match(pack((7,))) == (None, 0)


def test_logits_count_as_bytes_and_only_those_at_the_ends_are_kept() -> None:
    sequence = Sequence(0)
    sequence.n_prompt = 4
    sequence.append(range(8), pack(range(8)))
    for p in range(2, 8):
        sequence.keep_logits(p, np.full(100, p, dtype=np.float32))
    kept = Stowed.of(sequence, b"state")
    assert {p: row[0] for p, row in kept.logits.items()} == {3: 3, 7: 7}
    assert kept.n_bytes == 5 + 2 * 400


@given(st.lists(st.integers(0, 2), max_size=600), st.lists(st.integers(0, 2), max_size=600), st.integers(0, 600))
def test_common_prefix(a: list[int], b: list[int], share: int) -> None:
    b = a[:share] + b
    want = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    assert n_common(a, tuple(b)) == n_common_packed(pack(a), bytearray(pack(b))) == n_common_packed(pack(b), pack(a)) == want


class Cache:
    """A KvCache on the fake, used without an engine. The books are compared with the cells at every step."""

    def __init__(
        self, *, n_sequences: int = 3, n_ctx: int = 8192, n_stowed: int = 8, stow_bytes: int = LIMIT, partial: bool = True
    ) -> None:
        self.backend = FakeBackend(VOCAB, n_ctx=n_ctx, n_batch=8192, n_seq_max=n_sequences, partial=partial)
        self.kv = KvCache(self.backend, n_sequences, n_stowed=n_stowed, stow_bytes=stow_bytes)
        self.ids = iter(range(1, 10_000))

    def claim(self, tokens: tuple[int, ...], *, background: bool = False) -> Claim | None:
        claim = self.kv.claim(tokens, next(self.ids), background=background)
        self.check()
        if claim is not None:
            assert tuple(claim.sequence.tokens[: claim.n]) == tokens[: claim.n]
        return claim

    def fill(self, tokens: tuple[int, ...], *, background: bool = False) -> Claim:
        """Claim, evaluate the rest and release."""
        claim = self.claim(tokens, background=background)
        assert claim is not None
        self.go_on(claim, tokens)
        self.kv.release(claim.sequence)
        return claim

    def go_on(self, claim: Claim, tokens: tuple[int, ...]) -> None:
        n = self.kv.truncate(claim.sequence, claim.n)
        rows = [Row(claim.sequence.seq, p, tokens[p], p == len(tokens) - 1) for p in range(n, len(tokens))]
        if rows:
            assert self.backend.decode(rows) is Outcome.OK
            self.kv.stored(claim.sequence, list(tokens[n:]))
            self.kv.keep_logits(claim.sequence, self.backend.logits(len(rows) - 1))
        self.check()

    def check(self) -> None:
        for sequence in self.kv.sequences:
            assert sequence.tokens == self.backend.tokens(sequence.seq)
            for p, logits in sequence.logits.items():
                assert np.array_equal(logits, self.backend._predict(tuple(sequence.tokens[: p + 1])))
        for each in self.kv.stowage.all:
            assert each.tokens == self.backend.saved_tokens(each.state)
        assert self.kv.n_used() == self.backend.n_used()
        assert self.kv.stowage.n_bytes <= self.kv.stowage.max_bytes

    def settle(self) -> int:
        for n in range(50):
            if not self.kv.settle():
                return n
            self.check()
        raise AssertionError("never settled")


def doc(i: int, n: int = 100) -> tuple[int, ...]:
    return tuple((i * 7 + k * (i + 1)) % 250 for k in range(n))


def test_what_has_to_make_place_comes_back_with_its_logits() -> None:
    c = Cache()
    for i in range(6):
        assert c.fill(doc(i)).kind is ClaimKind.NEW
    assert [c.kv.n_known(doc(i)) for i in range(6)] == [100] * 6
    back = c.claim((*doc(0), 9))
    assert back is not None and (back.kind, back.n) == (ClaimKind.RESTORED, 100)
    assert 99 in back.sequence.logits
    assert (c.kv.n_stows, c.kv.n_restores, len(c.kv.stowage)) == (4, 1, 3)


def test_a_state_that_is_refused_is_a_miss_and_forgotten() -> None:
    c = Cache()
    for i in range(6):
        c.fill(doc(i))
    c.backend.n_refused_restores = 1
    miss = c.claim(doc(0))
    assert miss is not None and (miss.kind, miss.n) == (ClaimKind.REFUSED, 0)
    assert c.kv.n_known(doc(0)) < MIN_COPY


def test_what_an_attempt_to_restore_has_emptied_is_not_counted_on() -> None:
    c = Cache(n_sequences=1)
    c.fill(doc(1, 100))
    c.fill(doc(1, 40) + doc(2, 60))  # the beginning of it by copy: there is only one place, so the first is stowed
    assert c.kv.n_known(doc(1, 100)) == 100
    c.backend.n_refused_restores = 1
    miss = c.claim(doc(1, 100))  # 100 in RAM, and 40 in the cache until they make place
    assert miss is not None and (miss.kind, miss.n) == (ClaimKind.REFUSED, 0)


def test_of_what_is_stowed_a_beginning_is_used_and_the_rest_stays() -> None:
    c = Cache()
    head = doc(9, 50)
    for i in range(6):
        c.fill(head + doc(i, 150))
    claim = c.claim(head + doc(20, 90))
    assert claim is not None and claim.n == 50
    assert all(c.kv.n_known(head + doc(i, 150)) == 200 for i in range(6))


def test_background_leaves_alone_what_somebody_types_at_in_ram_too() -> None:
    c = Cache(n_sequences=1)
    c.fill(doc(1, 100))
    c.fill(doc(2, 100))
    assert c.fill(doc(1, 70) + doc(3, 40), background=True).kind is ClaimKind.RESTORED
    assert c.kv.n_known(doc(1, 100)) == 100
    assert c.fill(doc(1, 80) + doc(4, 40)).kind is ClaimKind.RESTORED
    assert c.kv.n_known(doc(1, 100)) == 80, "somebody who types there takes it over"


def test_a_full_cache_is_not_emptied_for_nothing() -> None:
    c = Cache(n_ctx=400, n_sequences=3)
    c.fill(doc(1, 150))
    c.fill(doc(2, 100))
    c.fill(doc(3, 100))
    busy = c.claim(doc(4, 300))  # takes the place of the first
    assert busy is not None
    c.kv.make_room(300)
    c.go_on(busy, doc(4, 300))
    n_evicted = c.kv.n_evictions
    assert c.claim(doc(1, 150), background=True) is None, "it waits: the cells are taken"
    miss = c.claim(doc(1, 150))
    assert miss is not None and miss.kind is ClaimKind.FULL
    assert c.kv.n_evictions == n_evicted
    assert c.kv.n_known(doc(1, 150)) == 150
    c.kv.release(busy.sequence)
    c.kv.release(miss.sequence)
    back = c.claim(doc(1, 150), background=True)
    assert back is not None and back.kind is ClaimKind.RESTORED


def test_what_shares_all_its_cells_is_not_evicted_for_room() -> None:
    c = Cache(n_sequences=4, n_stowed=0)
    a = c.claim(doc(1, 200))
    assert a is not None
    c.go_on(a, doc(1, 200))
    shared = c.claim((*doc(1, 150), 3))  # of the busy one, by copy
    assert shared is not None and shared.kind is ClaimKind.SHARED
    c.kv.release(shared.sequence)
    c.fill(doc(2, 120))
    assert (c.kv.n_freed_by(shared.sequence), c.kv.n_used()) == (0, 320)
    # the older one frees nothing
    assert c.kv.make_room(8000)
    assert c.kv.n_known(doc(2, 120)) == 0
    assert len(shared.sequence.tokens) == 150
    assert not c.kv.make_room(8192)
    c.kv.release(a.sequence)
    assert c.kv.make_room(8192)
    # they share: emptying one of the two frees only what the other doesn't hold
    assert c.kv.n_used() == 0 and c.kv.n_evictions == 3


def test_room_is_made_no_further_than_needed_and_what_goes_is_stowed() -> None:
    c = Cache(n_ctx=1000, n_sequences=4)
    for i in range(3):
        c.fill(doc(i, 300))
    assert c.kv.make_room(350)
    assert [len(s.tokens) for s in c.kv.sequences if s.tokens] == [300, 300]
    assert [c.kv.n_known(doc(i, 300)) for i in range(3)] == [300] * 3


def test_idle_cells_are_stowed_but_for_the_last_used_and_few_more() -> None:
    c = Cache(n_sequences=9, n_ctx=16_000)
    for i in range(6):
        c.fill(doc(i, 400))
    c.settle()
    resident = [len(s.tokens) for s in c.kv.sequences if s.tokens]
    assert resident == [400] * 3 and IDLE_CELLS < 3 * 400
    assert [c.kv.n_known(doc(i, 400)) for i in range(6)] == [400] * 6
    c.fill(doc(7, 3000))
    c.settle()
    assert sorted(len(s.tokens) for s in c.kv.sequences if s.tokens) == [400, 400, 3000]
    c.fill(doc(8, 3000))
    c.settle()
    assert sorted(len(s.tokens) for s in c.kv.sequences if s.tokens) == [400, 400, 3000], "two of them are too much"
    assert c.settle() == 0


def test_without_stowing_what_is_idle_stays() -> None:
    for c in (Cache(n_sequences=6, n_stowed=0), Cache(n_sequences=6)):
        c.backend.can_stow = False
        for i in range(5):
            c.fill(doc(i, 600))
        assert c.settle() == 0
        assert sum(bool(s.tokens) for s in c.kv.sequences) == 5


@pytest.mark.parametrize(("n_below", "is_moved"), [(400, False), (600, True)])
def test_what_lies_behind_some_hundred_free_cells_is_moved_too(n_below: int, is_moved: bool) -> None:
    c = Cache()
    c.fill(doc(0, n_below))
    above = c.fill(doc(1, 900)).sequence
    before = set(c.backend.cells[above.seq])
    assert c.kv.make_room(c.backend.n_ctx - 900) and not c.kv.n_cells(s for s in c.kv.sequences if s is not above)
    c.settle()
    assert (set(c.backend.cells[above.seq]) != before) == is_moved and c.kv.n_known(doc(1, 900)) == 900


def test_what_lies_behind_many_free_cells_is_moved() -> None:
    c = Cache(n_sequences=6)
    busy = [c.claim(doc(i, 900)) for i in range(5)]
    for i, claim in enumerate(busy):
        assert claim is not None
        c.go_on(claim, doc(i, 900))
    for claim in busy:
        assert claim is not None and not c.kv._move([claim.sequence])
        c.kv.release(claim.sequence)
    before = {cell for cells in c.backend.cells for cell, _ in cells}
    assert c.settle() == 3 + 1
    after = {cell for cells in c.backend.cells for cell, _ in cells}
    assert len(after) == 1800 and not before & after, "the two that are left were put back"
    assert c.kv.n_known(doc(4, 900)) == 900
    # and where it can't be put back it is forgotten
    assert not c.kv.settle()
    c.kv._peak, c.kv._is_settled = 8000, False
    c.backend.n_refused_restores = 1
    assert c.kv.settle()
    c.check()
    assert (c.kv.n_known(doc(4, 900)), c.kv.n_known(doc(3, 900))) == (0, 900)


actions = st.lists(
    st.tuples(
        st.sampled_from(["fill", "fill", "claim", "go on", "release", "room", "settle"]),
        st.integers(0, 7), st.integers(0, 120), st.booleans(),
    ),
    max_size=40,
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(actions, st.integers(1, 4), st.booleans(), st.sampled_from([0, 2, 8]), st.sampled_from([1200, LIMIT]), st.integers(0, 2))
def test_whatever_happens_the_books_are_right(actions, n_sequences, partial, n_stowed, stow_bytes, n_refused) -> None:
    c = Cache(n_sequences=n_sequences, n_ctx=600, n_stowed=n_stowed, stow_bytes=stow_bytes, partial=partial)
    c.backend.n_refused_restores = n_refused
    busy: list[tuple[Claim, tuple[int, ...]]] = []
    for name, i, n, background in actions:
        tokens = doc(1, n // 2) + doc(i, n + 1)
        if name in ("fill", "claim"):
            claim = c.claim(tokens, background=background)
            assert claim is not None or all(not s.is_idle for s in c.kv.sequences) or background
            if claim is None:
                continue
            if name == "claim":
                busy.append((claim, tokens))
            else:
                if c.kv.n_used() + len(tokens) > 600:
                    c.kv.make_room(len(tokens))
                if 600 - c.kv.n_used() >= len(tokens):
                    c.go_on(claim, tokens)
                c.kv.release(claim.sequence)
        elif name == "go on" and busy and 600 - c.kv.n_used() >= len(busy[0][1]):
            c.go_on(*busy[0])
            busy[0] = (Claim(busy[0][0].sequence, len(busy[0][1]), ClaimKind.RESIDENT), busy[0][1])
        elif name == "release" and busy:
            c.kv.release(busy.pop(0)[0].sequence)
        elif name == "room":
            c.kv.make_room(n)
        elif name == "settle":
            c.settle()
        c.check()
