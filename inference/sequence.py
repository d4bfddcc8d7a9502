"""A resident sequence: a token history with its own cells in the model's cache.

Owns the record of what the cells hold, and logits kept beside them. Only `KvCache` changes it.

Kept logits save steps, not just tokens: while a word is being typed the prompt stays the same and only its healing bytes
grow, so the logits behind the prompt, and behind tokens that an earlier request generated, answer without the model.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

N_KEPT_LOGITS = 24  # positions; 0.6 MB each with a vocabulary of 151,936


class Sequence:
    def __init__(self, seq: int) -> None:
        self.seq = seq
        self.tokens: list[int] = []
        self.logits: dict[int, NDArray[np.float32]] = {}  # position -> logits behind it
        self.owner: int | None = None  # the request that claimed it
        self.n_prompt = 0  # prompt length of the last claim: what is worth keeping
        self.is_background = False  # the last claim was background work: nobody has typed there since
        self.last_used = 0

    @property
    def is_idle(self) -> bool:
        return self.owner is None

    def n_shared(self, tokens: tuple[int, ...]) -> int:
        """Length of the longest common prefix of this sequence and `tokens`."""
        return n_common(self.tokens, tokens)

    def append(self, tokens: list[int]) -> None:
        self.tokens.extend(tokens)

    def keep_logits(self, position: int, logits: NDArray[np.float32]) -> None:
        """Copy and keep the logits behind `position`, a resident one. Far behind the prompt they are not worth it."""
        if position >= self.n_prompt - 1 + N_KEPT_LOGITS:
            return
        self.logits[position] = logits.copy()
        while len(self.logits) > N_KEPT_LOGITS:
            del self.logits[min(self.logits)]

    def cut(self, n: int) -> None:
        """Forget what stands at position n and behind."""
        del self.tokens[n:]
        for position in [p for p in self.logits if p >= n]:
            del self.logits[position]


def n_common(a: list[int], b: tuple[int, ...]) -> int:
    """Length of the longest common prefix, in chunks compared at C speed and then token by token."""
    n, limit = 0, min(len(a), len(b))
    while n + 256 <= limit and a[n : n + 256] == list(b[n : n + 256]):
        n += 256
    while n < limit and a[n] == b[n]:
        n += 1
    return n
