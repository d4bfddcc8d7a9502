"""The saved prompts of one model, from the engine's side: asked without waiting, written and read on a thread of its own.

Owns that thread, the store behind it, and the index in front of it. What goes wrong with the disk ends here: a prompt that
can't be read is a miss, one that can't be written is skipped, a directory that can't be used turns the archive off; each is
counted, and said once. Refuses the model: what leaves here is as it was written; whether it is right is for who puts it back.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from inference.prompt_cache.index import Chain, Entry, Index, Match
from inference.prompt_cache.place import PlaceError
from inference.prompt_cache.record import Fault, Record, UnfitError, decode, encode
from inference.prompt_cache.store import Put, Store
from inference.prompt_cache.trouble import StoreError, Trouble
from inference.sequence import pack

log = logging.getLogger(__name__)

_FULL_S, _TOO_MUCH_S = 600.0, 60.0  # nothing is written for so long when the disk is full, or too much was written
_PENDING_BYTES = 128 << 20  # of what waits to be written
_LARGE_S = 600.0  # nothing so large is tried again for so long
_AGAIN_S = 2.0  # after which a directory that others held at the start is tried again


@dataclass(slots=True)
class Fetch:
    """A saved prompt that is being read. why: it isn't there, or is not used."""

    entry: Entry
    is_done: bool = False
    record: Record | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Figures:
    """skipped: what was not written, by reason. why_off: nothing is saved or read any more, or ""."""

    n_entries: int = 0
    n_bytes: int = 0
    limit_bytes: int = 0
    n_writes: int = 0
    written_bytes: int = 0
    n_discarded: int = 0
    skipped: tuple[tuple[str, int], ...] = ()
    why_off: str = ""


