"""A resident sequence: a token history with its own cells in the model's cache.

Owns the record of what the cells hold, and logits kept beside them. Only `KvCache` changes it.

Kept logits save steps, not just tokens: while a word is being typed the prompt stays the same and only its healing bytes
grow, so the logits behind the prompt, and behind tokens that an earlier request generated, answer without the model.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from collections.abc import Sequence as Seq

import numpy as np
from numpy.typing import NDArray

WIDTH = 8  # bytes of a packed number
N_KEPT_LOGITS = 24  # positions; 0.6 MB each with a vocabulary of 151,936


class Sequence:
    def __init__(self, seq: int) -> None:
        self.seq = seq
        self.tokens: list[int] = []
        self.packed = bytearray()  # the same, for comparing
        self.cells = bytearray()  # packed, a number for each cell that was filled: what was copied has the same numbers
        self.logits: dict[int, NDArray[np.float32]] = {}  # position -> logits behind it
        self.owner: int | None = None  # the request that claimed it
        self.n_prompt = 0  # prompt length of the last claim: what is worth keeping
        self.is_background = False  # the last claim was background work: nobody has typed there since
        self.is_private = False  # a private request has put tokens here: they are not saved to disk
        self.is_branch = False  # of one candidate among several: it will be gone when that has ended
        self.last_used = 0

    @property
    def is_idle(self) -> bool:
        return self.owner is None

    @property
    def n_worth(self) -> int:
        """Tokens that are worth keeping: the last prompt, or what is resident of it if its prefill was ended."""
        return min(self.n_prompt, len(self.tokens))

    def append(self, tokens: Seq[int], cells: bytes | bytearray) -> None:
        """cells: packed, as many as tokens."""
        self.tokens.extend(tokens)
        self.packed += pack(tokens)
        self.cells += cells

    def keep_logits(self, position: int, logits: NDArray[np.float32]) -> None:
        """Copy and keep the logits behind `position`, a resident one. Far behind the prompt they are not worth it."""
        if self.is_branch or position >= self.n_prompt - 1 + N_KEPT_LOGITS:
            return
        self.logits[position] = logits.copy()
        while len(self.logits) > N_KEPT_LOGITS:
            del self.logits[min(self.logits)]

    def cut(self, n: int) -> None:
        """Forget what stands at position n and behind."""
        del self.tokens[n:]
        del self.packed[n * WIDTH :]
        del self.cells[n * WIDTH :]
        for position in [p for p in self.logits if p >= n]:
            del self.logits[position]
        self.is_private &= n > 0


def pack(numbers: Iterable[int]) -> bytes:
    """Tokens, or numbers of cells, as bytes that `n_common_packed` compares."""
    return array("q", numbers).tobytes()


def n_common(a: Seq[int], b: Seq[int]) -> int:
    """How many tokens two lists have in common from the first on."""
    return n_common_packed(pack(a), pack(b))


def n_common_packed(a: bytes | bytearray, b: bytes | bytearray) -> int:
    """The same of packed ones. Takes some µs, however many they are."""
    low, limit, size = 0, min(len(a), len(b)), 64 * WIDTH
    high = limit
    while low < limit:
        high = min(low + size, limit)
        if a[low:high] != b[low:high]:
            break
        low, size = high, 4 * size
    while high - low > WIDTH:  # they are equal up to low, and not up to high
        middle = low + (high - low) // (2 * WIDTH) * WIDTH
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle
    return low // WIDTH
