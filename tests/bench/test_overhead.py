"""CPU time beside the model: on clocks that a test moves by hand, so that every figure is exact."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from bench import overhead
from bench.errors import BenchError
from bench.meter import Meter
from bench.overhead import STEP
from inference.engine import Engine
from inference.types import Costs
from tests.support.fake_backend import FakeBackend, FakeVocab

VOCAB = FakeVocab()
run_module = overhead._RUN


class Clocks:
    """Seconds of CPU and of the wall."""

    def __init__(self) -> None:
        self.cpu = self.wall = 0.0

    def work(self, cpu: float, wall: float) -> None:
        self.cpu += cpu
        self.wall += wall

    def meter(self) -> Meter:
        return Meter(lambda: self.cpu, lambda: self.wall)


def test_a_span_is_counted_without_those_in_it() -> None:
    clocks = Clocks()
    meter = clocks.meter()
    inner = meter.timed("inner", lambda: clocks.work(3, 5))

    def body() -> str:
        clocks.work(1, 1)
        inner()
        inner()
        return "done"

    outer = meter.timed("outer", body)
    assert outer() == "done"
    spans = meter.spans
    assert (spans["inner"].n, spans["inner"].cpu_s, spans["inner"].wall_s, spans["inner"].whole_s) == (2, 6, 10, 10)
    assert (spans["outer"].n, spans["outer"].cpu_s, spans["outer"].wall_s, spans["outer"].whole_s) == (1, 1, 1, 11)


def test_a_span_that_fails_is_counted_and_other_threads_are_not() -> None:
    clocks = Clocks()
    meter = clocks.meter()

    def fail() -> None:
        clocks.work(2, 2)
        raise ValueError

    timed = meter.timed("fails", fail)
    for _ in range(2):
        with pytest.raises(ValueError):
            timed()
    assert (meter.spans["fails"].n, meter.spans["fails"].cpu_s) == (2, 4)
    other = threading.Thread(target=meter.timed("fails", lambda: None))
    other.start()
    other.join()
    assert meter.spans["fails"].n == 2


def measured(clocks: Clocks, n_tokens: int, n_at_once: int = 1) -> dict[str, Any]:
    """Steps of 20 ms in which the thread is busy for 15; a sampler of 2 ms for each token; 1 ms of the rest for each step."""
    backend = FakeBackend(VOCAB, n_ctx=4096, n_batch=64, n_seq_max=5)
    backend.script_always = lambda tokens: ord("a")
    backend.on_decode = lambda rows: clocks.work(0.015, 0.020)
    made = Engine(backend, n_ctx=512, n_sequences=4, costs=Costs(1.0, 1.0))
    take, choose = made._take_commands, run_module.choose

    def take_commands() -> None:
        clocks.work(0.001, 0.001)
        take()

    def slow(*arguments: Any) -> int:
        clocks.work(0.002, 0.002)
        return choose(*arguments)

    made._take_commands = take_commands  # type: ignore[method-assign]
    run_module.choose = slow
    try:
        main = overhead.measure(made, VOCAB, "fake", [(backend, "decode")], n_tokens, n_at_once, clocks.meter())
        return asyncio.run(asyncio.wait_for(main, 60))
    finally:
        run_module.choose = choose


def test_the_overhead_of_each_token() -> None:
    made = measured(Clocks(), 20)
    # the first of 20 tokens is chosen from kept logits, in the step that evaluates it: 19 steps, 20 times the sampler
    assert (made["steps"], made["tokens"]) == (19, 19)
    assert made["overhead_pct_median_step"] == round(100 * 3 / 23, 3)
    assert made["overhead_pct"] == round(100 * (19 * 3 + 2) / (19 * 23 + 2), 3)
    assert (made["step_ms"], made["overhead_us_per_token"]) == (round(23 + 2 / 19, 2), round(1000 * (3 + 2 / 19), 1))
    parts = made["parts"]
    assert (parts["sampler"], parts[STEP]) == (round(2000 * 20 / 19, 1), 1000.0)
    assert sum(parts.values()) == made["overhead_us_per_token"]
    assert {"scheduler", "admission", "kept logits", "settling", "events"} <= set(parts)


def test_several_at_once_share_a_step() -> None:
    made = measured(Clocks(), 30, 3)
    assert made["tokens"] == 3 * made["steps"] == 27
    assert made["overhead_us_per_token"] < 3000


def test_nothing_stays_patched_and_nothing_generated_is_no_figure() -> None:
    before = run_module.choose, run_module.Run._say
    backend = FakeBackend(VOCAB, n_ctx=4096, n_batch=64, n_seq_max=5)
    backend.script_always = lambda tokens: VOCAB.eos
    made = Engine(backend, n_ctx=512, n_sequences=4, costs=Costs(1.0, 1.0))
    with pytest.raises(BenchError, match="no token"):
        asyncio.run(asyncio.wait_for(overhead.measure(made, VOCAB, "fake", [(backend, "decode")], 4, 1), 60))
    assert before == (run_module.choose, run_module.Run._say)
    assert backend.closed


def test_a_model_that_is_not_there_is_a_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    assert overhead.main(["--model", str(tmp_path / "none.gguf")]) == 1
    assert "none.gguf" in capsys.readouterr().err
