"""Saved prompts of tiny real models: another context, as another process has it, goes on as if it had evaluated them itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest

from inference.config import EngineConfig
from inference.llama import imprint
from inference.llama.model import LlamaBackend
from inference.prompt_cache.archive import Archive
from inference.prompt_cache.restorer import TOLERANCE
from inference.run import Run
from tests.support.near_tie import Comparer, Recording, Rows, Said, watch
from tests.support.saved_prompts import value_files
from tests.support.saving_engine import SavingEngine

N_PROMPT = 400


def prompt(i: int, n: int = N_PROMPT) -> tuple[int, ...]:
    return tuple(3 + (i * 17 + k * k) % 290 for k in range(n))


class Process:
    """A context of its own on a directory that others had before."""

    def __init__(self, path: Path, place: Path, states: dict[bytes, tuple[int, ...]], **config: object) -> None:
        settings = EngineConfig(n_ctx=1024, n_threads=1, n_gpu_layers=0, **config)  # type: ignore[arg-type]
        self.backend = LlamaBackend(settings, path)
        self.rows: Rows = {}
        recording = Recording(self.backend, self.rows)
        recording._saved = states
        fingerprint = imprint.imprint(settings, self.backend, "d" * 64).digest
        self.saving = SavingEngine(place, backend=recording, fingerprint=fingerprint, n_ctx=1024)
        self.runs: dict[int, Run] = watch(self.saving.engine)

    def say(self, tokens: tuple[int, ...]) -> tuple[Said, int]:
        """What it chose, and how many tokens of the prompt it reused."""
        event = self.saving.say(tokens, n_max=12)
        return Said.of(self.runs[event.request_id]), event.stats.n_reused

    def close(self) -> None:
        self.saving.kill()
        self.backend.close()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[list[Process]]:
    made: list[Process] = []
    yield made
    for process in made:
        process.close()


@pytest.mark.parametrize("arch, kv_type", [("qwen2", "f16"), ("llama", "f16"), ("llama", "q8_0")])
def test_what_comes_back_says_the_same(
    arch: str, kv_type: str, tiny_models: dict[str, Path], tmp_path: Path, processes: list[Process]
) -> None:
    states: dict[bytes, tuple[int, ...]] = {}
    first = Process(tiny_models[arch], tmp_path / "p", states, kv_type=kv_type)
    processes.append(first)
    reference = [first.say(prompt(i)) for i in range(2)]
    first.saving.rest()
    assert first.saving.stats.n_saves == 2
    second = Process(tiny_models[arch], tmp_path / "p", states, kv_type=kv_type)
    processes.append(second)
    comparer = Comparer(second.backend.vocab)
    for i, (said, _) in enumerate(reference):
        again, n_reused = second.say(prompt(i))
        assert n_reused >= N_PROMPT - 1, second.saving.stats
        comparer.compare(replace(said, request=again.request), again, first.rows, second.rows)
    assert second.saving.stats.n_disk_hits == 2 and second.saving.stats.n_discarded == 0
    third = Process(tiny_models[arch], tmp_path / "q", states, kv_type=kv_type)
    processes.append(third)
    longer = (*prompt(0), *prompt(7, 60))
    (cold, _), (warm, n_reused) = third.say(longer), second.say(longer)
    assert n_reused >= N_PROMPT
    comparer.compare(replace(cold, request=warm.request), warm, third.rows, second.rows)


@pytest.mark.parametrize("how", [{"n_ctx": 512}, {"kv_type": "q8_0"}, {"n_sequences": 2}, {"flash_attention": "on"}])
def test_with_other_settings_nothing_is_found(
    how: dict[str, object], tiny_models: dict[str, Path], tmp_path: Path, processes: list[Process]
) -> None:
    path = tiny_models["llama"]
    settings = EngineConfig(n_ctx=1024, n_threads=1, n_gpu_layers=0)
    changed = replace(settings, **how)
    backends = [LlamaBackend(each, path) for each in (settings, changed)]
    one, other = (imprint.imprint(s, b, "d" * 64) for s, b in zip((settings, changed), backends, strict=True))
    for backend in backends:
        backend.close()
    differing = {field.name for field in fields(one) if getattr(one, field.name) != getattr(other, field.name)}
    assert differing and one.digest != other.digest


def test_one_bit_of_a_weight_is_another_model(tiny_models: dict[str, Path], tmp_path: Path, processes: list[Process]) -> None:
    """If its digest, made of samples, doesn't tell: then what it says."""
    states: dict[bytes, tuple[int, ...]] = {}
    first = Process(tiny_models["llama"], tmp_path / "p", states)
    processes.append(first)
    first.say(prompt(1))
    first.saving.rest()
    other = tmp_path / "other.gguf"
    data = bytearray(tiny_models["llama"].read_bytes())
    for at in range(len(data) - 20_000, len(data) - 1000, 2):
        data[at] ^= 0x80 if at % 3 == 0 else 0
    other.write_bytes(bytes(data))
    second = Process(other, tmp_path / "p", states)
    processes.append(second)
    _, n_reused = second.say(prompt(1))
    assert n_reused == 0
    assert second.saving.stats.disk_misses == (("different", 1),) and TOLERANCE == 0.01
    second.saving.rest(0.0)
    assert not value_files(tmp_path / "p") or second.saving.stats.n_discarded == 1


def test_it_is_opened_with_the_engine_and_not_where_it_can_not_be(tiny_models: dict[str, Path], tmp_path: Path) -> None:
    for arch, more, is_there in (
        ("llama", {}, True), ("llama", {"prompt_cache": False}, False), ("llama", {"prompt_cache_bytes": 0}, False),
        ("mamba", {}, False), ("gemma2", {}, False),
    ):  # fmt: skip
        settings = EngineConfig(n_ctx=512, n_threads=1, n_gpu_layers=0, **more)
        backend = LlamaBackend(settings, tiny_models[arch])
        archive = imprint.open_archive(settings, backend, tiny_models[arch], tmp_path)
        assert isinstance(archive, Archive) is is_there
        if archive is not None:
            archive.close(20.0)
        backend.close()
    assert (tmp_path / "prompts" / "cache.db").exists()
    assert imprint.library_digest() == imprint.library_digest() != ""
