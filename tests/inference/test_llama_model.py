"""llama.cpp's own behaviour on tiny real models: book-keeping of cells never changes what the model says."""

from __future__ import annotations

import logging
import threading
from itertools import pairwise
from pathlib import Path

import llama_cpp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.backend import Outcome, Row
from inference.config import EngineConfig
from inference.llama.model import LlamaBackend
from tests.inference.conftest import Open
from tests.support.feeding import assert_close, feed, fresh
from tests.support.tiny_gguf import bpe_vocabulary, write_tiny

quick = settings(max_examples=60, deadline=None)
N_ORDINARY = 300  # ids below are text in every tiny vocabulary

token_lists = st.lists(st.integers(3, N_ORDINARY), min_size=1, max_size=60)
archs = pytest.mark.parametrize("arch", ["llama", "qwen2", "gemma2", "mamba"])
attention = pytest.mark.parametrize("arch", ["llama", "qwen2", "gemma2"])


@archs
@quick
@given(tokens=token_lists, cuts=st.sets(st.integers(1, 59)))
def test_chunks_equal_one_batch(open_tiny: Open, arch: str, tokens: list[int], cuts: set[int]) -> None:
    backend = open_tiny(arch)
    whole = fresh(backend, tokens)
    edges = [0, *sorted(c for c in cuts if c < len(tokens)), len(tokens)]
    parts = [feed(backend, 0, tokens[a:b], a) for a, b in pairwise(edges)]
    assert_close(np.concatenate(parts), whole)


@attention
@quick
@given(tokens=token_lists, keep=st.integers(0, 60), more=token_lists)
def test_truncate_then_go_on(open_tiny: Open, arch: str, tokens: list[int], keep: int, more: list[int]) -> None:
    backend = open_tiny(arch)
    feed(backend, 0, tokens)
    assert backend.truncate(0, keep)
    kept = tokens[:keep]
    assert backend.seq_length(0) == len(kept)
    assert_close(feed(backend, 0, more, len(kept)), fresh(backend, kept + more)[len(kept) :])


@attention
@quick
@given(tokens=token_lists, share=st.integers(1, 60), left=token_lists, right=token_lists)
def test_copies_part_ways(open_tiny: Open, arch: str, tokens: list[int], share: int, left: list[int], right: list[int]) -> None:
    backend = open_tiny(arch)
    share = min(share, len(tokens))
    feed(backend, 0, tokens)
    assert backend.copy(0, 1, share)
    assert (backend.seq_length(0), backend.seq_length(1)) == (len(tokens), share)
    n = len(tokens)
    rows = [Row(0, n + i, t, True) for i, t in enumerate(left)] + [Row(1, share + i, t, True) for i, t in enumerate(right)]
    assert backend.decode(rows) is Outcome.OK
    logits = np.array([backend.logits(i) for i in range(len(rows))])
    assert backend.truncate(0, 0)
    assert backend.seq_length(1) == share + len(right)
    assert_close(logits[: len(left)], fresh(backend, tokens + left)[n:])
    assert_close(logits[len(left) :], fresh(backend, tokens[:share] + right)[share:])


operations = st.lists(
    st.one_of(
        st.tuples(st.just("feed"), st.integers(0, 2), st.lists(st.integers(3, N_ORDINARY), min_size=1, max_size=12)),
        st.tuples(st.just("truncate"), st.integers(0, 2), st.integers(0, 30)),
        st.tuples(st.just("copy"), st.integers(0, 2), st.tuples(st.integers(0, 2), st.integers(0, 30))),
    ),
    min_size=1,
    max_size=14,
)


@archs
@quick
@given(operations=operations)
def test_any_book_keeping(open_tiny: Open, arch: str, operations: list[tuple[str, int, object]]) -> None:
    """Lists of tokens are the reference; what is refused must have changed nothing."""
    backend = open_tiny(arch)
    held: list[list[int]] = [[], [], []]
    for name, seq, argument in operations:
        if name == "feed":
            assert isinstance(argument, list)
            feed(backend, seq, argument, len(held[seq]))
            held[seq] += argument
        elif name == "truncate":
            assert isinstance(argument, int)
            is_part = 0 < argument < len(held[seq])
            assert backend.truncate(seq, argument) == (backend.can_truncate or not is_part)
            if backend.can_truncate or not is_part:
                del held[seq][argument:]
        else:
            assert isinstance(argument, tuple)
            dst, n = argument
            can = seq != dst and not held[dst] and n <= len(held[seq])
            can = can and (backend.can_truncate or n in (0, len(held[seq])))
            assert backend.copy(seq, dst, n) == can
            if can:
                held[dst] = held[seq][:n]
        assert [backend.seq_length(s) for s in range(3)] == [len(tokens) for tokens in held]
    for seq, tokens in enumerate(held):
        assert_close(feed(backend, seq, [7], len(tokens)), fresh(backend, [*tokens, 7])[-1:])


