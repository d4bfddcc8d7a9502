"""Tiny real models, written once per run, and the real one if it is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from inference.config import EngineConfig
from inference.llama.model import LlamaBackend
from inference.llama.vocab import LlamaVocab, load_vocab
from tests.support.tiny_gguf import sentencepiece_vocabulary, write_tiny

Open = Callable[..., LlamaBackend]


@pytest.fixture(scope="session")
def tiny_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tiny")


@pytest.fixture(scope="session")
def tiny_models(tiny_dir: Path) -> dict[str, Path]:
    """By name: four architectures, one without FIM tokens, one with a SentencePiece vocabulary."""
    models = {arch: write_tiny(tiny_dir / f"{arch}.gguf", arch=arch) for arch in ("llama", "qwen2", "gemma2", "mamba")}
    models["no-fim"] = write_tiny(tiny_dir / "no-fim.gguf", fim=False)
    models["sentencepiece"] = write_tiny(tiny_dir / "sentencepiece.gguf", vocabulary=sentencepiece_vocabulary())
    return models


@pytest.fixture(scope="session")
def open_tiny(tiny_models: dict[str, Path]) -> Iterator[Open]:
    """`open_tiny("qwen2", n_ctx=…)`: a backend with one thread, kept for the whole run; tests leave it empty."""
    opened: dict[tuple[str, int, int], LlamaBackend] = {}

    def open_(name: str, *, n_ctx: int = 512, n_sequences: int = 3) -> LlamaBackend:
        key = (name, n_ctx, n_sequences)
        if key not in opened:
            config = EngineConfig(n_ctx=n_ctx, n_sequences=n_sequences, n_threads=1, n_gpu_layers=0)
            opened[key] = LlamaBackend(config, tiny_models[name])
        backend = opened[key]
        for seq in range(backend.n_seq_max):
            assert backend.truncate(seq, 0)
        return backend

    yield open_
    for backend in opened.values():
        backend.close()


@pytest.fixture(scope="session")
def tiny_vocab(tiny_models: dict[str, Path]) -> LlamaVocab:
    return load_vocab(tiny_models["qwen2"])
