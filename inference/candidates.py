"""Several candidates for one request: runs that part from the first one early and go on by themselves.

Owns where they part, what of them is told, and in which order they stand at the end. The first is the run that there would be
alone, token by token. Others begin where the model found another token about as good: in the healed word, or up to WINDOW
tokens behind the cursor; likely ones at once, less likely ones, the best of those seen, when the window closes or the first
run ends. With a temperature each draws its own tokens from the first on. No other request pays: without a sequence to
spare no more begin, so there are fewer, never others.

A candidate's text is told from where it differs from those before it, so nothing that was told turns out to be a duplicate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from inference.backend import Vocab
from inference.healing import HealingIndex
from inference.run import Fork, Run, Sink
from inference.sampler import choose, likeliest, log_probability
from inference.types import FinishReason, GenerationRequest, Ranked, TokenEvent

WINDOW = 4
LIKELY = 0.3  # of the best token's probability: good enough to begin at once
LEAST = 0.05  # less is not worth a row in each step


@dataclass(frozen=True, slots=True)
class Alternative:
    """A token that could stand at a position of the path. share: its probability, divided by that of the best one there. rng:
    what draws those behind it, if they are drawn."""

    position: int
    token: int
    share: float
    logprob: float
    rng: np.random.Generator | None = None


class Candidates:
    """first: the run to begin with. sink: gets the events of all, one of them, the last, with a finish."""

    def __init__(self, request: GenerationRequest, sink: Sink, now: float) -> None:
        self._sink = sink
        self._n = request.n_candidates
        self._is_open = request.n_max > 0
        self._seen: list[Alternative] = []
        self._texts = [""]
        self._n_told = [0]
        self._error = ""
        self.first = Run(request, partial(self._hear, 0), now)
        self.first.candidates = self
        self._runs = [self.first]

    # -- where they part

    def part(self, logits: NDArray[np.float32], fork: Fork, vocab: Vocab, healing: HealingIndex, now: float) -> Iterator[Run]:
        """Those that begin now, with sequences of their own. The first run is about to choose from these logits."""
        if not self._is_open:
            return
        for alternative in self._alternatives(logits, vocab, healing):
            if len(self._runs) == self._n:
                break
            assert self.first.sequence is not None
            sequence = fork(self.first.sequence, alternative.position)
            if sequence is None:
                self._is_open = False
                return
            index = len(self._runs)
            run = self.first.fork(partial(self._hear, index), now)
            run.sequence, run.pos = sequence, alternative.position
            run.rng = alternative.rng or run.rng
            self._runs.append(run)
            self._texts.append("")
            self._n_told.append(0)
            run.repeat(self.first.path[: alternative.position], self._logprobs_at(alternative.position), vocab, now)
            run.take(alternative.token, alternative.logprob, vocab, now)
            yield run
        self._is_open &= len(self._runs) < self._n

    def _logprobs_at(self, position: int) -> list[float]:
        return self.first.logprobs[: position - self.first.n_prompt]

    def _alternatives(self, logits: NDArray[np.float32], vocab: Vocab, healing: HealingIndex) -> list[Alternative]:
        """What to begin with at this moment, best first."""
        run, sampling = self.first, self.first.request.sampling
        allowed = healing.allowed(run.rest) if run.rest else None
        if allowed is not None and not len(allowed):
            return []
        if sampling.temperature > 0:
            self._is_open = False
            return list(self._drawn(logits, vocab, allowed))
        position = len(run.path)
        (best, _), *others = likeliest(logits, sampling, run.recent, 2 * self._n + 2, allowed)  # control tokens among them
        self._seen += [
            Alternative(position, token, share, log_probability(logits, token, allowed))
            for token, share in others
            if share >= LEAST and token not in vocab.stop_tokens
        ]
        self._is_open = not self._is_last(best, vocab)
        found = [a for a in self._seen if a.share >= LIKELY or not self._is_open]
        self._seen = [a for a in self._seen if a not in found]
        return sorted(found, key=lambda a: -a.share)

    def _drawn(self, logits: NDArray[np.float32], vocab: Vocab, allowed: NDArray[np.int64] | None) -> Iterator[Alternative]:
        run, sampling = self.first, self.first.request.sampling
        for number in range(1, self._n):
            rng = np.random.default_rng((sampling.seed, number))
            token = choose(logits, sampling, run.recent, rng, allowed)
            if token not in vocab.stop_tokens:
                yield Alternative(len(run.path), token, 1.0, log_probability(logits, token, allowed), rng)

    def _is_last(self, token: int, vocab: Vocab) -> bool:
        """Does the window close, or the first run end, with this token?"""
        run, request = self.first, self.first.request
        beyond = vocab.pieces[token][len(run.rest) :]
        ends = token in vocab.stop_tokens or (request.first_line and b"\n" in beyond)
        return ends or run.n_generated + bool(beyond) >= min(WINDOW, request.n_max)

    # -- what is told

    def _hear(self, index: int, event: TokenEvent) -> None:
        self._texts[index] += event.text
        if index == 0:
            self._error = event.error or self._error
        if not all(run.finish is not None for run in self._runs):
            for i in range(len(self._runs)):
                if self._n_told[i] or self._has_parted(i):
                    self._tell(i, event)
            return
        kept = [0]
        for i in range(1, len(self._runs)):
            if self._n_told[i] or not self._is_duplicate(i, kept):
                kept.append(i)
                self._tell(i, event)
        text, finish = self._texts[0][self._n_told[0] :], self.first.finish
        self._sink(replace(event, text=text, finish=finish, error=self._error, ranking=self._ranking(kept)))

    def _tell(self, index: int, event: TokenEvent) -> None:
        if text := self._texts[index][self._n_told[index] :]:
            self._n_told[index] += len(text)
            self._sink(replace(event, text=text, finish=None, error="", candidate=index))

    def _has_parted(self, index: int) -> bool:
        """Is it another text than those before it, whatever they go on with?"""
        mine = self._texts[index]
        return not any(mine.startswith(other) or other.startswith(mine) for other in self._texts[:index])

    def _is_duplicate(self, index: int, kept: list[int]) -> bool:
        """Does it say nothing, or the same as another one, or is one the other's beginning only because it was cut?"""
        mine = (self._texts[index], self._runs[index].finish)
        if not mine[0] or mine[1] is FinishReason.ERROR:
            return True
        for other in ((self._texts[i], self._runs[i].finish) for i in kept):
            (short, finish), (long, _) = sorted((mine, other), key=lambda each: len(each[0]))
            if long.startswith(short) and (short == long or finish is not FinishReason.STOP):
                return True
        return False

    def _ranking(self, kept: list[int]) -> tuple[Ranked, ...]:
        ranked = []
        for i in kept:
            run = self._runs[i]
            assert run.finish is not None
            mean = sum(run.logprobs) / len(run.logprobs) if run.logprobs else None
            ranked.append(Ranked(i, mean, run.finish))
        return best_first(ranked)


def best_first(ranked: list[Ranked]) -> tuple[Ranked, ...]:
    """By mean logarithmic probability, those without a token last; equal ones by index."""
    return tuple(sorted(ranked, key=lambda r: (r.mean_logprob is None, -(r.mean_logprob or 0.0), r.candidate)))
