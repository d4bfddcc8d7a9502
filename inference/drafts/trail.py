"""The text before the cursor as one array, and the texts beside it that a draft can be taken from.

Owns, for one run, what its prompt means as text: which tokens stand before the cursor (the prefix, then what was typed behind
the middle marker), and which elsewhere. That is read from the family's order of parts; a prompt without markers is all text
before the cursor. Grows with the run's path. Refuses to search: that is `match`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from inference.types import FimTokens

Tokens = NDArray[np.int32]
GAP = -1  # between two texts; no token


class Trail:
    """prompt: of the request. material: token arrays of other texts, the most telling ones last. stop_tokens: all control
    tokens."""

    def __init__(
        self,
        prompt: Sequence[int],
        fim: FimTokens | None,
        stop_tokens: Collection[int],
        material: Iterable[Tokens] = (),
        previous: Sequence[int] = (),
    ) -> None:
        before, beside = _parts(prompt, fim, stop_tokens)
        self._n_seen = len(prompt)
        self._n = len(before)
        self._array: Tokens = np.empty(max(2 * self._n, self._n + 256), dtype=np.int32)
        self._array[: self._n] = before
        self.n_before = self._n  # of the prompt
        self.beside = _joined([*material, *(np.array(part, dtype=np.int32) for part in beside)])
        self.previous: Tokens = np.array(previous, dtype=np.int32)
        self.read_at: tuple[bool, int, int] | None = (
            None  # of the last long match: of `beside`, where it went on, and from here
        )

    def follow(self, path: Sequence[int]) -> None:
        """Take in what the run has chosen since."""
        new = path[self._n_seen :]
        if self._n + len(new) > len(self._array):
            self._array = np.concatenate([self._array, np.empty(len(self._array) + len(new), dtype=np.int32)])
        self._array[self._n : self._n + len(new)] = new
        self._n += len(new)
        self._n_seen += len(new)

    @property
    def n(self) -> int:
        """Tokens before the cursor, what was chosen included."""
        return self._n

    @property
    def before(self) -> Tokens:
        """Everything before the cursor, what was chosen included."""
        return self._array[: self._n]

    @property
    def chosen(self) -> Tokens:
        """What was chosen behind the prompt."""
        return self._array[self.n_before : self._n]


def _parts(prompt: Sequence[int], fim: FimTokens | None, stop_tokens: Collection[int]) -> tuple[list[int], list[Sequence[int]]]:
    """The text before the cursor, and the other texts of the prompt."""
    cuts = [i for i, token in enumerate(prompt) if token in stop_tokens]
    bounds = [-1, *cuts, len(prompt)]
    parts = [(prompt[a] if a >= 0 else -1, prompt[a + 1 : b]) for a, b in pairwise(bounds)]
    opener = _opener(fim)
    last = parts.pop()[1]
    beside = [part for marker, part in parts if part and marker != opener]
    prefixes = [part for marker, part in parts if marker == opener]
    return [*(prefixes[-1] if prefixes else ()), *last], [*prefixes[:-1], *beside]


def _opener(fim: FimTokens | None) -> int | None:
    """The marker that the prefix stands behind, where that is not last; None: there is none."""
    order = fim.psm if fim is not None else None
    if order is None or "prefix" not in order:
        return None
    i = order.index("prefix")
    before = order[i - 1] if i else None
    return before[0] if isinstance(before, tuple) else None


def _joined(texts: Sequence[Tokens]) -> Tokens:
    gap = np.array([GAP], dtype=np.int32)
    return np.concatenate([part for text in texts for part in (text, gap)]) if texts else gap[:0]
