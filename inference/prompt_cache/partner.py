"""The draft model's part of saved prompts: its state goes to disk when its target's does, and comes back when that does.

Owns the draft's saved states: an archive of their own, under the draft's own fingerprint. A target's record and the draft's
have the same tokens, and by these one is found from the other; either may be missing. Put back is only what is verified as a
target's is, by the draft's own last token; what is wrong is discarded alone, and the draft evaluates what it lacks.

On the engine's thread, and only while nobody waits: nothing here is needed for a first byte.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from inference.backend import Backend
from inference.cells import Cells
from inference.drafts.model import DraftModel
from inference.prompt_cache.archive import Archive, Fetch, Figures
from inference.prompt_cache.index import BLOCK
from inference.prompt_cache.probe import Probe
from inference.prompt_cache.record import Record
from inference.prompt_cache.restorer import MIN_GAIN, is_same
from inference.prompt_cache.saver import MIN_TOKENS
from inference.sequence import Sequence, n_common, n_common_packed, pack

_PATIENCE_S = 1.0  # so long nothing is evaluated anew that may come from the disk


class Partner:
    """archive: of the draft, started. backend: the draft's. clock: in seconds."""

    def __init__(
        self, archive: Archive, model: DraftModel, backend: Backend, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.archive = archive
        self._model = model
        self._cells: Cells = model.cells
        self._backend = backend
        self._probe = Probe(self._cells, backend, self._lose)
        self._fetch: Fetch | None = None
        self._wanted: tuple[int, ...] = ()
        self._clock = clock
        self._until = 0.0
        self.n_hits = 0

    @property
    def figures(self) -> Figures:
        return self.archive.figures()

    def saved(self, tokens: tuple[int, ...]) -> None:
        """The target's state of these tokens was handed over: so is what the draft holds of them, and nothing beyond, which may
        be somebody's who is not to be saved."""
        if self._model.is_lost or not self.archive.is_taking:
            return
        sequence, n = self._most_of(tokens)
        if n < MIN_TOKENS or not self.archive.has_place(n):
            return
        match = self.archive.match(self.archive.chain(pack(tokens[:n])))
        if n - (match.n if match is not None else 0) < BLOCK or self._cells.truncate(sequence, n) < n:
            return
        logits = self._probe.logits(sequence)
        state = self._backend.save(sequence.seq) if logits is not None else None
        if logits is None or state is None:
            return
        self.archive.put(Record(tuple(sequence.tokens), n, logits, state), self.archive.chain(sequence.packed))

    def wanted(self, tokens: tuple[int, ...]) -> None:
        """The target's state of a beginning of these is being read: so is the draft's, if that saves it much."""
        if self._model.is_lost:
            return
        match = self.archive.match(self.archive.chain(pack(tokens)))
        if match is not None and match.n - self._most_of(tokens)[1] >= MIN_GAIN:
            self._fetch, self._wanted = self.archive.fetch(match.entry), tokens
            self._until = self._clock() + _PATIENCE_S

    @property
    def is_reading(self) -> bool:
        """Something may be put back soon: nothing is to be drafted until then."""
        return self._fetch is not None and self._clock() < self._until

    def tend(self) -> bool:
        """Put back what has been read. False: there was nothing."""
        fetch = self._fetch
        if fetch is None or not fetch.is_done:
            return False
        self._fetch = None
        if fetch.record is None or self._model.is_lost:
            return False
        why = self._bring(fetch.record)
        if why:
            self.archive.discard(fetch.entry, why)
        return True

    def finish(self, limit_s: float) -> None:
        self.archive.close(limit_s)

    def _bring(self, record: Record) -> str:
        """Why it is to be discarded, or ""."""
        if n_common(record.tokens, self._wanted) - self._most_of(self._wanted)[1] < MIN_GAIN:
            return ""
        sequence = min(self._cells.sequences, key=lambda s: (bool(s.tokens), s.last_used))
        if self._backend.n_ctx - self._cells.n_used() + self._cells.n_freed_by(sequence) < len(record.tokens):
            return ""
        self._cells.truncate(sequence, 0)
        if not self._backend.restore(sequence.seq, record.state, len(record.tokens)):
            return "the draft model did not take it back"
        self._cells.stored(sequence, list(record.tokens))
        logits = self._probe.logits(sequence)
        if logits is None or not is_same(logits, record.logits):
            self._cells.truncate(sequence, 0)
            return "" if logits is None else "behind its last token the draft model says something else than before"
        self.n_hits += 1
        return ""

    def _most_of(self, tokens: tuple[int, ...]) -> tuple[Sequence, int]:
        """The sequence that has the longest beginning of these tokens, and how long that is."""
        packed = pack(tokens)
        shares = ((s, n_common_packed(s.packed, packed)) for s in self._cells.sequences)
        return max(shares, key=lambda share: share[1])

    def _lose(self) -> None:
        self._model.is_lost = True
