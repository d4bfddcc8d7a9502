"""One request inside the engine: its path of tokens, how far the path is resident, and what it has said so far.

Owns healing, stopping and the assembly of characters for one request. Refuses the cache and the backend: the engine tells
it what is resident and hands it logits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from inference.backend import Vocab
from inference.detokenizer import Detokenizer
from inference.healing import HealingIndex
from inference.sampler import choose
from inference.sequence import Sequence
from inference.types import FinishReason, GenerationRequest, GenerationStats, Priority, TokenEvent

Sink = Callable[[TokenEvent], None]


class Run:
    """path = prompt, then the tokens chosen. path[:pos] is resident; path[pos:] is pending."""

    def __init__(self, request: GenerationRequest, sink: Sink, now: float) -> None:
        self.request = request
        self.path = list(request.tokens)
        self.pos = 0
        self.sequence: Sequence | None = None
        self.finish: FinishReason | None = None
        self.n_waited = 0  # steps of others since it last rode in one
        self.row_limit = 0  # most rows of its chunk, since a keystroke ended one; 0: no limit
        self.lacks_room = False  # set aside because the cells were full: it waits for somebody to end
        self.n_reused = 0
        self.n_evaluated = 0
        self.n_healing = 0
        self.n_generated = 0
        self.n_steps = 0
        self.n_rows = 0
        self.prefill_ms = 0.0
        self.decode_ms = 0.0
        self._rest = request.heal
        self._detokenizer = Detokenizer()
        self._rng = np.random.default_rng(request.sampling.seed)
        self._sink = sink
        self._submitted = now
        self._first_byte_ms: float | None = None

    @property
    def request_id(self) -> int:
        return self.request.request_id

    @property
    def priority(self) -> Priority:
        return self.request.priority

    @property
    def n_prompt(self) -> int:
        return len(self.request.tokens)

    @property
    def n_pending(self) -> int:
        return len(self.path) - self.pos

    @property
    def has_byte(self) -> bool:
        """Something beyond the cursor was said already."""
        return self._first_byte_ms is not None

    @property
    def in_prefill(self) -> bool:
        return self.pos < self.n_prompt

    def place(self, sequence: Sequence | None, n: int) -> None:
        """The first n tokens of the path are resident, in `sequence`. What was evaluated before and is lost doesn't count."""
        self.sequence, self.pos = sequence, n
        in_prompt = min(n, self.n_prompt)
        self.n_evaluated = min(self.n_evaluated, in_prompt)
        self.n_reused = in_prompt - self.n_evaluated

    def rode(self, n: int, ms: float) -> None:
        """A step of ms with n of its rows is done."""
        if self.in_prefill:
            self.prefill_ms += ms
        else:
            self.decode_ms += ms
        self.n_evaluated += max(0, min(self.pos + n, self.n_prompt) - self.pos)
        self.pos += n
        self.n_steps += 1
        self.n_rows += n
        self.n_waited = 0
        self.row_limit = 0 if n < self.row_limit else 2 * self.row_limit

    def was_ended(self, n: int) -> None:
        """A step with n of its rows was ended for somebody else: the next one is shorter."""
        self.n_rows += n
        self.row_limit = max(1, n // 2)

    def role(self, position: int) -> str:
        """What the token at `position` of the path counts as: background, prompt, healing or generated."""
        if not self.priority.is_foreground:
            return "background"
        if position < self.n_prompt:
            return "prompt"
        return "healing" if position < self.n_prompt + self.n_healing else "generated"

    def accept(self, logits: NDArray[np.float32], vocab: Vocab, healing: HealingIndex, now: float) -> None:
        """Choose the token behind the whole path from its logits; says what is new, and ends where it must."""
        if self.request.n_max == 0:
            self.end(FinishReason.RESIDENT, now)
            return
        sampling = self.request.sampling
        allowed = None
        if self._rest:
            allowed = healing.allowed(self._rest)
            if not len(allowed):
                self.end(FinishReason.ERROR, now, "the vocabulary has no token for what was typed")
                return
        token = choose(logits, sampling, self.path[-sampling.repeat_last_n :], self._rng, allowed)
        if token in vocab.stop_tokens:
            self.end(FinishReason.STOP, now)
            return
        self.path.append(token)
        beyond = self._beyond(vocab.pieces[token])
        finish = None
        if beyond:
            self.n_generated += 1
            if self._first_byte_ms is None:
                self._first_byte_ms = (now - self._submitted) * 1000
            if self.n_generated >= self.request.n_max:
                finish = FinishReason.LENGTH
        text = self._detokenizer.push(beyond)
        if text or finish:
            self._say(text, finish, now)

    def _beyond(self, data: bytes) -> bytes:
        """The part of a chosen token's bytes that reaches beyond the cursor."""
        if not self._rest:
            return data
        self.n_healing += 1
        n = len(self._rest)
        self._rest = self._rest[len(data) :]
        return data[n:]

    def end(self, finish: FinishReason, now: float, error: str = "") -> None:
        if self.finish is None:
            self._say("", finish, now, error)

    def _say(self, text: str, finish: FinishReason | None, now: float, error: str = "") -> None:
        self.finish = finish
        self._sink(TokenEvent(self.request_id, text, self.stats(now), finish, error))

    def stats(self, now: float) -> GenerationStats:
        total = (now - self._submitted) * 1000
        return GenerationStats(
            n_prompt=self.n_prompt,
            n_reused=self.n_reused,
            n_evaluated=self.n_evaluated,
            n_healing=self.n_healing,
            n_generated=self.n_generated,
            n_steps=self.n_steps,
            n_rows=self.n_rows,
            queue_ms=max(0.0, total - self.prefill_ms - self.decode_ms),
            prefill_ms=self.prefill_ms,
            decode_ms=self.decode_ms,
            first_byte_ms=self._first_byte_ms,
        )
