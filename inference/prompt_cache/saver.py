"""When prompts are saved, on the engine's thread between its steps.

Owns no cell and no file: it decides between the model's cache and the archive. A save costs a step of one row and the taking of
a state, some 30 ms, and only when nobody waits; all else is the archive's, on a thread of its own.

Saved is: while somebody types, every `save_every_s`, the sequence that has grown most, if that is GROWN tokens; after a quiet
moment, before the weights are freed and at the end, whatever has grown by a block; and what goes from the cache for lack of
place. Nothing under MIN_TOKENS, and nothing of a private request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from inference.backend import Backend
from inference.kv_cache import KvCache
from inference.prompt_cache.archive import Archive
from inference.prompt_cache.index import BLOCK
from inference.prompt_cache.probe import Probe
from inference.prompt_cache.record import Record
from inference.sequence import Sequence
from inference.stow import Stowed
from inference.types import ClaimKind

MIN_TOKENS = 256
GROWN = 256
QUIET_S = 5.0

_LATER_S = 15.0  # when nothing can be written now
_N_EVICTED = 2


class Saver:
    """clock: in seconds. waits: true: nothing is saved while somebody types, since a step with all threads takes long now."""

    def __init__(
        self,
        archive: Archive,
        kv: KvCache,
        backend: Backend,
        probe: Probe,
        *,
        clock: Callable[[], float],
        save_every_s: float,
        waits: Callable[[], bool] = lambda: False,
    ) -> None:
        self._archive = archive
        self._kv = kv
        self._backend = backend
        self._probe = probe
        self._clock = clock
        self._save_every_s = save_every_s
        self._waits = waits
        self._arrived_at = self._saved_at = clock()
        self._evicted: list[Stowed] = []
        self._looked_at: tuple[object, ...] = ()
        self.on_save: Callable[[tuple[int, ...]], None] = lambda tokens: None  # told what was handed over
        kv.stowage.on_evict, kv.on_loss = self._evict, self._lose

    def has_arrived(self) -> None:
        """A request has."""
        self._arrived_at = self._clock()

    def _evict(self, stowed: Stowed) -> None:
        """It has left the cache, and RAM. Its place is here until there is time to save it; the oldest ones go."""
        if self._grown(stowed) >= GROWN and all(s.packed != stowed.packed for s in self._evicted):
            self._evicted = [*self._evicted, stowed][-_N_EVICTED:]

    def _lose(self, sequence: Sequence) -> None:
        """It leaves the cache, and RAM has no place for it."""
        if self._grown(sequence) >= GROWN and (state := self._backend.save(sequence.seq)) is not None:
            self._evict(Stowed.of(sequence, state))

    def tend(self) -> bool:
        """Save one sequence if it is time; nobody waits. False: nothing was due."""
        now = self._clock()
        is_quiet = now - self._arrived_at >= QUIET_S
        is_due = is_quiet or (now - self._saved_at >= self._save_every_s and not self._waits())
        if not (self._archive.is_taking and is_due):
            return False
        looked_at = self._state(is_quiet)
        if looked_at == self._looked_at:
            return False
        if self._save_next(BLOCK if is_quiet else GROWN, with_stowed=is_quiet):
            return True
        self._looked_at = looked_at
        return False

    def wait_s(self) -> float | None:
        """How long nothing will be due, unless something happens."""
        if self._looked_at == self._state(True):
            return None
        if not self._archive.is_taking:
            return None if self._archive.figures().why_off else _LATER_S
        return max(0.01, self._arrived_at + QUIET_S - self._clock())

    def finish(self, limit_s: float) -> None:
        """Save what is worth it, as far as there is time; then nothing more. The backend must not be told to abort."""
        until = self._clock() + limit_s
        while self._archive.is_taking and self._clock() < until and self._save_next(BLOCK, with_stowed=True):
            pass
        self._archive.close(max(limit_s, 0.1))

    def _state(self, is_quiet: bool) -> tuple[object, ...]:
        """Differs when there may be something else to save."""
        held = [(s.seq, s.last_used, len(s.tokens), s.is_idle) for s in self._kv.sequences]
        return (is_quiet, tuple(held), tuple(id(s) for s in self._kv.stowage.all), len(self._evicted))

    def _save_next(self, n_grown: int, *, with_stowed: bool) -> bool:
        idle = [s for s in self._kv.sequences if s.is_idle and not s.is_branch]
        if (sequence := _most(idle, self._grown, n_grown)) is not None:
            return self._save(sequence)
        elsewhere: list[Stowed] = [*self._evicted, *(self._kv.stowage.all if with_stowed else ())]
        if (stowed := _most(elsewhere, self._grown, n_grown)) is None:
            return False
        return self._save_stowed(stowed)

    def _grown(self, held: Sequence | Stowed) -> int:
        """Tokens beyond what is on disk; 0 if it is not to be saved at all."""
        n = len(held.tokens)
        if n < MIN_TOKENS or held.is_private or not self._archive.has_place(n):
            return 0
        match = self._archive.match(self._archive.chain(held.packed))
        return n - match.n if match is not None else n

    def _save(self, sequence: Sequence) -> bool:
        logits = self._probe.logits(sequence)
        state = self._backend.save(sequence.seq) if logits is not None else None
        if logits is None or state is None:
            return False
        n_prompt = min(sequence.n_prompt, len(sequence.tokens)) or len(sequence.tokens)
        record = Record(tuple(sequence.tokens), n_prompt, logits, state)
        self._archive.put(record, self._archive.chain(sequence.packed))
        self.on_save(record.tokens)
        self._saved_at = self._clock()
        return True

    def _save_stowed(self, stowed: Stowed) -> bool:
        """For as long as that takes it is put into an empty sequence, or into the one used longest ago, not the last one."""
        idle = sorted((s for s in self._kv.sequences if s.is_idle), key=lambda s: (bool(s.tokens), s.last_used))
        if not idle or (idle[0].tokens and len(idle) < 2):
            return False
        if self._backend.n_ctx - self._kv.n_used() + self._kv.n_freed_by(idle[0]) < len(stowed.tokens):
            return False
        self._evicted = [s for s in self._evicted if s is not stowed]
        sequence = self._kv.bring(stowed.tokens, stowed.state, stowed.n_prompt)
        if isinstance(sequence, ClaimKind):
            return False
        is_saved = self._save(sequence)
        self._kv.truncate(sequence, 0)
        return is_saved


S = TypeVar("S", Sequence, Stowed)


def _most(all_: Iterable[S], grown: Callable[[S], int], n_min: int) -> S | None:
    """The one that has grown most, if that is n_min."""
    n, best = n_min - 1, None
    for each in all_:
        if (n_grown := grown(each)) > n:
            n, best = n_grown, each
    return best
