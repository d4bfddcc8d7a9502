"""The model's cache as resident sequences, and those stowed in RAM: match, claim, truncate, append, release, stow, evict.

Owns which sequence holds what, and keeps the record equal to the cells. Questions (`match`, `is_`, `n_`) change nothing.

Every row attends to all cells up to the highest one in use, whoever holds them (0.5B, 1,500 tokens each: a step takes 1.08
times as long with two of them resident as with one, 1.31 times with five, 1.51 times with sixteen). So of what is idle only the
sequence used last and IDLE_CELLS more stay resident; the rest is stowed, which takes some 2 ms for 1,500 tokens, as does taking
it back. A model whose state can't be saved keeps what there is a sequence for.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inference.backend import Backend
from inference.sequence import WIDTH, Sequence, n_common_packed, pack
from inference.stow import Stowage, Stowed
from inference.types import ClaimKind

MIN_COPY = 32  # sharing fewer tokens than this is not worth a copy, and keeping fewer not the bytes
IDLE_CELLS = 1024
_SLACK_CELLS = 2048  # so many free cells below the highest one in use are worth moving a sequence


@dataclass(frozen=True, slots=True)
class Claim:
    """A sequence for a request, and how many of the request's tokens it holds. It may hold more behind them: a tail which the
    request uses as far as it agrees."""

    sequence: Sequence
    n: int
    kind: ClaimKind


class KvCache:
    """n_sequences: resident at once. n_stowed, stow_bytes: kept in RAM besides, if the backend can save and restore."""

    def __init__(self, backend: Backend, n_sequences: int, *, n_stowed: int = 0, stow_bytes: int = 0) -> None:
        self._backend = backend
        self.sequences = [Sequence(i) for i in range(min(n_sequences, backend.n_seq_max))]
        self.stowage = Stowage(n_stowed, stow_bytes)
        self.n_stows = self.n_restores = self.n_evictions = 0
        self._cell = itertools.count()
        self._tick = 0
        self._peak = 0  # most cells in use since the last move: the highest one in use is not above
        self._is_settled = True  # since then nothing was claimed or released

    # -- questions

    def match(self, packed: bytes) -> tuple[Sequence | None, int]:
        """The resident sequence that shares the longest prefix with these tokens, idle ones first at equal length."""
        best, n_best = None, 0
        for sequence in self.sequences:
            n = n_common_packed(sequence.packed, packed)
            if n > n_best or (n == n_best and n > 0 and best is not None and sequence.is_idle and not best.is_idle):
                best, n_best = sequence, n
        return best, n_best

    def n_known(self, tokens: tuple[int, ...]) -> int:
        """Longest prefix of tokens that is resident or stowed; from another thread off by what the running step changes."""
        packed = pack(tokens)
        known = [*(s.packed for s in self.stowage.all), *(bytes(s.packed) for s in self.sequences)]
        return max(n_common_packed(k, packed) for k in known)

    def n_used(self) -> int:
        """Cells in use; those that sequences share count once. May be asked from another thread, like `n_known`."""
        return self._n_cells(self.sequences)

    @staticmethod
    def _n_cells(sequences: list[Sequence]) -> int:
        cells = [bytes(s.cells) for s in sequences]
        shared = (max((n_common_packed(c, other) for other in cells[:i]), default=0) for i, c in enumerate(cells))
        return sum(map(len, cells)) // WIDTH - sum(shared)

    def n_freed_by(self, sequence: Sequence) -> int:
        """Cells that nobody else holds."""
        others = (n_common_packed(sequence.cells, s.cells) for s in self.sequences if s is not sequence)
        return len(sequence.tokens) - max(others, default=0)

    # -- claims

    def claim(self, tokens: tuple[int, ...], owner: int, *, n_prompt: int = 0, background: bool = False) -> Claim | None:
        """A sequence for a request; None if all are busy, or if background work is stowed and those that are busy leave no room
        for it. n_prompt: how many of the tokens are its prompt; 0: all.

        One whose prompt (or what is resident of it, if its prefill was ended) has little in common with the new one is left
        alone; the common part is then shared by copy. Background work also leaves alone what somebody types at: the next key
        will ask for its tail.
        """
        n_prompt = n_prompt or len(tokens)
        packed = pack(tokens)
        best, n = self.match(packed)
        stowed, n_stowed = self.stowage.match(packed)
        missed: ClaimKind | None = None
        if stowed is not None and n_stowed > n and n_stowed >= MIN_COPY:
            target = self._to_vacate(None)
            if target is None:
                return None
            if self._backend.n_ctx - self._n_cells([s for s in self.sequences if not s.is_idle]) < len(stowed.tokens):
                if background:
                    return None
                missed = ClaimKind.FULL
            elif (restored := self._restore(stowed, n_stowed, target, background)) is not None:
                kind = ClaimKind.RESTORED if restored else ClaimKind.CUT
                return self._take(target, owner, n_prompt, background, restored, kind)
            else:
                missed = ClaimKind.REFUSED
                best, n = self.match(packed)  # the attempt may have emptied it
        if best is not None and best.is_idle and _goes_on(best, n, background):
            return self._take(best, owner, n_prompt, background, n, ClaimKind.RESIDENT)
        target = self._to_vacate(best)
        if target is None:
            if best is None or not best.is_idle:
                return None
            self._keep(best)
            kind = ClaimKind.RESIDENT if n >= MIN_COPY else ClaimKind.SHORT
            return self._take(best, owner, n_prompt, background, n, kind)
        self._vacate(target)
        if best is None or n < MIN_COPY or not self._backend.copy(best.seq, target.seq, n):
            why = ClaimKind.NEW if not n else ClaimKind.SHORT if n < MIN_COPY else ClaimKind.CUT
            return self._take(target, owner, n_prompt, background, 0, missed or why)
        target.append(best.tokens[:n], best.cells[: n * WIDTH])
        if n - 1 in best.logits:
            target.logits[n - 1] = best.logits[n - 1]
        return self._take(target, owner, n_prompt, background, n, ClaimKind.SHARED)

    def _to_vacate(self, spared: Sequence | None) -> Sequence | None:
        """The idle sequence used longest ago, an empty one first, so that nothing is evicted while there is one."""
        idle = [s for s in self.sequences if s.is_idle and s is not spared]
        return min(idle, key=lambda s: (bool(s.tokens), s.last_used), default=None)

    def _take(
        self, sequence: Sequence, owner: int, n_prompt: int, background: bool, n: int, kind: ClaimKind
    ) -> Claim:
        self._tick += 1
        self._is_settled = False
        sequence.is_background = background
        sequence.owner, sequence.last_used, sequence.n_prompt = owner, self._tick, n_prompt
        return Claim(sequence, n, kind)

    def release(self, sequence: Sequence) -> None:
        """The request is done with it; what it holds stays for reuse."""
        self._tick += 1
        self._is_settled = False
        sequence.owner, sequence.last_used = None, self._tick

    # -- what the cells hold

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
        sequence.append(tokens, pack(itertools.islice(self._cell, len(tokens))))

    def keep_logits(self, sequence: Sequence, logits: NDArray[np.float32]) -> None:
        """Keep the logits behind the sequence's last position."""
        sequence.keep_logits(len(sequence.tokens) - 1, logits)

    def make_room(self, n: int) -> bool:
        """Empty idle sequences that really free cells, used longest ago first, until n are free; False if there is none."""
        n_before = self.n_evictions
        while self.n_evictions == n_before or self._backend.n_ctx - self.n_used() < n:
            frees = [s for s in self.sequences if s.is_idle and self.n_freed_by(s)]
            if not frees:
                break
            self._vacate(min(frees, key=lambda s: s.last_used))
            self.n_evictions += 1
        return self.n_evictions > n_before

    def forget_all(self) -> None:
        """The backend lost everything: so does the record."""
        self.stowage.clear()
        for sequence in self.sequences:
            sequence.cut(0)

    # -- stowing

    def settle(self) -> bool:
        """Stow or move one idle sequence whose cells slow the steps; false if there is nothing to do. Takes some ms."""
        if not self.stowage.is_open or self._is_settled:
            return False
        self._is_settled = not self._settle_one()
        return not self._is_settled

    def _settle_one(self) -> bool:
        self._peak = max(self._peak, self.n_used())
        idle = sorted((s for s in self.sequences if s.is_idle and s.tokens), key=lambda s: -s.last_used)
        n = 0
        for sequence in idle[1:]:
            n += self.n_freed_by(sequence)
            if n > IDLE_CELLS and self._keep(sequence):
                self.truncate(sequence, 0)
                return True
        return all(s.is_idle for s in self.sequences) and self._move(idle)

    def _move(self, idle: list[Sequence]) -> bool:
        """Put sequences into lower cells where many below are free."""
        n_used = self.n_used()
        if self._peak - n_used < _SLACK_CELLS:
            return False
        self._peak = n_used
        for sequence in idle:
            if self.n_freed_by(sequence) < len(sequence.tokens):
                continue  # it would no longer share
            state = self._backend.save(sequence.seq)
            if state is None:
                return False
            tokens, logits = list(sequence.tokens), dict(sequence.logits)
            self.truncate(sequence, 0)
            if self._backend.restore(sequence.seq, state, len(tokens)):
                self.stored(sequence, tokens)
                sequence.logits = logits
        return True

    def _vacate(self, sequence: Sequence) -> None:
        self._peak = max(self._peak, self.n_used())
        self._keep(sequence)
        self.truncate(sequence, 0)

    def _keep(self, sequence: Sequence) -> bool:
        """Let what the sequence holds be known elsewhere: stowed, or as part of another. It stays resident."""
        if not self.stowage.is_open or len(sequence.tokens) < MIN_COPY:
            return False
        others: list[Sequence | Stowed] = [*self.stowage.all, *(s for s in self.sequences if s is not sequence)]
        if any(n_common_packed(s.packed, sequence.packed) == len(sequence.tokens) for s in others):
            return True
        state = self._backend.save(sequence.seq)
        if state is None or not self.stowage.put(Stowed.of(sequence, state)):
            return False
        self.n_stows += 1
        return True

    def _restore(self, stowed: Stowed, n: int, target: Sequence, background: bool) -> int | None:
        """Put a stowed sequence into target; how many of its n tokens in common with the request are there then. None: it can't
        be put back, and target holds nothing.

        As with resident sequences, one of which the request needs little stays what it is, and is only read.
        """
        self._vacate(target)
        if self._backend.n_ctx - self.n_used() < len(stowed.tokens):
            self.make_room(len(stowed.tokens))
        if not self._backend.restore(target.seq, stowed.state, len(stowed.tokens)):
            self.stowage.drop(stowed)  # something is wrong with it
            return None
        self.stored(target, list(stowed.tokens))
        target.logits = dict(stowed.logits)
        target.last_used = stowed.last_used
        self.n_restores += 1
        if _goes_on(stowed, n, background):
            self.stowage.drop(stowed)
            return n
        return self.truncate(target, n)


def _goes_on(known: Sequence | Stowed, n: int, background: bool) -> bool:
    """Whether a request that has n tokens in common with what is known takes it over, instead of a copy of these."""
    return n >= known.n_worth or (2 * n >= known.n_worth and (not background or known.is_background))
