"""The model's cache as resident sequences: match, claim, truncate, append, release, evict.

Owns which sequence holds what, and keeps the record equal to the cells. Questions (`match`, `is_`) change nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from inference.backend import Backend
from inference.sequence import Sequence

MIN_COPY = 32  # sharing fewer tokens than this is not worth a copy


class KvCache:
    def __init__(self, backend: Backend, n_sequences: int) -> None:
        self._backend = backend
        self.sequences = [Sequence(i) for i in range(min(n_sequences, backend.n_seq_max))]
        self._tick = 0

    def match(self, tokens: tuple[int, ...]) -> tuple[Sequence | None, int]:
        """The resident sequence that shares the longest prefix with `tokens`, idle ones first at equal length."""
        best, n_best = None, 0
        for sequence in self.sequences:
            n = sequence.n_shared(tokens)
            if n > n_best or (n == n_best and n > 0 and best is not None and sequence.is_idle and not best.is_idle):
                best, n_best = sequence, n
        return best, n_best

    def claim(self, tokens: tuple[int, ...], owner: int, *, background: bool = False) -> tuple[Sequence, int] | None:
        """A sequence for a request and how many of its tokens are resident; None if all are busy.

        The sequence may hold more than that: a tail which the request uses as far as it agrees. One whose prompt (or what is
        resident of it, if its prefill was ended) has little in common with the new one is left alone; the common part is then
        shared by copy. Background work also leaves alone what somebody types at: the next key will ask for its tail.
        """
        best, n = self.match(tokens)
        if best is not None and best.is_idle:
            worth = min(best.n_prompt, len(best.tokens))
            if n >= worth or (2 * n >= worth and (not background or best.is_background)):
                return self._take(best, owner, tokens, background), n
        others = [s for s in self.sequences if s.is_idle and s is not best]
        if not others:
            if best is None or not best.is_idle:
                return None
            return self._take(best, owner, tokens, background), n
        # at equal age an empty one goes first, so that nothing is evicted while there is one
        target = min(others, key=lambda s: (bool(s.tokens), s.last_used))
        self.truncate(target, 0)
        if best is None or n < MIN_COPY or not self._backend.copy(best.seq, target.seq, n):
            return self._take(target, owner, tokens, background), 0
        target.append(best.tokens[:n])
        if n - 1 in best.logits:
            target.logits[n - 1] = best.logits[n - 1]
        return self._take(target, owner, tokens, background), n

    def _take(self, sequence: Sequence, owner: int, tokens: tuple[int, ...], background: bool) -> Sequence:
        self._tick += 1
        sequence.is_background = background
        sequence.owner, sequence.last_used, sequence.n_prompt = owner, self._tick, len(tokens)
        return sequence

    def release(self, sequence: Sequence) -> None:
        """The request is done with it; what it holds stays for reuse."""
        self._tick += 1
        sequence.owner, sequence.last_used = None, self._tick

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
        sequence.append(tokens)

    def keep_logits(self, sequence: Sequence, logits: NDArray[np.float32]) -> None:
        """Keep the logits behind the sequence's last position."""
        sequence.keep_logits(len(sequence.tokens) - 1, logits)

    def evict(self) -> bool:
        """Empty the idle sequence used longest ago; false if there is none."""
        idle = [s for s in self.sequences if s.is_idle and s.tokens]
        if not idle:
            return False
        self.truncate(min(idle, key=lambda s: s.last_used), 0)
        return True

    def forget_all(self) -> None:
        """The backend lost everything: so does the record."""
        for sequence in self.sequences:
            sequence.cut(0)
