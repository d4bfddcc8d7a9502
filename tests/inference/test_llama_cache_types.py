"""Caches of other types than f16: shared, stowed and restored as ever; and what can not be had is said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from inference.config import EngineConfig
from inference.llama.model import LlamaBackend
from inference.llama.opening import open_engine
from inference.memory_report import MemoryReport
from inference.types import EngineError, FinishReason, GenerationRequest, NoRoom, TokenEvent
from tests.support.feeding import assert_close, feed
from tests.support.tiny_gguf import write_tiny

TYPES = ("f16", "q8_0", "q4_0")
TEXT = [5 + i * 7 % 200 for i in range(90)]
QUANTIZED = pytest.mark.parametrize("kv_type", TYPES[1:])


def config(kv_type: str, flash: str = "auto") -> EngineConfig:
    return EngineConfig(n_ctx=512, n_threads=1, n_gpu_layers=0, kv_type=kv_type, flash_attention=flash)


@pytest.fixture(scope="module")
def opened(tiny_models: dict[str, Path]) -> Iterator[dict[str, LlamaBackend]]:
    backends = {kv_type: LlamaBackend(config(kv_type), tiny_models["qwen2"]) for kv_type in TYPES}
    yield backends
    for backend in backends.values():
        backend.close()


@pytest.fixture
def backend(opened: dict[str, LlamaBackend], kv_type: str) -> LlamaBackend:
    backend = opened[kv_type]
    for seq in range(backend.n_seq_max):
        assert backend.truncate(seq, 0)
    return backend


def test_each_type_takes_what_it_should(opened: dict[str, LlamaBackend]) -> None:
    taken = {kv_type: sum(b.n_bytes for b in backend.buffers if b.kind == "KV") for kv_type, backend in opened.items()}
    assert taken["q8_0"] == pytest.approx(taken["f16"] * 34 / 64, rel=0.05)
    assert taken["q4_0"] == pytest.approx(taken["f16"] * 18 / 64, rel=0.05)
    assert len({backend.build for backend in opened.values()}) == 3, "what was measured for one type is not for another"
    assert "f16" not in opened["f16"].build and "auto" not in opened["f16"].build, "nor was the usual one ever named"


@QUANTIZED
def test_it_is_near_f16(opened: dict[str, LlamaBackend], backend: LlamaBackend) -> None:
    plain = opened["f16"]
    plain.truncate(0, 0)
    exact, found = feed(plain, 0, TEXT, 0), feed(backend, 0, TEXT, 0)
    similar = float(np.corrcoef(np.ravel(exact), np.ravel(found))[0, 1])
    assert similar > (0.99 if backend.kv_type == "q8_0" else 0.8)


@QUANTIZED
def test_what_comes_back_is_what_was_stowed(backend: LlamaBackend) -> None:
    assert backend.can_truncate and backend.can_stow
    feed(backend, 0, TEXT, 0)
    saved = backend.save(0)
    assert saved is not None and backend.restore(1, saved, len(TEXT))
    assert_close(feed(backend, 1, [9, 8], len(TEXT)), feed(backend, 0, [9, 8], len(TEXT)))
    assert not backend.restore(2, saved[:-1], len(TEXT)) and backend.seq_length(2) == 0


@QUANTIZED
def test_a_part_is_shared_by_copy_and_may_be_cut(backend: LlamaBackend) -> None:
    feed(backend, 0, TEXT, 0)
    assert backend.copy(0, 1, 40) and backend.truncate(0, 40)
    assert_close(feed(backend, 1, [7, 6], 40), feed(backend, 0, [7, 6], 40))


def test_a_state_of_another_type_is_refused(opened: dict[str, LlamaBackend]) -> None:
    for kv_type, backend in opened.items():
        for seq in range(3):
            backend.truncate(seq, 0)
        feed(backend, 0, TEXT, 0)
        saved = backend.save(0)
        assert saved is not None
        for other in (each for name, each in opened.items() if name != kv_type):
            other.truncate(2, 0)
            assert not other.restore(2, saved, len(TEXT)) and other.seq_length(2) == 0


@pytest.mark.parametrize("flash", ["auto", "on", "off"])
def test_attention_either_way_says_the_same(tiny_models: dict[str, Path], opened: dict[str, LlamaBackend], flash: str) -> None:
    backend = LlamaBackend(config("f16", flash), tiny_models["qwen2"])
    plain = opened["f16"]
    plain.truncate(0, 0)
    assert_close(feed(backend, 0, TEXT, 0), feed(plain, 0, TEXT, 0))
    backend.close()


def test_what_a_model_or_the_settings_exclude_is_refused(tiny_models: dict[str, Path], tmp_path: Path) -> None:
    odd = write_tiny(tmp_path / "odd.gguf", head=48)
    for path, flash in ((odd, "auto"), (tiny_models["llama"], "off")):
        with pytest.raises(EngineError, match="can't keep its cache as q8_0; set kv_type = f16") as caught:
            LlamaBackend(config("q8_0", flash), path)
        assert not isinstance(caught.value, NoRoom)
    LlamaBackend(config("f16"), odd).close()


@pytest.mark.parametrize(("head", "flash", "why"), [(48, "auto", "48 and 48 numbers"), (32, "off", "needs flash attention")])
def test_the_engine_goes_on_with_f16_and_says_so(tmp_path: Path, head: int, flash: str, why: str) -> None:
    told: list[MemoryReport] = []
    events: list[TokenEvent] = []
    asked = EngineConfig(
        n_ctx=512, n_threads=1, n_gpu_layers=0, prefill_ms_per_token=1.0, step_ms=1.0, kv_type="q4_0", flash_attention=flash
    )
    engine, _ = open_engine(asked, write_tiny(tmp_path / "m.gguf", head=head), tmp_path, on_memory=told.append)
    (notice,) = told[-1].notices
    assert why in notice and "kept as f16" in notice and told[-1].plan.options.kv_type == "f16"
    engine.submit(GenerationRequest(1, tuple(TEXT), n_max=3), events.append)
    while engine.step():
        pass
    assert events[-1].finish in (FinishReason.LENGTH, FinishReason.STOP)
    engine.close()
    engine.run_forever()
