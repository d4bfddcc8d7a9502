"""What a model's cache can do with parts of it, found out by trying once at load.

Leaves the cache for the caller to clear. Refuses to guess from the architecture's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from inference.backend import Outcome, Row


class Tried(Protocol):
    def decode(self, rows: Sequence[Row]) -> Outcome: ...
    def logits(self, i: int) -> NDArray[np.float32]: ...
    def truncate(self, seq: int, n: int) -> bool: ...
    def save(self, seq: int) -> bytes | None: ...
    def restore(self, seq: int, saved: bytes, n: int) -> bool: ...
    def seq_length(self, seq: int) -> int: ...


def can_truncate(backend: Tried) -> bool:
    """Whether the second of the two positions of sequence 0 can be removed."""
    return backend.truncate(0, 1) and backend.seq_length(0) == 1


def can_stow(backend: Tried) -> bool:
    """Whether what goes on from a restored copy of sequence 0 says the same as what goes on from itself."""
    n = backend.seq_length(0)
    saved = backend.save(0)
    if saved is None or not backend.restore(1, saved, n):
        return False
    if backend.decode([Row(0, n, 1, wants_logits=True), Row(1, n, 1, wants_logits=True)]) is not Outcome.OK:
        return False
    return bool(np.allclose(backend.logits(0), backend.logits(1), rtol=0.01, atol=0.01))
