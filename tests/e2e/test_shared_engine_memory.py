"""What sharing is for: the weights are in memory once, and only while somebody uses them. With the real 0.5B."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.ended import all_ended
from tests.support.windows import Window, engine_of, status, until

pytestmark = pytest.mark.real_model


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "run"
    all_ended(tmp_path / "run")


def megabytes(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / 1e6


def test_a_second_window_costs_its_cache_and_no_weights(home: Path, real_model_path: Path) -> None:
    """Growth of the engine: less than a tenth of the weights (two prompts of 512 tokens have 13 MB of keys and values). The
    servers hold a vocabulary, never the weights."""
    weights = real_model_path.stat().st_size / 1e6
    with Window(home, real_model_path) as one, Window(home, real_model_path) as other:
        one.start()
        one.complete()
        engine = engine_of(home)
        before = megabytes(engine)
        other.start()
        other.complete()
        one.complete()
        assert engine_of(home).pid == engine.pid
        assert megabytes(engine) - before < weights / 10
        for window in (one, other):
            assert megabytes(psutil.Process(window.process.pid)) < weights * 0.8


def test_unloading_frees_the_weights_and_the_next_request_brings_them_back(home: Path, real_model_path: Path) -> None:
    weights = real_model_path.stat().st_size / 1e6
    with Window(home, real_model_path, unload_s=1) as window:
        window.start()
        window.complete()
        engine = engine_of(home)
        loaded = megabytes(engine)
        until(lambda: status(home)[0]["news"]["state"] == "unloaded", "the end of idleness")
        until(lambda: megabytes(engine) < loaded - weights * 0.7, "the memory")
        window.complete()
        assert engine_of(home).pid == engine.pid
