"""When saved prompts are put back, on the engine's thread between its steps.

Put back is what shares much more with a request than anything in the cache does. Meanwhile the request waits, and others go on.
It is verified: the last token is evaluated again, alone as before it was saved, and must say the same within TOLERANCE. What
does not is discarded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from inference.kv_cache import KvCache
from inference.prompt_cache.archive import Archive, Fetch
from inference.prompt_cache.probe import Probe
from inference.prompt_cache.saver import MIN_TOKENS
from inference.sequence import n_common, pack
from inference.types import ClaimKind, GenerationRequest

MIN_GAIN = 128  # tokens that putting back must save
TOLERANCE = 0.01

# A request waits no longer for the disk than a slow one needs.
_PATIENCE_S, _BYTES_PER_S = 1.0, 100e6
_OPENING_S = 0.25


def is_same(now: NDArray[np.float32], before: NDArray[np.float32]) -> bool:
    """Whether logits say what they said when the state was saved."""
    return now.shape == before.shape and float(np.abs(now - before).max(initial=0.0)) <= TOLERANCE


class Waiting(Protocol):
    """A run without a sequence."""

    @property
    def request(self) -> GenerationRequest: ...
    @property
    def request_id(self) -> int: ...
    @property
    def n_prompt(self) -> int: ...


W = TypeVar("W", bound=Waiting)


@dataclass(slots=True)
class _Lookup:
    """What was asked of the archive for a request. fetch: None while it is opening, and when there is nothing to wait for."""

    began: float
    fetch: Fetch | None = None
    is_done: bool = False


class Restorer:
    """clock: in seconds."""

    def __init__(self, archive: Archive, kv: KvCache, probe: Probe, clock: Callable[[], float]) -> None:
        self._archive = archive
        self._kv = kv
        self._probe = probe
        self._clock = clock
        self._lookups: dict[int, _Lookup] = {}
        self._misses: Counter[str] = Counter()
        self.n_hits = 0
        self.on_fetch: Callable[[tuple[int, ...]], None] = lambda tokens: None  # told what is read for whom

    # -- for any thread

    def n_known(self, tokens: tuple[int, ...]) -> int:
        """Longest prefix of tokens that is on disk, to a block; 0 if it would not be put back."""
        if len(tokens) < MIN_TOKENS:
            return 0
        match = self._archive.match(self._archive.chain(pack(tokens)))
        return match.n if match is not None and match.n >= MIN_GAIN else 0

    @property
    def misses(self) -> tuple[tuple[str, int], ...]:
        """Requests with much to evaluate for which nothing was put back, by reason."""
        return tuple(sorted(dict(self._misses).items()))

    # -- for the engine's

    def ready(self, waiting: Seq[W]) -> list[W]:
        """Those that need not wait for the disk. What has been read for them meanwhile is in the cache then."""
        ids = {run.request_id for run in waiting}
        for request_id in [i for i in self._lookups if i not in ids]:
            del self._lookups[request_id]
        return [run for run in waiting if not self._holds(run)]

    def is_held(self, run: Waiting) -> bool:
        """It waits for the disk, which will tell when it has been read."""
        lookup = self._lookups.get(run.request_id)
        return lookup is not None and not lookup.is_done

    def wait_s(self) -> float | None:
        """How long those that wait need not be looked at, unless the disk tells; None: none does."""
        return None if all(lookup.is_done for lookup in self._lookups.values()) else _OPENING_S

    def _holds(self, run: Waiting) -> bool:
        now = self._clock()
        lookup = self._lookups.get(run.request_id)
        if lookup is None:
            lookup = self._lookups[run.request_id] = _Lookup(now)
            lookup.is_done = run.n_prompt < MIN_TOKENS
        if lookup.is_done:
            return False
        if lookup.fetch is None:
            if self._archive.is_opening and now - lookup.began < _OPENING_S:
                return True
            lookup.fetch = self._look(run.request.tokens)
            lookup.is_done = lookup.fetch is None
            return not lookup.is_done
        if not lookup.fetch.is_done and now - lookup.began < _PATIENCE_S + lookup.fetch.entry.n_bytes / _BYTES_PER_S:
            return True
        lookup.is_done = True
        why = self._bring(lookup.fetch, run.request.tokens)
        if why:
            self._misses[why] += 1
        else:
            self.n_hits += 1
        return False

    def _look(self, tokens: tuple[int, ...]) -> Fetch | None:
        """Begin to read what is worth it; counts a miss if there is much to evaluate."""
        n_known = self._kv.n_known(tokens)
        if len(tokens) - n_known < MIN_TOKENS:
            return None
        match = self._archive.match(self._archive.chain(pack(tokens)))
        if match is not None and match.n - n_known >= MIN_GAIN:
            self.on_fetch(tokens)
            return self._archive.fetch(match.entry)
        off = self._archive.figures().why_off
        self._misses["off" if off else "opening" if self._archive.is_opening else "new" if match is None else "short"] += 1
        return None

    def _bring(self, fetch: Fetch, tokens: tuple[int, ...]) -> str:
        """Put a record that was read into the cache, verified; or why not."""
        record = fetch.record
        if not fetch.is_done or record is None:
            return fetch.why if fetch.is_done else "late"
        n_shared = n_common(record.tokens, tokens)
        if n_shared - self._kv.n_known(tokens) < MIN_GAIN:
            return "" if n_shared >= MIN_GAIN else "short"  # somebody else's request has brought it
        sequence = self._kv.bring(record.tokens, record.state, record.n_prompt)
        if isinstance(sequence, ClaimKind):
            if sequence is ClaimKind.REFUSED:
                self._archive.discard(fetch.entry, "the model did not take it back")
            return sequence
        logits = self._probe.logits(sequence)
        if logits is None:
            self._kv.truncate(sequence, 0)
            return "interrupted"
        if not is_same(logits, record.logits):
            self._kv.truncate(sequence, 0)
            self._archive.discard(fetch.entry, "behind its last token the model says something else than before")
            return "different"
        self._archive.used(fetch.entry)
        return ""
