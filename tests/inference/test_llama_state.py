"""A sequence taken out of llama.cpp's cache and put back says what it would have said, on tiny real models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import llama_cpp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.backend import Outcome, Row
from inference.config import EngineConfig
from inference.llama import parts, state
from inference.llama.model import LlamaBackend
from tests.inference.conftest import Open
from tests.support.feeding import assert_close, feed, fresh
from tests.support.tiny_gguf import write_tiny

stowing = pytest.mark.parametrize("arch", ["llama", "qwen2", "wide gemma2"])
token_lists = st.lists(st.integers(3, 300), min_size=1, max_size=60)


@pytest.fixture(scope="module")
def open_stowing(open_tiny: Open, tiny_dir: Path) -> Iterator[Open]:
    """As `open_tiny`; and a model with a sliding window that no sequence is longer than."""
    path = write_tiny(tiny_dir / "wide.gguf", arch="gemma2", sliding_window=512)
    wide = {n: LlamaBackend(EngineConfig(n_ctx=n, n_threads=1, n_gpu_layers=0), path) for n in (128, 512)}

    def open_(arch: str, *, n_ctx: int = 512) -> LlamaBackend:
        if arch != "wide gemma2":
            return open_tiny(arch, n_ctx=n_ctx)
        for seq in range(4):
            assert wide[n_ctx].truncate(seq, 0)
        return wide[n_ctx]

    yield open_
    for backend in wide.values():
        backend.close()


@stowing
@settings(max_examples=50, deadline=None)
@given(tokens=token_lists, others=st.lists(token_lists, max_size=2), more=token_lists)
def test_saved_and_restored_is_the_same(
    open_stowing: Open, arch: str, tokens: list[int], others: list[list[int]], more: list[int]
) -> None:
    """Whatever else is in the cache, before and after."""
    backend = open_stowing(arch)
    feed(backend, 0, tokens)
    for seq, other in enumerate(others, 1):
        feed(backend, seq, other)
    saved = backend.save(0)
    assert saved is not None
    assert backend.save(0) == saved
    assert backend.truncate(0, 0)
    for seq, other in enumerate(others, 1):
        feed(backend, seq, [5], len(other))
    assert backend.restore(3, saved, len(tokens))
    assert backend.seq_length(3) == len(tokens)
    assert_close(feed(backend, 3, more, len(tokens)), fresh(backend, tokens + more)[len(tokens) :])


@stowing
@settings(max_examples=40, deadline=None)
@given(tokens=token_lists, keep=st.integers(1, 59), more=token_lists)
def test_a_restored_sequence_can_be_copied_and_cut(
    open_stowing: Open, arch: str, tokens: list[int], keep: int, more: list[int]
) -> None:
    backend = open_stowing(arch)
    keep = min(keep, len(tokens))
    feed(backend, 0, tokens)
    saved = backend.save(0)
    assert saved is not None and backend.truncate(0, 0) and backend.restore(1, saved, len(tokens))
    assert backend.copy(1, 2, keep) and backend.truncate(1, keep)
    copied = feed(backend, 2, more, keep)
    assert_close(copied, feed(backend, 1, more, keep))
    assert_close(copied, fresh(backend, tokens[:keep] + more)[keep:])


@stowing
def test_what_is_not_exactly_the_sequence_is_refused(open_stowing: Open, arch: str) -> None:
    backend = open_stowing(arch)
    tokens = list(range(5, 45))
    feed(backend, 0, tokens)
    saved = backend.save(0)
    assert saved is not None
    assert not backend.restore(0, saved, 40), "it is not empty"
    for seq, what, n in ((1, saved, 39), (1, saved, 41), (1, saved, 0), (1, saved[:-1], 40), (1, saved[: len(saved) // 2], 40),
                         (1, b"", 40), (-1, saved, 40), (99, saved, 40)):  # fmt: skip
        assert not backend.restore(seq, what, n)
        assert backend.seq_length(1) == 0
    assert backend.save(2) is None, "an empty one"
    assert backend.restore(1, saved, 40)
    assert_close(feed(backend, 1, [7], 40), feed(backend, 0, [7], 40))


@stowing
def test_without_room_it_is_refused_and_nothing_is_lost(open_stowing: Open, arch: str) -> None:
    backend = open_stowing(arch, n_ctx=128)
    feed(backend, 0, [5] * 100)
    saved = backend.save(0)
    assert saved is not None
    feed(backend, 1, [6] * 100)
    assert not backend.restore(2, saved, 100)
    assert [backend.seq_length(seq) for seq in range(3)] == [100, 100, 0]
    assert backend.truncate(1, 0)
    assert backend.restore(2, saved, 100)
    assert_close(feed(backend, 2, [9], 100), feed(backend, 0, [9], 100))


def test_what_was_shared_is_its_own_after_being_restored(open_tiny: Open) -> None:
    backend = open_tiny("llama", n_ctx=128)
    feed(backend, 0, [5] * 100)
    assert backend.copy(0, 1, 100)
    saved = backend.save(1)
    assert saved is not None and backend.truncate(1, 0)
    assert backend.restore(1, saved, 100)
    assert backend.decode([Row(0, 100 + i, 6) for i in range(57)]) is Outcome.NO_ROOM
    assert backend.decode([Row(0, 100 + i, 6) for i in range(56)]) is Outcome.OK


def test_which_models_can_is_known_at_load(open_stowing: Open) -> None:
    """What could not be cut after it came back is not stowed: recurrent states, and windows shorter than a sequence."""
    opened = {arch: open_stowing(arch) for arch in ("llama", "qwen2", "wide gemma2", "gemma2", "mamba")}
    can = {arch: (backend.can_stow, backend.can_abort) for arch, backend in opened.items()}
    assert can == {
        "llama": (True, True), "qwen2": (True, True), "wide gemma2": (True, True), "gemma2": (False, True),
        "mamba": (False, False),
    }  # fmt: skip
    for arch in ("gemma2", "mamba"):
        feed(opened[arch], 0, [5, 6])
        assert opened[arch].save(0) is None and not opened[arch].restore(1, b"state", 2)


def test_a_model_whose_copy_says_something_else_is_not_stowed(open_tiny: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = open_tiny("llama")
    feed(backend, 0, [5, 6])
    assert parts.can_stow(backend)
    for name, what in (("save", lambda context, seq: None), ("restore", lambda context, seq, saved: False)):
        with monkeypatch.context() as patched:
            patched.setattr(state, name, what)
            assert backend.truncate(1, 0) and not parts.can_stow(backend)
    real = backend.logits
    monkeypatch.setattr(backend, "logits", lambda i: real(i) + i * np.float32(0.5))
    assert backend.truncate(1, 0) and not parts.can_stow(backend)


def test_what_llama_does_not_write_in_full_is_no_state(open_tiny: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = open_tiny("llama")
    feed(backend, 0, [5, 6])
    for n in (0, 1):
        monkeypatch.setattr(llama_cpp, "llama_state_seq_get_size", lambda *_, n=n: n)
        assert backend.save(0) is None
    monkeypatch.undo()
    monkeypatch.setattr(llama_cpp, "llama_state_seq_get_data", lambda *_: 3)
    assert backend.save(0) is None


def test_a_closed_backend_saves_nothing(open_tiny: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = open_tiny("llama")
    feed(backend, 0, [5, 6])
    saved = backend.save(0)
    assert saved is not None
    monkeypatch.setattr(backend, "_is_closed", True)
    assert backend.save(0) is None and not backend.restore(1, saved, 2)
