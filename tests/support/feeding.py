"""Feeding a llama.cpp backend in tests, and what counts as the same logits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from inference.backend import Outcome, Row
from inference.llama.model import LlamaBackend

# Logits have a standard deviation of about 4 and a changed token moves them by 3; 16-bit cells and batch shapes by 0.03.
TOLERANCE = 0.15
REFERENCE = 3  # the sequence that plain runs use


def feed(backend: LlamaBackend, seq: int, tokens: Sequence[int], start: int = 0) -> NDArray[np.float32]:
    """Decode tokens at the end of seq; the logits of each, shape (len(tokens), n_tokens)."""
    rows = [Row(seq, start + i, token, wants_logits=True) for i, token in enumerate(tokens)]
    assert backend.decode(rows) is Outcome.OK
    assert backend.seq_length(seq) == start + len(tokens)
    return np.array([backend.logits(i) for i in range(len(rows))])


def fresh(backend: LlamaBackend, tokens: Sequence[int]) -> NDArray[np.float32]:
    """The logits of each token in one plain decode in a sequence of its own."""
    assert backend.truncate(REFERENCE, 0)
    logits = feed(backend, REFERENCE, tokens)
    assert backend.truncate(REFERENCE, 0)
    return logits


def assert_close(a: NDArray[np.float32], b: NDArray[np.float32]) -> None:
    assert a.shape == b.shape
    assert float(np.abs(a - b).max(initial=0.0)) < TOLERANCE
