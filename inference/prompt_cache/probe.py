"""The same question twice: what the model says behind a sequence's last token, evaluated alone.

Before a state is saved and after it was put back the answer must be the same. Logits depend on more than tokens: on the CPU,
with 16-bit cells, those of one token differ by 0.3 (0.5B) when its sequence lies in other cells, or when it is evaluated with
others, or by another number of threads. So for the question everything else is taken out of the cache, and put back afterwards:
the sequence lies in the first cells then, in the order that its state has; and the step gets all threads.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
from numpy.typing import NDArray

from inference.backend import Backend, Outcome, Row
from inference.cells import Cells
from inference.sequence import Sequence


class Probe:
    """on_lost: the model's context has failed. with_all: steps inside of it get all threads."""

    def __init__(
        self,
        cells: Cells,
        backend: Backend,
        on_lost: Callable[[], None],
        with_all: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._cells = cells
        self._backend = backend
        self._on_lost = on_lost
        self._with_all = with_all

    def logits(self, sequence: Sequence) -> NDArray[np.float32] | None:
        """Shape (n_vocab,). None: it was interrupted, or can't be; the last token is gone then, or all of them."""
        taken = self._cells.take_out()
        if taken is None:
            return None
        taken.sort(key=lambda each: each[0] is not sequence)
        answer: NDArray[np.float32] | None = None
        for i, each in enumerate(taken):
            if not self._cells.put_in(*each) and not each[0].is_idle:
                self._on_lost()  # a request goes on in it
                return None
            if i == 0 and sequence.tokens:
                answer = self._ask(sequence)
        return answer

    def _ask(self, sequence: Sequence) -> NDArray[np.float32] | None:
        n, token = len(sequence.tokens) - 1, sequence.tokens[-1]
        if self._cells.truncate(sequence, n) < n:
            return None
        with self._with_all():
            outcome = self._backend.decode([Row(sequence.seq, n, token, wants_logits=True)])
        if outcome is Outcome.FATAL:
            self._on_lost()
        if outcome is not Outcome.OK:
            return None
        self._cells.stored(sequence, [token])
        logits = self._backend.logits(0)
        self._cells.keep_logits(sequence, logits)
        return logits.copy()
