"""The model's cache as resident sequences, and those stowed in RAM: match, claim, truncate, append, release, stow, evict.

Owns which sequence holds what, and keeps the record equal to the cells. Questions (`match`, `is_`, `n_`) change nothing.

Every row attends to all cells up to the highest one in use, whoever holds them, and if nobody does (0.5B on a slow CPU: 1,500
cells more make a step 1.2 times as long, 4,500 more 1.5 times). So of what is idle only the sequence used last and IDLE_CELLS
more stay resident; the rest is stowed, which takes some 3 ms for 1,500 tokens, as does taking it back, and what lies high above
free cells is moved down. A model whose state can't be saved keeps what there is a sequence for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from inference.backend import Backend
from inference.cells import Cells
from inference.sequence import WIDTH, Sequence, n_common_packed, pack
from inference.stow import Stowage, Stowed
from inference.types import ClaimKind

MIN_COPY = 32  # sharing fewer tokens than this is not worth a copy, and keeping fewer not the bytes
IDLE_CELLS = 1024
_SLACK_CELLS = 512  # so many free cells below the highest one in use are worth moving a sequence


@dataclass(frozen=True, slots=True)
class Claim:
    """A sequence for a request, and how many of the request's tokens it holds. It may hold more behind them: a tail which the
    request uses as far as it agrees."""

    sequence: Sequence
    n: int
    kind: ClaimKind


class KvCache(Cells):
    """n_sequences: resident at once. n_stowed, stow_bytes: kept in RAM besides, if the backend can save and restore."""

    def __init__(self, backend: Backend, n_sequences: int, *, n_stowed: int = 0, stow_bytes: int = 0) -> None:
        super().__init__(backend, n_sequences)
        self.stowage = Stowage(n_stowed, stow_bytes)
        self.n_stows = self.n_restores = self.n_evictions = 0
        self._tick = 0
        self.on_loss: Callable[[Sequence], None] = lambda sequence: None  # told what goes and is kept nowhere
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

    # -- claims

    def claim(
        self, tokens: tuple[int, ...], owner: int, *, n_prompt: int = 0, background: bool = False, private: bool = False
    ) -> Claim | None:
        """A sequence for a request; None if all are busy, or if background work is stowed and those that are busy leave no room
        for it. n_prompt: how many of the tokens are its prompt; 0: all. private: nothing of it is to be saved to disk.

        One whose prompt (or what is resident of it, if its prefill was ended) has little in common with the new one is left
        alone; the common part is then shared by copy. Background work also leaves alone what somebody types at: the next key
        will ask for its tail.
        """
        claim = self._claim(tokens, owner, n_prompt or len(tokens), background)
        if claim is not None:
            claim.sequence.is_private |= private
        return claim

    def _claim(self, tokens: tuple[int, ...], owner: int, n_prompt: int, background: bool) -> Claim | None:
        packed = pack(tokens)
        best, n = self.match(packed)
        stowed, n_stowed = self.stowage.match(packed)
        missed: ClaimKind | None = None
        if stowed is not None and n_stowed > n and n_stowed >= MIN_COPY:
            target = self._to_vacate(None)
            if target is None:
                return None
            if not self._has_place(len(stowed.tokens)):
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
        target.is_private = best.is_private
        if n - 1 in best.logits:
            target.logits[n - 1] = best.logits[n - 1]
        return self._take(target, owner, n_prompt, background, n, ClaimKind.SHARED)

    def _to_vacate(self, spared: Sequence | None) -> Sequence | None:
        """The idle sequence used longest ago, an empty one first, so that nothing is evicted while there is one."""
        idle = [s for s in self.sequences if s.is_idle and s is not spared]
        return min(idle, key=lambda s: (bool(s.tokens), s.last_used), default=None)

    def _has_place(self, n: int) -> bool:
        """For n tokens, beside those that are busy."""
        return self._backend.n_ctx - self.n_cells(s for s in self.sequences if not s.is_idle) >= n

    def _take(self, sequence: Sequence, owner: int, n_prompt: int, background: bool, n: int, kind: ClaimKind) -> Claim:
        self._tick += 1
        self._is_settled = False
        sequence.is_background, sequence.is_branch = background, False
        sequence.owner, sequence.last_used, sequence.n_prompt = owner, self._tick, n_prompt
        return Claim(sequence, n, kind)

    def release(self, sequence: Sequence) -> None:
        """The request is done with it; what it holds stays for reuse."""
        self._tick += 1
        self._is_settled = False
        sequence.owner, sequence.last_used = None, self._tick

    # -- candidates beside the first

    def fork(self, source: Sequence, n: int) -> Sequence | None:
        """Another sequence that shares the first n positions of a claimed one. None: there is none to spare, or this model
        can't. Nothing is lost for it: it is an empty one, or one whose tokens are stowed or known elsewhere."""
        idle = sorted((s for s in self.sequences if s.is_idle), key=lambda s: (bool(s.tokens), s.last_used))
        target = next((s for s in idle if len(s.tokens) < MIN_COPY or self._keep(s)), None)
        if target is None:
            return None
        self._peak = max(self._peak, self.n_used())
        self.truncate(target, 0)
        if not self._backend.copy(source.seq, target.seq, n):
            return None
        target.append(source.tokens[:n], source.cells[: n * WIDTH])
        self._tick += 1
        self._is_settled = False
        target.is_background, target.is_branch, target.is_private = source.is_background, True, source.is_private
        target.owner, target.last_used, target.n_prompt = source.owner, self._tick, source.n_prompt
        return target

    def drop(self, sequence: Sequence) -> None:
        """A candidate has ended: what it holds beside the shared beginning is worth nothing."""
        self.truncate(sequence, 0)
        self.release(sequence)

    # -- room

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
        if not self._keep(sequence):
            self.on_loss(sequence)
        self.truncate(sequence, 0)

    def _keep(self, sequence: Sequence) -> bool:
        """Let what the sequence holds be known elsewhere: stowed, or as part of another. It stays resident."""
        if not self.stowage.is_open or len(sequence.tokens) < MIN_COPY:
            return False
        lasting = (s for s in self.sequences if s is not sequence and not s.is_branch)
        others: list[Sequence | Stowed] = [*self.stowage.all, *lasting]
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
        if not self._put_back(target, stowed.tokens, stowed.state):
            self.stowage.drop(stowed)  # something is wrong with it
            return None
        target.logits = dict(stowed.logits)
        target.last_used, target.is_private = stowed.last_used, stowed.is_private
        self.n_restores += 1
        if _goes_on(stowed, n, background):
            self.stowage.drop(stowed)
            return n
        return self.truncate(target, n)

    def bring(self, tokens: tuple[int, ...], state: bytes, n_prompt: int) -> Sequence | ClaimKind:
        """Put a state that was neither resident nor stowed into an idle sequence, which stays idle; or why not."""
        target = self._to_vacate(None)
        if target is None or not self._has_place(len(tokens)):
            return ClaimKind.FULL
        if not self._put_back(target, tokens, state):
            return ClaimKind.REFUSED
        target.n_prompt, target.is_background = n_prompt, False
        self.release(target)
        return target

    def _put_back(self, target: Sequence, tokens: tuple[int, ...], state: bytes) -> bool:
        """False: target is empty."""
        self._vacate(target)
        if self._backend.n_ctx - self.n_used() < len(tokens):
            self.make_room(len(tokens))
        if not self._backend.restore(target.seq, state, len(tokens)):
            return False
        self.stored(target, list(tokens))
        return True


def _goes_on(known: Sequence | Stowed, n: int, background: bool) -> bool:
    """Whether a request that has n tokens in common with what is known takes it over, instead of a copy of these."""
    return n >= known.n_worth or (2 * n >= known.n_worth and (not background or known.is_background))
