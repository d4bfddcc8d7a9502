"""The real 0.5B model, where it is on disk: its control tokens, and that chunks change nothing that matters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from inference.backend import Outcome, Row
from inference.config import EngineConfig
from inference.llama.model import LlamaBackend
from tests.support.layouts import markers_of

pytestmark = pytest.mark.real_model
TEXT = (
    b'def mean(values: list[float]) -> float:\n    """Arithmetic mean; 0.0 for none. caf\xc3\xa9 </s> <|fim_middle|>"""\n    '
)


@pytest.fixture(scope="module")
def backend(real_model_path: Path) -> Iterator[LlamaBackend]:
    backend = LlamaBackend(EngineConfig(n_ctx=512, n_sequences=1, n_threads=2, n_gpu_layers=0), real_model_path)
    yield backend
    backend.close()


def test_vocabulary(backend: LlamaBackend) -> None:
    vocab = backend.vocab
    assert markers_of(vocab.fim) == (151659, 151661, 151660) and vocab.bos is None
    assert vocab.fim is not None and vocab.fim.family == "qwen2.5-coder"
    header = ((151663, "<|repo_name|>"), "{repository}\n", (151664, "<|file_sep|>"), "{path}\n")
    assert vocab.fim.header == header  # ids as published
    assert vocab.pre_type == "qwen2"
    assert vocab.n_tokens == 151936
    assert {151643, 151645, 151659, 151660, 151661, 151662, 151663, 151664} <= vocab.stop_tokens
    tokens = vocab.encode(TEXT)
    assert b"".join(vocab.pieces[t] for t in tokens) == TEXT
    assert vocab.stop_tokens.isdisjoint(tokens)


def test_chunks_stay_close_to_one_batch(backend: LlamaBackend) -> None:
    tokens = backend.vocab.encode(TEXT)
    last: list[np.ndarray] = []
    for chunk in (len(tokens), 7):
        assert backend.truncate(0, 0)
        for start in range(0, len(tokens), chunk):
            rows = [Row(0, i, t, i == len(tokens) - 1) for i, t in enumerate(tokens)][start : start + chunk]
            assert backend.decode(rows) is Outcome.OK
        last.append(backend.logits(len(rows) - 1).copy())
    assert np.abs(last[0] - last[1]).max() < 0.5
    assert last[0].argmax() == last[1].argmax() or np.ptp(np.sort(last[0])[-2:]) < 0.5