class Archive:
    """fingerprint: the digest of what the states depend on. on_news: called from the thread when a fetch is done, or when it is
    known what there is."""

    def __init__(
        self,
        store: Store,
        fingerprint: bytes,
        on_news: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._fingerprint = fingerprint
        self._on_news = on_news
        self._clock = clock
        self._index = Index(fingerprint)  # replaced, never changed: other threads read it
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._pending: dict[bytes, Entry] = {}  # handed over, not written yet
        self._fetches: dict[bytes, Fetch] = {}
        self._is_opening = True
        self._is_open = False  # others may hold the directory for longer than anybody waits: then it is opened later
        self._why_off = ""
        self._paused_until = self._large_until = float("-inf")
        self._n_too_large = 0  # tokens of one for which there was no place
        self._limit_bytes = 0
        self._said: set[str] = set()
        self._skipped: Counter[str] = Counter()
        self._n_writes = self._written_bytes = self._n_discarded = 0
        self._thread = threading.Thread(target=self._run, name="saved prompts", daemon=True)

    def start(self) -> None:
        self._jobs.put(self._open)
        self._thread.start()

    def listen(self, on_news: Callable[[], None]) -> None:
        self._on_news = on_news

    # -- for the engine's thread; nothing here waits

    @property
    def is_opening(self) -> bool:
        """It is not known yet what there is."""
        return self._is_opening

    @property
    def is_taking(self) -> bool:
        """Something more can be written now."""
        if not self._is_open or self._why_off or self._clock() < self._paused_until:
            return False
        with self._lock:
            return sum(entry.n_bytes for entry in self._pending.values()) < _PENDING_BYTES

    def has_place(self, n_tokens: int) -> bool:
        """None of about so many tokens was too large lately."""
        return 10 * n_tokens < 9 * self._n_too_large or self._clock() >= self._large_until

    def chain(self, packed: bytes | bytearray) -> Chain:
        return self._index.chain(packed)

    def match(self, chain: Chain) -> Match | None:
        return self._index.match(chain) if not self._why_off else None

    def fetch(self, entry: Entry) -> Fetch:
        """Begin to read it. The same one for all who ask meanwhile."""
        fetch = self._fetches.get(entry.path)
        if fetch is None or fetch.is_done:
            fetch = self._fetches[entry.path] = Fetch(entry)
            self._jobs.put(lambda: self._read(fetch))
        return fetch

    def put(self, record: Record, chain: Chain) -> None:
        """Write it when there is time. It is found from now on. chain: of its tokens."""
        path = chain.path(chain.n_tokens)
        entry = Entry(path, chain.n_tokens, record.n_prompt, record.n_bytes, chain.blocks, time.time())
        beginnings = tuple(each.path for each in self._index.beginnings(chain))
        with self._lock:
            self._pending[entry.path] = entry
            self._index = self._index.without(beginnings).with_entry(entry)
        self._jobs.put(lambda: self._write(entry, record, beginnings))

    def used(self, entry: Entry) -> None:
        """It was put back, and was right."""
        with self._lock:
            self._index = self._index.used(entry.path, time.time())
            now = self._index.get(entry.path)
        if now is not None:
            self._jobs.put(lambda: self._guarded(lambda: self._store.touch(self._fingerprint, now)))

    def discard(self, entry: Entry, why: str) -> None:
        """It was read, and was not right."""
        self._jobs.put(lambda: self._guarded(lambda: self._remove(entry, why)))

    def figures(self) -> Figures:
        entries = self._index.entries
        return Figures(
            len(entries), sum(e.n_bytes for e in entries), self._limit_bytes, self._n_writes, self._written_bytes,
            self._n_discarded, tuple(sorted(dict(self._skipped).items())), self._why_off,
        )  # fmt: skip

    def close(self, timeout_s: float) -> None:
        """Write what waits, as far as that is done in time."""
        self._jobs.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    # -- its own thread

    def _run(self) -> None:
        while (job := self._next()) is not None:
            try:
                job()
            except Exception:
                log.exception("saved prompts are not used any more")
                self._turn_off("a fault of midfill's own; the log says more")
        self._store.close()

    def _next(self) -> Callable[[], None] | None:
        is_tried = self._is_open or self._is_opening or self._why_off
        try:
            return self._jobs.get(timeout=None if is_tried else max(_AGAIN_S, self._paused_until - self._clock()))
        except Empty:
            return self._open

    def _open(self) -> None:
        def open_() -> None:
            self._store.close()  # of a time before, that was broken off
            said = self._store.open()
            if said:
                log.warning("%s", said)
            self._list()
            self._limit_bytes = self._store.limit_bytes()
            self._is_open = True
            log.debug("%d saved prompts of this model", len(self._index))

        self._guarded(open_)
        self._is_opening = False
        self._on_news()
        if self._is_open:
            self._guarded(self._sweep)

    def _sweep(self) -> None:
        if n := self._store.sweep():
            log.info("%d files that were left over by saved prompts are removed", n)

    def _list(self) -> None:
        listed = [each.entry for each in self._store.listed(self._fingerprint)]
        with self._lock:
            self._index = Index(self._fingerprint, [*listed, *self._pending.values()])

    def _read(self, fetch: Fetch) -> None:
        entry = fetch.entry

        def read() -> None:
            data = self._store.get(self._fingerprint, entry.path)
            if data is None:
                fetch.why = "gone"
                self._list()
                return
            try:
                record = decode(data, self._fingerprint)
                packed = pack(record.tokens)
                if self.chain(packed).path(len(record.tokens)) != entry.path:
                    raise UnfitError(Fault.FOREIGN)
                fetch.record = record
            except UnfitError as unfit:
                fetch.why = unfit.fault.value
                self._remove(entry, unfit.fault.value)

        fetch.why = "unread"
        self._guarded(read)
        if fetch.record is not None:
            fetch.why = ""
        self._fetches.pop(entry.path, None)
        fetch.is_done = True
        self._on_news()

    def _write(self, entry: Entry, record: Record, instead: tuple[bytes, ...]) -> None:
        put: list[Put] = []

        def write() -> None:
            if self._clock() < self._paused_until:
                return
            parts = encode(record, self._fingerprint)
            put.append(self._store.put(self._fingerprint, entry, parts, instead=instead))

        try:
            self._guarded(write)
        finally:
            with self._lock:
                self._pending.pop(entry.path, None)
        match put:
            case [Put.STORED]:
                self._n_writes += 1
                self._written_bytes += entry.n_bytes
            case [Put.TOO_LARGE as why]:
                self._skipped[why.value] += 1
                self._n_too_large, self._large_until = entry.n_tokens, self._clock() + _LARGE_S
                self._say_once("prompts are too large to be saved; free some space, or set prompt_cache_bytes to more")
            case [Put.TOO_MUCH as why]:
                self._skipped[why.value] += 1
                self._paused_until = self._clock() + _TOO_MUCH_S
            case _:
                self._skipped["failed"] += 1
        if not self._why_off:
            self._guarded(self._list)

    def _remove(self, entry: Entry, why: str) -> None:
        self._n_discarded += 1
        log.warning("a saved prompt of %d tokens is discarded: %s", entry.n_tokens, why)
        self._store.remove(self._fingerprint, entry.path)
        self._list()

    def _guarded(self, do: Callable[[], None]) -> None:
        if self._why_off:
            return
        try:
            do()
        except PlaceError as error:
            self._turn_off(str(error))
        except StoreError as error:
            if error.trouble is Trouble.BUSY:
                log.debug("%s", error)
            elif error.trouble is Trouble.FULL:
                self._paused_until = self._clock() + _FULL_S
                self._say_once(str(error))
            else:
                self._turn_off(str(error))

    def _turn_off(self, why: str) -> None:
        if self._why_off:
            return
        self._why_off = why
        self._index = Index(self._fingerprint)
        self._say_once(why)

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            log.warning("%s", sentence)
