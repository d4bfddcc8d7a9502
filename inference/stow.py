"""Sequences kept in RAM: the state of their cells, taken out of the model's cache to be put back later.

Owns what is known of each (its tokens and the bytes that the backend gave) within a number and a sum of bytes; the one used
longest ago goes first. Refuses the backend: whoever puts and takes also saves and restores.

Of the kept logits only those at the ends of the prompt and of the sequence come along: they have 0.6 MB each with a vocabulary
of 151,936, where the state of 1,500 tokens has 18 MB. They save the step that a return to the same place would begin with; the
others would almost double the bytes, for a step or two of what was being typed long ago.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inference.sequence import Sequence, n_common_packed


@dataclass(frozen=True, slots=True)
class Stowed:
    """A sequence outside the cache. logits: position → logits behind it."""

    tokens: tuple[int, ...]
    packed: bytes
    state: bytes
    logits: Mapping[int, NDArray[np.float32]]
    n_prompt: int
    is_background: bool
    last_used: int
    is_private: bool = False

    @classmethod
    def of(cls, sequence: Sequence, state: bytes) -> Stowed:
        ends = (sequence.n_prompt - 1, len(sequence.tokens) - 1)
        logits = {p: sequence.logits[p] for p in ends if p in sequence.logits}
        return cls(
            tuple(sequence.tokens), bytes(sequence.packed), state, logits, sequence.n_prompt, sequence.is_background,
            sequence.last_used, sequence.is_private,
        )  # fmt: skip

    @property
    def n_worth(self) -> int:
        return min(self.n_prompt, len(self.tokens))

    @property
    def n_bytes(self) -> int:
        return len(self.state) + sum(row.nbytes for row in self.logits.values())


class Stowage:
    """At most n_max sequences and max_bytes bytes."""

    def __init__(self, n_max: int, max_bytes: int) -> None:
        self._n_max = n_max
        self.max_bytes = max_bytes
        self._stowed: list[Stowed] = []  # replaced, never changed: other threads read it
        self.on_evict: Callable[[Stowed], None] = lambda stowed: None  # told what goes for others

    def __len__(self) -> int:
        return len(self._stowed)

    @property
    def is_open(self) -> bool:
        """Anything may be kept at all."""
        return self._n_max > 0 and self.max_bytes > 0

    @property
    def all(self) -> tuple[Stowed, ...]:
        return tuple(self._stowed)

    @property
    def n_bytes(self) -> int:
        return sum(s.n_bytes for s in self._stowed)

    def match(self, packed: bytes) -> tuple[Stowed | None, int]:
        """The one that shares the longest prefix with these tokens; the shorter one at equal length."""
        best, n_best = None, 0
        for stowed in self._stowed:
            n = n_common_packed(stowed.packed, packed)
            if n > n_best or (n == n_best and n and best is not None and len(stowed.tokens) < len(best.tokens)):
                best, n_best = stowed, n
        return best, n_best

    def put(self, stowed: Stowed) -> bool:
        """Keep it. Before it comes, those that it begins with go, and then the ones used longest ago, as far as it needs their
        place. False: it would be one of these itself; then nothing has gone."""
        if not self.is_open or stowed.n_bytes > self.max_bytes:
            return False
        others = (s for s in self._stowed if n_common_packed(s.packed, stowed.packed) < len(s.tokens))
        left = sorted(others, key=lambda s: s.last_used)
        n_bytes, evicted = sum(s.n_bytes for s in left), list[Stowed]()
        while len(left) >= self._n_max or n_bytes + stowed.n_bytes > self.max_bytes:
            if left[0].last_used > stowed.last_used:
                return False
            evicted.append(left.pop(0))
            n_bytes -= evicted[-1].n_bytes
        self._stowed = left
        self._stowed = sorted([*left, stowed], key=lambda s: s.last_used)
        for each in evicted:
            self.on_evict(each)
        return True

    def drop(self, stowed: Stowed) -> None:
        self._stowed = [s for s in self._stowed if s is not stowed]

    def clear(self) -> None:
        self._stowed = []
