"""A saved prompt's bytes: any other bit, and they are not used. What they depend on, and how they are found."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.prompt_cache.fingerprint import Fingerprint
from inference.prompt_cache.index import BLOCK, Chain, Entry, Index
from inference.prompt_cache.record import Fault, UnfitError, decode, encode
from inference.sequence import n_common, pack
from tests.support.saved_prompts import OF, OTHER, entry, record, tokens

FILE = b"".join(encode(record(3, 70, 500), OF))
FINGERPRINT = Fingerprint(
    model="a" * 64, n_ctx=8192, n_ctx_seq=4096, n_seq_max=4, is_unified=True, kv_type_k="f16", kv_type_v="f16",
    flash_attention="auto", rope="neox 1e6 1 linear", n_swa=0, device="cpu", build="0.3.36 x86_64 AVX2", state_version=2,
    n_threads=1, n_vocab=151_936,
)  # fmt: skip


def test_what_was_written_is_what_is_read() -> None:
    was, now = record(3, 70, 500), decode(FILE, OF)
    assert (now.tokens, now.n_prompt, now.state) == (was.tokens, 70, was.state)
    assert np.array_equal(now.logits, was.logits)
    assert len(FILE) == was.n_bytes
    assert now.logits.flags.writeable, "it is no view of the file, which may go"


def test_no_bit_may_be_another_one() -> None:
    for position in range(len(FILE)):
        for bit in range(8) if position < 96 or position >= len(FILE) - 32 else (position % 8,):
            changed = bytearray(FILE)
            changed[position] ^= 1 << bit
            with pytest.raises(UnfitError) as refused:
                decode(bytes(changed), OF)
            assert refused.value.fault is Fault.DAMAGED


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(FILE) - 1), st.binary(max_size=100))
def test_what_is_cut_or_goes_on_is_not_used(n: int, more: bytes) -> None:
    for data in (FILE[:n], FILE + more + b"\x00", more, FILE[:n] + more):
        if data != FILE:
            with pytest.raises(UnfitError):
                decode(data, OF)


def test_one_of_another_fingerprint_is_not_used() -> None:
    with pytest.raises(UnfitError) as refused:
        decode(FILE, OTHER)
    assert refused.value.fault is Fault.FOREIGN


def test_one_of_another_format_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("VERSION", 2), ("MAGIC", b"MIDFILL\x00")):
        with monkeypatch.context() as patched:
            patched.setattr(f"inference.prompt_cache.record.{name}", value)
            other = b"".join(encode(record(3), OF))
        with pytest.raises(UnfitError) as refused:
            decode(other, OF)
        assert refused.value.fault is Fault.FOREIGN


@pytest.mark.parametrize("n_prompt", [0, 71])
def test_lengths_that_do_not_fit_are_damage(n_prompt: int) -> None:
    with pytest.raises(UnfitError):
        decode(b"".join(encode(replace(record(3, 70), n_prompt=n_prompt), OF)), OF)


@pytest.mark.parametrize("name", [field.name for field in fields(Fingerprint)])
def test_each_part_of_the_fingerprint_counts(name: str) -> None:
    value = getattr(FINGERPRINT, name)
    other = not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else value + "x"
    changed = replace(FINGERPRINT, **{name: other})
    assert changed.digest != FINGERPRINT.digest == replace(FINGERPRINT).digest
    with pytest.raises(UnfitError):
        decode(b"".join(encode(record(1), FINGERPRINT.digest)), changed.digest)


# -- finding


def indexed(*paths: tuple[int, ...]) -> tuple[Index, list[Entry]]:
    entries = [entry(replace(record(0), tokens=path, n_prompt=len(path)))[0] for path in paths]
    return Index(OF, entries), entries


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 300), st.integers(0, 300)), min_size=1, max_size=5), st.data())
def test_a_match_is_a_beginning_in_common_to_a_block(shapes: list[tuple[int, int, int]], data: st.DataObject) -> None:
    """And never less than another entry has, beyond a block."""
    paths = [tokens(9, share + 1) + tokens(i, n) for i, n, share in shapes]
    index, entries = indexed(*paths)
    wanted = data.draw(st.sampled_from(paths)) + tuple(data.draw(st.lists(st.integers(0, 3), max_size=70)))
    match = index.match(index.chain(pack(wanted)))
    shares = {e.path: n_common(path, wanted) for path, e in zip(paths, entries, strict=True)}
    if match is None:
        assert max(shares.values()) < BLOCK
        return
    assert match.n <= shares[match.entry.path] < match.n + BLOCK
    assert match.n + BLOCK > max(shares.values())


def test_one_that_ends_there_goes_before_one_that_goes_on() -> None:
    index, (short, _) = indexed(tokens(1, 130), tokens(1, 130) + tokens(2, 200))
    match = index.match(index.chain(pack(tokens(1, 130) + (0,) * 50)))
    assert match is not None and (match.entry, match.n) == (short, 130)


def test_paths_of_other_models_are_other_paths() -> None:
    packed = pack(tokens(1))
    mine, theirs = Chain(packed, OF), Chain(packed, OTHER)
    assert mine.path(300) != theirs.path(300) and mine.blocks != theirs.blocks
    assert mine.path(299) != mine.path(300)


def test_beginnings_and_changes() -> None:
    index, (short, long, _) = indexed(tokens(1, 70), tokens(1, 200), tokens(2, 200))
    assert set(index.beginnings(index.chain(pack(tokens(1, 201))))) == {short, long}
    assert set(index.beginnings(index.chain(pack((*tokens(1, 192), *range(8)))))) == {short, long}, "but for less than a block"
    assert set(index.beginnings(index.chain(pack((*tokens(1, 191), *range(9)))))) == {short}
    assert set(index.beginnings(index.chain(pack(tokens(1, 199))))) == {short}, "what goes on stays"
    assert index.beginnings(index.chain(pack(tokens(1, 70)))) == (), "it is itself"
    without = index.without([short.path])
    assert len(index) == 3 and len(without) == 2 and without.get(short.path) is None
    used = without.used(long.path, 7.0).get(long.path)
    assert used is not None and (used.n_used, used.used_at) == (1, 7.0)
    assert without.used(short.path, 7.0) is without
