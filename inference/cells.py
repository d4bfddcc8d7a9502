"""The cells of a model's cache and the record of what they hold, changed together.

Owns the record; whoever changes cells goes through here. Refuses to decide what is kept: that is `kv_cache`'s.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from inference.backend import Backend
from inference.sequence import WIDTH, Sequence, n_common_packed, pack


class Cells:
    """n_sequences: at most as many as the backend has."""

    def __init__(self, backend: Backend, n_sequences: int) -> None:
        self._backend = backend
        self.sequences = [Sequence(i) for i in range(min(n_sequences, backend.n_seq_max))]
        self._cell = itertools.count()

    def n_used(self) -> int:
        """Cells in use; those that sequences share count once. May be asked from another thread; off by what the running step
        changes."""
        return self.n_cells(self.sequences)

    @staticmethod
    def n_cells(sequences: Iterable[Sequence]) -> int:
        """That these use."""
        cells = [bytes(s.cells) for s in sequences]
        shared = (max((n_common_packed(c, other) for other in cells[:i]), default=0) for i, c in enumerate(cells))
        return sum(map(len, cells)) // WIDTH - sum(shared)

    def n_freed_by(self, sequence: Sequence) -> int:
        """Cells that nobody else holds."""
        others = (n_common_packed(sequence.cells, s.cells) for s in self.sequences if s is not sequence)
        return len(sequence.tokens) - max(others, default=0)

    def truncate(self, sequence: Sequence, n: int) -> int:
        """Keep the first n positions; returns how many are kept: 0 where the model can't drop a part."""
        if n >= len(sequence.tokens):
            return len(sequence.tokens)
        if not self._backend.truncate(sequence.seq, n):
            self._backend.truncate(sequence.seq, 0)
            n = 0
        sequence.cut(n)
        return n

    def stored(self, sequence: Sequence, tokens: list[int]) -> None:
        """The backend has put these tokens behind what the sequence holds."""
        sequence.append(tokens, pack(itertools.islice(self._cell, len(tokens))))

    def take_out(self) -> list[tuple[Sequence, bytes, dict[int, NDArray[np.float32]]]] | None:
        """Empty all cells; what each sequence held, to be put back. None: that is not possible, and nothing was changed."""
        held = [s for s in self.sequences if s.tokens]
        if sum(len(s.tokens) for s in held) > self._backend.n_ctx:
            return None  # they share: apart they have no room
        taken = []
        for sequence in held:
            state = self._backend.save(sequence.seq)
            if state is None:
                return None
            taken.append((sequence, state, dict(sequence.logits)))
        for sequence in held:
            self._backend.truncate(sequence.seq, 0)
        return taken

    def put_in(self, sequence: Sequence, state: bytes, logits: dict[int, NDArray[np.float32]]) -> bool:
        """Put back what was taken out. False: the sequence is empty now."""
        tokens, is_private = list(sequence.tokens), sequence.is_private
        sequence.cut(0)
        if not self._backend.restore(sequence.seq, state, len(tokens)):
            return False
        self.stored(sequence, tokens)
        sequence.logits, sequence.is_private = logits, is_private
        return True

    def keep_logits(self, sequence: Sequence, logits: NDArray[np.float32], position: int = -1) -> None:
        """Keep the logits behind a position of the sequence; -1: its last one."""
        sequence.keep_logits(len(sequence.tokens) - 1 if position < 0 else position, logits)
