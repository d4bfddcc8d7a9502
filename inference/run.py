"""One run of a request inside the engine: its path of tokens, how far the path is resident, and what it has said so far.

Owns healing, stopping and the assembly of characters for one run. A request has one; if it asks for several candidates, more
part from it (`candidates`). Refuses the cache and the backend: the engine tells it what is resident and hands it logits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from inference.backend import Vocab
from inference.detokenizer import Detokenizer
from inference.effort import Effort
from inference.healing import HealingIndex
from inference.sampler import choose, log_probability
from inference.sequence import Sequence
from inference.types import FinishReason, GenerationRequest, GenerationStats, Priority, TokenEvent

Sink = Callable[[TokenEvent], None]
Fork = Callable[[Sequence, int], Sequence | None]  # another sequence with the first n positions of this one, if there is one


class Parting(Protocol):
    """Where others part from a run: `candidates`."""

    def part(self, logits: NDArray[np.float32], fork: Fork, vocab: Vocab, healing: HealingIndex, now: float) -> Iterator[Run]:
        """Those that begin now. The run is about to choose from these logits."""
        ...


class Run:
    """path = prompt, then the tokens chosen. path[:pos] is resident; path[pos:] is pending."""

    def __init__(self, request: GenerationRequest, sink: Sink, now: float, *, effort: Effort | None = None) -> None:
        self.request = request
        self.path = list(request.tokens)
        self.pos = 0
        self.sequence: Sequence | None = None
        self.finish: FinishReason | None = None
        self.candidates: Parting | None = None
        self.is_branch = False
        self.n_waited = 0  # steps of others since it last rode in one
        self.row_limit = 0  # most rows of its chunk, since a keystroke ended one; 0: no limit
        self.lacks_room = False  # set aside because the cells were full: it waits for somebody to end
        self.n_healing = 0
        self.n_generated = 0
        self.logprobs: list[float] = []  # of the tokens chosen, if there are candidates to be compared
        self._untold: list[float] = []  # of those beyond the cursor whose characters are not told yet, if that is wanted
        self.rest = request.heal  # bytes that the next tokens must begin with
        self.rng = np.random.default_rng(request.sampling.seed)
        self.effort = effort or Effort(len(request.tokens), now)
        self._detokenizer = Detokenizer()
        self._sink = sink

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
        return self.n_generated > 0

    @property
    def in_prefill(self) -> bool:
        return self.pos < self.n_prompt

    def place(self, sequence: Sequence | None, n: int) -> None:
        """The first n tokens of the path are resident, in `sequence`. What was evaluated before and is lost doesn't count."""
        self.sequence, self.pos = sequence, n
        self.effort.placed(min(n, self.n_prompt))

    def rode(self, n: int, ms: float, step: int) -> None:
        """A step of ms with n of its rows is done, the engine's step of that number."""
        n_of_prompt = max(0, min(self.pos + n, self.n_prompt) - self.pos)
        self.effort.rode(n, n_of_prompt, ms, step, in_prefill=self.in_prefill)
        self.pos += n
        self.n_waited = 0
        self.row_limit = 0 if n < self.row_limit else 2 * self.row_limit

    def stands(self) -> None:
        """The next token of the path was drafted, and is resident already."""
        self.pos += 1
        self.effort.n_accepted += 1

    def was_ended(self, n: int, n_drafted: int = 0) -> None:
        """A step with n of its rows, and so many drafted, was ended for somebody else: the next one is shorter."""
        self.effort.n_rows += n
        self.effort.drafted(n_drafted)
        self.row_limit = max(1, n // 2)

    def role(self, position: int) -> str:
        """What the token at `position` of the path counts as: background, prompt, healing or generated."""
        if not self.priority.is_foreground:
            return "background"
        if position < self.n_prompt:
            return "prompt"
        return "healing" if position < self.n_prompt + self.n_healing else "generated"

    def others(self, logits: NDArray[np.float32], fork: Fork, vocab: Vocab, healing: HealingIndex, now: float) -> list[Run]:
        """Those that part from it now, before it chooses from these logits."""
        return [] if self.candidates is None else list(self.candidates.part(logits, fork, vocab, healing, now))

    def accept(self, logits: NDArray[np.float32], vocab: Vocab, healing: HealingIndex, now: float) -> None:
        """Choose the token behind the whole path from its logits; says what is new, and ends where it must."""
        if self.request.n_max == 0:
            self.end(FinishReason.RESIDENT, now)
            return
        sampling = self.request.sampling
        allowed = None
        if self.rest:
            allowed = healing.allowed(self.rest)
            if not len(allowed):
                self.end(FinishReason.ERROR, now, "the vocabulary has no token for what was typed")
                return
        token = choose(logits, sampling, self.recent, self.rng, allowed)
        is_wanted = self.request.n_candidates > 1 or self.n_generated < self.request.n_logprobs
        self.take(token, log_probability(logits, token, allowed) if is_wanted else 0.0, vocab, now)

    @property
    def recent(self) -> list[int]:
        """Tokens that the repeat penalty applies to."""
        return self.path[-self.request.sampling.repeat_last_n :]

    def take(self, token: int, logprob: float, vocab: Vocab, now: float) -> None:
        """This token is chosen. logprob: its logarithmic probability among those allowed, if that is wanted."""
        if token in vocab.stop_tokens:
            self.end(FinishReason.STOP, now)
            return
        n_healing, n_generated = self.n_healing, self.n_generated
        text, ends_line = self._append(token, logprob, vocab)
        self.effort.n_healing += self.n_healing - n_healing
        self.effort.n_generated += self.n_generated - n_generated
        if self.has_byte and not self.is_branch:
            self.effort.said(now)
        is_long = self.n_generated > n_generated and self.n_generated >= self.request.n_max
        finish = FinishReason.LENGTH if ends_line or is_long else None
        if text or finish:
            self._say(text, finish, now)

    def repeat(self, path: list[int], logprobs: list[float], vocab: Vocab, now: float) -> None:
        """What another run of the request has chosen, which counts as that one's work."""
        texts = [self._append(t, p, vocab)[0] for t, p in zip(path[self.n_prompt :], logprobs, strict=True)]
        if text := "".join(texts):
            self._say(text, None, now)

    def _append(self, token: int, logprob: float, vocab: Vocab) -> tuple[str, bool]:
        """The characters beyond the cursor that the token completes, and whether it completes the only line wanted."""
        data = vocab.pieces[token]
        self.path.append(token)
        self.logprobs.append(logprob)
        beyond = data[len(self.rest) :]
        if self.rest:
            self.n_healing += 1
            self.rest = self.rest[len(data) :]
        if beyond and self.n_generated < self.request.n_logprobs:
            self._untold.append(logprob)
        self.n_generated += bool(beyond)
        ends_line = self.request.first_line and b"\n" in beyond
        return self._detokenizer.push(beyond[: beyond.index(b"\n") + 1] if ends_line else beyond), ends_line

    def end(self, finish: FinishReason, now: float, error: str = "") -> None:
        if self.finish is None:
            self._say("", finish, now, error)

    def _say(self, text: str, finish: FinishReason | None, now: float, error: str = "") -> None:
        self.finish = finish
        logprob = None
        if text and self._untold:
            logprob, self._untold = sum(self._untold) / len(self._untold), []
        self._sink(TokenEvent(self.request_id, text, self.stats(now), finish, error, logprob=logprob))

    def stats(self, now: float) -> GenerationStats:
        return self.effort.stats(now)

    def fork(self, sink: Sink, now: float) -> Run:
        """Another run of the same request, that has chosen nothing yet."""
        other = Run(self.request, sink, now, effort=self.effort)
        other.is_branch = True
        return other