def test_removal_of_a_part_is_known_at_load(open_tiny: Open) -> None:
    can = {arch: open_tiny(arch).can_truncate for arch in ("llama", "qwen2", "gemma2", "mamba")}
    assert can == {"llama": True, "qwen2": True, "gemma2": True, "mamba": False}


def test_a_sliding_window_that_lost_cells_is_not_continued(open_tiny: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = open_tiny("gemma2")
    feed(backend, 0, range(3, 43))
    monkeypatch.setattr(llama_cpp, "llama_memory_seq_pos_min", lambda *_: 10)
    assert not backend.truncate(0, 20)  # with a window of 16, position 20 needs 4 and what follows
    assert not backend.copy(0, 1, 20)
    assert backend.seq_length(0) == 40
    assert backend.truncate(0, 30)


def test_shared_cells_are_counted_once(open_tiny: Open) -> None:
    backend = open_tiny("llama", n_ctx=128)
    feed(backend, 0, [5] * 200)
    assert backend.copy(0, 1, 200)
    assert backend.copy(0, 2, 180)
    feed(backend, 2, [6] * 50, 180)


def test_logits_are_a_read_only_view_of_rows_that_wanted_them(open_tiny: Open) -> None:
    backend = open_tiny("llama")
    assert backend.decode([Row(0, 0, 5), Row(0, 1, 6, True)]) is Outcome.OK
    logits = backend.logits(1)
    assert logits.shape == (backend.vocab.n_tokens,)
    with pytest.raises(ValueError, match="read-only"):
        logits[0] = 1
    for i in (-1, 0, 2):
        with pytest.raises(ValueError, match="row"):
            backend.logits(i)


def test_greedy_text_of_a_tiny_model_varies(open_tiny: Open) -> None:
    backend = open_tiny("qwen2")
    tokens = [5]
    for pos in range(60):
        tokens.append(int(feed(backend, 0, tokens[-1:], pos)[0].argmax()))
    assert len(set(tokens)) > 15


def test_longest_sequence_is_what_the_model_was_trained_for(tiny_dir: Path) -> None:
    path = write_tiny(tiny_dir / "short.gguf", n_ctx=256)
    backend = LlamaBackend(EngineConfig(n_ctx=4096, n_sequences=1, n_threads=1), path)
    assert (backend.n_ctx_seq, backend.n_ctx, backend.n_seq_max) == (256, 512, 2)
    backend.close()


def test_thread_count_changes_no_logits(open_tiny: Open) -> None:
    backend = open_tiny("llama")
    tokens = list(range(5, 40))
    one = fresh(backend, tokens)
    backend.set_threads(2)
    two = fresh(backend, tokens)
    backend.set_threads(1)
    assert_close(one, two)


def test_the_vocabulary_outlives_the_backend(tiny_dir: Path) -> None:
    path = write_tiny(tiny_dir / "closed.gguf", vocabulary=bpe_vocabulary(fim=False))
    backend = LlamaBackend(EngineConfig(n_ctx=256, n_threads=1), path)
    n_threads = threading.active_count()
    backend.set_abort(lambda: False)
    vocab = backend.vocab
    expected = vocab.encode(b"def f():")
    assert backend.decode([Row(0, 0, 5, True)]) is Outcome.OK
    backend.close()
    backend.close()
    assert backend.decode([Row(0, 1, 5)]) is Outcome.FATAL
    with pytest.raises(ValueError, match="row 0"):
        backend.logits(0)
    backend.set_threads(1)
    del backend
    assert vocab.encode(b"def f():") == expected
    assert threading.active_count() == n_threads


@pytest.mark.skipif(llama_cpp.llama_supports_gpu_offload(), reason="this build has a GPU backend")
def test_layers_asked_for_without_a_gpu_cost_one_warning(
    tiny_models: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody who sets nothing has asked for nothing."""
    asked = frozenset({"n_gpu_layers"})
    for n_gpu_layers, explicit, n_warnings in ((20, asked, 1), (20, frozenset(), 1), (-1, asked, 1), (-1, frozenset(), 0),
                                               (-1, frozenset({"n_ctx"}), 0), (0, asked, 0)):  # fmt: skip
        caplog.clear()
        config = EngineConfig(n_ctx=256, n_threads=1, n_gpu_layers=n_gpu_layers, explicit=explicit)
        with caplog.at_level(logging.WARNING):
            LlamaBackend(config, tiny_models["llama"]).close()
        assert len(caplog.records) == n_warnings
        assert all("CPU" in record.getMessage() for record in caplog.records)
