"""What one request has taken so far: rows, steps, times, where its prompt came from. All its runs write into one.

Owns the sums that `GenerationStats` tells. Refuses to decide anything.
"""

from __future__ import annotations

from inference.types import GenerationStats


class Effort:
    """submitted: when, in seconds of the engine's clock."""

    def __init__(self, n_prompt: int, submitted: float) -> None:
        self._n_prompt = n_prompt
        self._submitted = submitted
        self.n_reused = 0
        self.n_evaluated = 0
        self.n_healing = 0
        self.n_generated = 0
        self.n_rows = 0
        self.n_drafted = 0
        self.n_accepted = 0
        self._n_steps = 0
        self._prefill_ms = 0.0
        self._decode_ms = 0.0
        self._first_byte_ms: float | None = None
        self._step = -1  # the last one that something of the request rode in
        self._step_ms = 0.0  # what of it is counted

    def placed(self, n: int) -> None:
        """The first n tokens of the prompt are resident. What was evaluated before and is lost doesn't count."""
        self.n_evaluated = min(self.n_evaluated, n)
        self.n_reused = n - self.n_evaluated

    def rode(self, n: int, n_of_prompt: int, ms: float, step: int, *, in_prefill: bool) -> None:
        """A step with n rows of one run is done, after ms; its number tells whether others of the request rode in it too."""
        if step != self._step:
            self._step, self._step_ms = step, 0.0
            self._n_steps += 1
        added, self._step_ms = ms - self._step_ms, ms
        if in_prefill:
            self._prefill_ms += added
        else:
            self._decode_ms += added
        self.n_evaluated += n_of_prompt
        self.n_rows += n

    def drafted(self, n: int) -> None:
        """The step had so many rows more, of tokens that were drafted."""
        self.n_rows += n
        self.n_drafted += n

    def said(self, now: float) -> None:
        """Something beyond the cursor."""
        if self._first_byte_ms is None:
            self._first_byte_ms = (now - self._submitted) * 1000

    def stats(self, now: float) -> GenerationStats:
        total = (now - self._submitted) * 1000
        return GenerationStats(
            n_prompt=self._n_prompt,
            n_reused=self.n_reused,
            n_evaluated=self.n_evaluated,
            n_healing=self.n_healing,
            n_generated=self.n_generated,
            n_steps=self._n_steps,
            n_rows=self.n_rows,
            n_drafted=self.n_drafted,
            n_accepted=self.n_accepted,
            queue_ms=max(0.0, total - self._prefill_ms - self._decode_ms),
            prefill_ms=self._prefill_ms,
            decode_ms=self._decode_ms,
            first_byte_ms=self._first_byte_ms,
        )
