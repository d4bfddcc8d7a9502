"""The measurement with a clock of its own: what is chosen, what is kept, and that its file can't do harm."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from inference import measure as measuring
from inference.backend import Outcome, Row, Vocab
from inference.measure import MachineKey, Measured, load_measured, machine_key, measure, save_measured, thread_candidates
from inference.types import Costs, EngineError
from tests.inference.conftest import Open

KEY = MachineKey("m.gguf", 123, 2, "a cpu", "0.3.36 x86_64 AVX2", -1)
MEASURED = Measured(1, 9.5, 27.25, ((1, 27.25), (2, 48.0), (32, 322.5)))


class Machine:
    """A backend whose decodes cost what a table says: (threads, rows) → ms. The first decode of all costs 500 more."""

    n_ctx, n_batch, n_seq_max = 512, 512, 2

    def __init__(self, vocab: Vocab, cost: Callable[[int, int], float]) -> None:
        self.vocab, self._cost = vocab, cost
        self.now, self.n_threads, self.length = 0.0, 0, 0
        self.tried: list[int] = []
        self._wanted: set[int] = set()
        self._is_cold = True
        self.outcome = Outcome.OK

    def clock(self) -> float:
        return self.now

    def set_threads(self, n: int) -> None:
        self.n_threads = n
        self.tried.append(n)

    def decode(self, rows: Sequence[Row]) -> Outcome:
        assert [row.pos for row in rows] == list(range(self.length, self.length + len(rows)))
        self.length += len(rows)
        self._wanted = {i for i, row in enumerate(rows) if row.wants_logits}
        self.now += (self._cost(self.n_threads, len(rows)) + 500 * self._is_cold) / 1000
        self._is_cold = False
        return self.outcome

    def logits(self, i: int) -> NDArray[np.float32]:
        assert i in self._wanted
        return np.zeros(self.vocab.n_tokens, dtype=np.float32)

    def truncate(self, seq: int, n: int) -> bool:
        assert (seq, n) == (0, 0)
        self.length = 0
        return True

    def copy(self, src: int, dst: int, n: int) -> bool:
        raise AssertionError("nothing is copied")

    def set_abort(self, check: Callable[[], bool]) -> None:
        raise AssertionError("nothing is aborted")

    @property
    def can_roll_back(self) -> bool:
        return True

    @property
    def can_abort(self) -> bool:
        raise AssertionError("nobody asks")

    def save(self, seq: int) -> bytes | None:
        raise AssertionError("nothing is saved")

    def restore(self, seq: int, state: bytes, n: int) -> bool:
        raise AssertionError("nothing is restored")

    def close(self) -> None:
        raise AssertionError("the caller closes it")


def test_the_fastest_step_wins(tiny_vocab: Vocab) -> None:
    machine = Machine(
        tiny_vocab, lambda threads, rows: {1: 40.0, 2: 25.0, 4: 60.0}[threads] * (1 if rows == 1 else 8) if threads else 1
    )
    measured = measure(machine, (1, 2, 4), clock=machine.clock, budget_s=60)
    assert replace(measured, rows=()) == Measured(2, pytest.approx(25 * 8 / 32), pytest.approx(25))
    assert [n for n, _ in measured.rows] == [1, 2, 4, 8, 16, 32, 40]
    assert [ms for _, ms in measured.rows] == [pytest.approx(ms) for ms in (25, *[200] * 6)]
    assert machine.n_threads == 2
    assert machine.length == 0


@pytest.mark.parametrize(("slower", "chosen"), [(1.0, 1), (1.04, 1), (1.2, 2)])
def test_a_tie_goes_to_fewer_threads(tiny_vocab: Vocab, slower: float, chosen: int) -> None:
    machine = Machine(tiny_vocab, lambda threads, rows: 30 * slower if threads == 1 else 30)
    assert measure(machine, (2, 1), clock=machine.clock, budget_s=60).n_threads == chosen


CPU = {1: 27.0, 2: 48.0, 4: 66.0, 8: 110.0, 16: 174.0, 24: 250.0, 32: 322.0}


def test_each_count_of_rows_is_timed_and_the_chunk_too(tiny_vocab: Vocab) -> None:
    machine = Machine(tiny_vocab, lambda threads, rows: CPU[rows])
    measured = measure(machine, (1,), clock=machine.clock, budget_s=60)
    assert dict(measured.rows) == {n: pytest.approx(ms) for n, ms in CPU.items()}
    assert machine.length == 0


def test_on_a_fast_machine_larger_counts_are_timed_too(tiny_vocab: Vocab) -> None:
    machine = Machine(tiny_vocab, lambda threads, rows: 3.0 + rows / 100)
    rows = dict(measure(machine, (1,), clock=machine.clock).rows)
    assert sorted(rows) == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    assert rows[512] == pytest.approx(8.12)


def test_slow_counts_are_left_out_and_one_slow_step_of_three_does_not_count(tiny_vocab: Vocab) -> None:
    machine = Machine(tiny_vocab, lambda threads, rows: 300.0 * rows)
    assert [n for n, _ in measure(machine, (1,), clock=machine.clock, budget_s=2.0).rows] == [1, 2, 4]
    # of the calls: two to get warm, three chunks, five steps, one to get warm, then three for each count
    slow, calls = {11: 90.0, 15: 200.0}, iter(range(1000))
    machine = Machine(tiny_vocab, lambda threads, rows: slow.get(next(calls), 10.0))
    assert [ms for _, ms in measure(machine, (1,), clock=machine.clock).rows] == [pytest.approx(10)] * 10


def test_one_slow_step_does_not_count(tiny_vocab: Vocab) -> None:
    slow = {5: 400.0, 7: 900.0}  # of the calls: two to get warm, three chunks, five steps
    calls = iter(range(100))
    machine = Machine(tiny_vocab, lambda threads, rows: slow.get(next(calls), 10.0))
    assert measure(machine, (1,), clock=machine.clock).step_ms == pytest.approx(10)


def test_slow_chunks_do_not_count_if_one_of_three_is_fast(tiny_vocab: Vocab) -> None:
    slow = {2: 990.0, 4: 640.0}  # of the calls: two to get warm, then three chunks
    calls = iter(range(100))
    machine = Machine(tiny_vocab, lambda threads, rows: slow.get(next(calls), 10.0))
    assert measure(machine, (1,), clock=machine.clock, budget_s=60).prefill_ms_per_token == pytest.approx(10 / 32)


def test_a_slow_machine_times_one_chunk(tiny_vocab: Vocab) -> None:
    sizes: list[int] = []

    def cost(threads: int, rows: int) -> float:
        sizes.append(rows)
        return 20.0 * rows

    machine = Machine(tiny_vocab, cost)
    measure(machine, (1,), clock=machine.clock, budget_s=2.0)
    assert sizes[:8] == [1, 1, 32, 1, 1, 1, 1, 1]


def test_a_slow_machine_tries_no_more_than_the_budget_allows(tiny_vocab: Vocab) -> None:
    machine = Machine(tiny_vocab, lambda threads, rows: 300.0 * rows)
    assert measure(machine, (3, 4, 2), clock=machine.clock, budget_s=2.0).n_threads == 3
    assert set(machine.tried) == {3}


def test_a_model_that_cannot_run_is_said(tiny_vocab: Vocab) -> None:
    machine = Machine(tiny_vocab, lambda threads, rows: 1)
    machine.outcome = Outcome.NO_ROOM
    with pytest.raises(EngineError, match="no room"):
        measure(machine, (1,), clock=machine.clock)


def test_on_a_real_backend(open_tiny: Open) -> None:
    backend = open_tiny("llama")
    measured = measure(backend, (1, 2))
    backend.set_threads(1)
    assert measured.n_threads in (1, 2)
    assert measured.costs == Costs(measured.prefill_ms_per_token, measured.step_ms)
    assert measured.step_ms > 0
    assert measured.prefill_ms_per_token > 0
    assert [n for n, _ in measured.rows][:6] == [1, 2, 4, 8, 16, 32]
    assert backend.seq_length(0) == 0


@pytest.mark.parametrize(("n_cpus", "expected"), [(1, (1,)), (2, (1, 2)), (4, (3, 4, 2)), (16, (15, 16, 8))])
def test_candidates(n_cpus: int, expected: tuple[int, ...]) -> None:
    assert thread_candidates(n_cpus) == expected


def test_kept_and_found(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "cache"
    save_measured(directory, KEY, MEASURED)
    assert load_measured(directory, KEY) == MEASURED
    assert [p.suffix for p in directory.iterdir()] == [".json"]


@pytest.mark.parametrize(
    "other",
    [
        {"model_name": "n.gguf"},
        {"model_bytes": 124},
        {"n_cpus": 4},
        {"cpu": "another"},
        {"build": "0.3.37"},
        {"n_gpu_layers": 0},
    ],
)
def test_any_difference_of_the_machine_means_measuring_anew(tmp_path: Path, other: dict[str, object]) -> None:
    save_measured(tmp_path, KEY, MEASURED)
    assert load_measured(tmp_path, replace(KEY, **other)) is None  # type: ignore[arg-type]


def damaged(**values: object) -> str:
    return json.dumps({"key": {}, "measured": {}} | values)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"key": 1}', damaged(), "\x00" * 100, "é", '{"measured": NaN}'])
def test_a_damaged_file_is_one_log_line(tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture) -> None:
    save_measured(tmp_path, KEY, MEASURED)
    (path,) = tmp_path.iterdir()
    path.write_bytes(content.encode("latin-1"))
    assert load_measured(tmp_path, KEY) is None
    assert len(caplog.records) == 1
    assert "measuring anew" in caplog.text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_threads", 0),
        ("n_threads", True),
        ("n_threads", 1.5),
        ("n_threads", 10**9),
        ("step_ms", 0),
        ("step_ms", -1),
        ("step_ms", float("nan")),
        ("step_ms", float("inf")),
        ("step_ms", None),
        ("prefill_ms_per_token", "9"),
        ("rows", None),
        ("rows", []),
        ("rows", [[1, 27.0], [2]]),
        ("rows", [[1, 27.0], [0, 9.0]]),
        ("rows", [[1, 27.0], [2.5, 9.0]]),
        ("rows", [[1, 27.0], [2, -9.0]]),
        ("rows", [[1, 27.0], [2, "9"]]),
        ("rows", {"1": 27.0}),
    ],
)
def test_values_that_make_no_sense_are_not_used(tmp_path: Path, name: str, value: object) -> None:
    save_measured(tmp_path, KEY, MEASURED)
    (path,) = tmp_path.iterdir()
    kept = json.loads(path.read_text())
    kept["measured"][name] = value
    path.write_text(json.dumps(kept))
    assert load_measured(tmp_path, KEY) is None


def test_a_file_of_an_older_version_is_measured_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    save_measured(tmp_path, KEY, MEASURED)
    (path,) = tmp_path.iterdir()
    kept = json.loads(path.read_text())
    del kept["measured"]["rows"]
    path.write_text(json.dumps(kept))
    assert load_measured(tmp_path, KEY) is None
    assert "older version" in caplog.text


def test_no_file_is_no_event(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert load_measured(tmp_path / "none", KEY) is None
    assert not caplog.records


def test_a_directory_that_cannot_be_written_is_one_log_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "cache").write_text("a file, not a directory")
    save_measured(tmp_path / "cache", KEY, MEASURED)
    assert len(caplog.records) == 1
    assert load_measured(tmp_path / "cache", KEY) is None


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_measured(tmp_path, KEY, MEASURED)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    save_measured(tmp_path, KEY, replace(MEASURED, n_threads=2))
    assert load_measured(tmp_path, KEY) == MEASURED
    assert len(list(tmp_path.iterdir())) == 1


def test_key_of_a_model_file(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"12345")
    key = machine_key(path, build="b", n_gpu_layers=3)
    assert (key.model_name, key.model_bytes, key.build, key.n_gpu_layers) == ("m.gguf", 5, "b", 3)
    assert key.n_cpus >= 1
    assert key.cpu == measuring.cpu_name() != ""
