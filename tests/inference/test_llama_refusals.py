"""Batches that end early or are refused leave nothing behind."""

from __future__ import annotations

import threading

import pytest

from inference.backend import Outcome, Row
from inference.llama.model import N_BATCH
from tests.inference.conftest import Open
from tests.support.feeding import assert_close, feed, fresh


@pytest.mark.parametrize("arch", ["llama", "gemma2"])
def test_an_aborted_decode_keeps_no_cells(open_tiny: Open, arch: str) -> None:
    backend = open_tiny(arch)
    before = [11, 12, 13]
    feed(backend, 0, before)
    rows = [Row(0, 3 + i, 5 + i, True) for i in range(300)] + [Row(1, i, 9 + i, True) for i in range(200)]
    backend.set_abort(lambda: threading.current_thread().name == "midfill-abort")  # not at once, but while it runs
    try:
        outcomes = []
        for _ in range(200):
            outcomes.append(backend.decode(rows))
            if outcomes[-1] is Outcome.ABORTED:
                break
            backend.truncate(0, 3)
            backend.truncate(1, 0)
    finally:
        backend.set_abort(lambda: False)
    assert outcomes[-1] is Outcome.ABORTED
    assert (backend.seq_length(0), backend.seq_length(1)) == (3, 0)
    with pytest.raises(ValueError, match="last batch"):
        backend.logits(0)
    assert_close(feed(backend, 0, [20, 21], 3), fresh(backend, [*before, 20, 21])[3:])
    assert_close(feed(backend, 1, [22]), fresh(backend, [22]))


def test_abort_before_the_native_call(open_tiny: Open) -> None:
    backend = open_tiny("llama")
    backend.set_abort(lambda: True)
    assert backend.decode([Row(0, 0, 5)]) is Outcome.ABORTED
    backend.set_abort(lambda: False)
    assert backend.seq_length(0) == 0
    assert backend.decode([Row(0, 0, 5)]) is Outcome.OK


def test_an_abort_check_that_fails_is_logged_and_ends_nothing(open_tiny: Open, caplog: pytest.LogCaptureFixture) -> None:
    backend = open_tiny("llama")

    def check() -> bool:
        raise RuntimeError("no")

    backend.set_abort(check)
    assert backend.decode([Row(0, 0, 5)]) is Outcome.OK
    backend.set_abort(lambda: False)
    assert "abort check failed" in caplog.text


def test_a_recurrent_model_is_not_aborted(open_tiny: Open) -> None:
    backend = open_tiny("mamba")
    backend.set_abort(lambda: True)
    assert backend.decode([Row(0, i, 5 + i) for i in range(100)]) is Outcome.OK
    backend.set_abort(lambda: False)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [Row(0, 3, 5)],  # a gap
        [Row(0, 1, 5)],  # already there
        [Row(1, 1, 5)],  # an empty sequence that begins in the middle
        [Row(0, 2, 5), Row(0, 4, 5)],
        [Row(0, 2, 5), Row(0, 2, 6)],
        [Row(4, 0, 5)],
        [Row(-1, 0, 5)],
        [Row(1, 0, -1)],
        [Row(1, 0, 10**6)],
        [Row(1, i, 5) for i in range(N_BATCH + 1)],
    ],
)
def test_malformed_batches_are_refused(open_tiny: Open, rows: list[Row]) -> None:
    backend = open_tiny("llama")
    feed(backend, 0, [11, 12])
    assert backend.decode(rows) is Outcome.REFUSED
    assert [backend.seq_length(s) for s in range(4)] == [2, 0, 0, 0]
    assert_close(feed(backend, 0, [13], 2), fresh(backend, [11, 12, 13])[2:])


def test_llama_cpp_itself_refuses_a_gap(open_tiny: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = open_tiny("llama")
    feed(backend, 0, [11, 12])
    monkeypatch.setattr(backend, "_lengths_if_sound", lambda _: {0: 2})
    assert backend.decode([Row(0, 5, 13)]) is Outcome.REFUSED
    assert backend.seq_length(0) == 2


def test_full_batch(open_tiny: Open) -> None:
    backend = open_tiny("llama")
    assert backend.decode([Row(0, i, 5 + i % 200) for i in range(N_BATCH)]) is Outcome.OK


def test_no_room(open_tiny: Open) -> None:
    backend = open_tiny("llama", n_ctx=128)
    assert (backend.n_ctx, backend.n_ctx_seq, backend.n_seq_max) == (256, 128, 4)
    feed(backend, 0, [5] * 150)
    feed(backend, 1, [6, 7])
    assert backend.decode([Row(1, 2 + i, 6) for i in range(120)]) is Outcome.NO_ROOM
    assert (backend.seq_length(0), backend.seq_length(1)) == (150, 2)
    assert backend.truncate(0, 100)
    assert backend.decode([Row(1, 2 + i, 6) for i in range(120)]) is Outcome.OK
    assert backend.seq_length(1) == 122
