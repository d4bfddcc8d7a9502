"""From settings to an engine, on tiny models: what its steps are sized by, what is kept on disk, and who stows."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from inference.config import EngineConfig
from inference.engine import Engine
from inference.llama import opening
from inference.llama.model import LlamaBackend
from inference.llama.opening import open_engine
from inference.memory_report import MemoryReport
from inference.types import Costs, FinishReason, GenerationRequest, NoRoom, Priority, TokenEvent

ON_CPU = {"n_ctx": 256, "n_gpu_layers": 0}


def run(engine: Engine, *requests: GenerationRequest) -> list[TokenEvent]:
    """Let the engine's own loop answer these, then end it."""
    events: list[TokenEvent] = []
    left = {request.request_id for request in requests}

    def sink(event: TokenEvent) -> None:
        events.append(event)
        if event.finish is not None:
            left.discard(event.request_id)
            if not left:
                engine.close()

    thread = threading.Thread(target=engine.run_forever)
    thread.start()
    for request in requests:
        engine.submit(request, sink)
    if not requests:
        engine.close()
    thread.join(60)
    assert not thread.is_alive()
    return events


def kept_rows(cache: Path) -> dict[int, float]:
    (path,) = cache.glob("measured-*")
    return dict(json.loads(path.read_text())["measured"]["rows"])


def kept_costs(cache: Path) -> Costs:
    (path,) = cache.glob("measured-*")
    kept = json.loads(path.read_text())["measured"]
    return Costs(kept["prefill_ms_per_token"], kept["step_ms"])


def test_the_table_is_measured_once_and_refined_by_real_steps(
    tiny_models: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = EngineConfig(**ON_CPU)
    engine, _ = open_engine(config, tiny_models["llama"], tmp_path)
    measured = dict(engine.table.rows)
    assert {1, 2, 4, 8, 16, 32} <= set(measured)
    assert engine.costs.step_ms == measured[1]
    requests = [GenerationRequest(i, (i, *range(5, 41)), n_max=2) for i in range(1, 10)]
    ends = [e.finish for e in run(engine, *requests) if e.finish is not None]
    assert set(ends) <= {FinishReason.LENGTH, FinishReason.STOP} and len(ends) == 9
    refined = kept_rows(tmp_path)
    assert refined == dict(engine.table.rows) != measured and set(measured) <= set(refined)
    again, _ = open_engine(config, tiny_models["llama"], tmp_path)
    assert dict(again.table.rows) == refined and again.costs == engine.costs
    assert engine.costs.step_ms == refined[1] and kept_costs(tmp_path) == engine.costs
    run(again)
    assert kept_rows(tmp_path) == refined
    # an older file is measured anew
    (path,) = tmp_path.glob("measured-*")
    kept = json.loads(path.read_text())
    del kept["measured"]["rows"]
    path.write_text(json.dumps(kept))
    with caplog.at_level(logging.WARNING):
        old, _ = open_engine(config, tiny_models["llama"], tmp_path)
    run(old)
    assert {1, 2, 4, 8, 16, 32} <= set(kept_rows(tmp_path)) and "older version" in caplog.text


@pytest.mark.parametrize(
    "given", [{"prefill_ms_per_token": 7.0}, {"step_ms": 20.0}, {"prefill_ms_per_token": 7.0, "step_ms": 20.0}]
)
def test_costs_that_were_set_size_everything(tiny_models: dict[str, Path], tmp_path: Path, given: dict[str, float]) -> None:
    engine, _ = open_engine(EngineConfig(**ON_CPU, **given), tiny_models["llama"], tmp_path)
    run(engine, GenerationRequest(1, tuple(range(5, 50)), n_max=5))
    costs = engine.costs
    assert not engine.table.is_measured
    assert engine.table.cost(11) == costs.step_ms + 10 * costs.prefill_ms_per_token
    assert given.items() <= {"prefill_ms_per_token": costs.prefill_ms_per_token, "step_ms": costs.step_ms}.items()


def test_nothing_is_kept_about_a_thread_count_that_was_set(tiny_models: dict[str, Path], tmp_path: Path) -> None:
    engine, _ = open_engine(EngineConfig(**ON_CPU, n_threads=1), tiny_models["llama"], tmp_path)
    assert engine.table.is_measured
    run(engine, GenerationRequest(1, tuple(range(5, 50)), n_max=5))
    assert not list(tmp_path.glob("measured-*"))
    given = EngineConfig(**ON_CPU, n_threads=1, prefill_ms_per_token=1.0, step_ms=2.0)
    engine, _ = open_engine(given, tiny_models["llama"], tmp_path)
    assert engine.costs == Costs(1.0, 2.0)
    run(engine)
    assert not list(tmp_path.glob("measured-*"))


@pytest.mark.parametrize(
    ("model", "options", "stows"),
    [("llama", {}, True), ("llama", {"n_stowed": 0}, False), ("llama", {"stow_bytes": 0}, False), ("mamba", {}, False)],
)
def test_who_stows(tiny_models: dict[str, Path], tmp_path: Path, model: str, options: dict[str, int], stows: bool) -> None:
    config = EngineConfig(**ON_CPU, n_sequences=1, prefill_ms_per_token=1.0, step_ms=1.0, n_threads=1, **options)
    engine, _ = open_engine(config, tiny_models[model], tmp_path)
    documents = [(i, *range(5, 65)) for i in range(1, 6)]
    for n, tokens in enumerate(documents):
        events: list[TokenEvent] = []
        engine.submit(GenerationRequest(n, tokens, n_max=0, priority=Priority.BACKGROUND), events.append)
        while engine.step():
            pass
        assert events[-1].finish is FinishReason.RESIDENT
    stats = engine.stats()
    assert [engine.n_reusable(tokens) for tokens in documents] == [61 if stows or i > 2 else 0 for i in range(5)]
    assert (stats.n_stowed, stats.n_resident, stats.stowed_bytes > 0) == (3 * stows, 2, stows)
    run(engine)


def test_a_plan_that_was_wrong_is_followed_by_less(
    tiny_models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """llama.cpp finds no room for what should have had it: less is tried, and the user told; in the end the reason is."""
    asked: list[EngineConfig] = []
    real, told = opening.LlamaBackend, list[MemoryReport]()

    def short(config: EngineConfig, path: Path, **options: Any) -> LlamaBackend:
        asked.append(config)
        if config.n_sequences > 1:
            raise NoRoom("no room")
        return real(config, path, **options)

    monkeypatch.setattr(opening, "LlamaBackend", short)
    config = EngineConfig(n_ctx=512, n_sequences=2, n_gpu_layers=0, n_threads=1, prefill_ms_per_token=1.0, step_ms=1.0)
    engine, _ = open_engine(config, tiny_models["llama"], tmp_path, name="tiny", on_memory=told.append)
    assert [(each.n_sequences, each.flash_attention) for each in asked] == [(2, "auto"), (2, "on"), (1, "on")]
    assert len(told) == 2 and not told[0].notices and not told[0].actual
    (notice,) = told[1].notices
    assert "flash_attention" not in notice, "nobody has set it"
    assert told[1].actual_bytes and "tiny would need" in notice and "n_sequences is 1 instead of 2" in notice
    run(engine)
    asked.clear()

    def full(config: EngineConfig, path: Path, **_: Any) -> LlamaBackend:
        asked.append(config)
        raise MemoryError

    monkeypatch.setattr(opening, "LlamaBackend", full)
    with pytest.raises(NoRoom, match="no memory left"):
        open_engine(config, tiny_models["llama"], tmp_path)
    assert 2 <= len(asked) <= 7
