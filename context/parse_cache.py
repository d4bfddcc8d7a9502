"""What was made of files, kept while they stay the same.

Owns a bounded memory of products (trees, symbols) by file and fingerprint, and the counts of what it was asked for. Pure: it
looks at no file; the fingerprint comes with the question. One thread at a time.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a file is told by. mtime_ns: its time of change in ns. size: its bytes. digest: hash of its content, b"" = not read.

    A file whose content is known (digest) is the same if that is the same, whatever its time says. Otherwise time and size say.
    """

    mtime_ns: int
    size: int
    digest: bytes = b""

    def matches(self, other: Fingerprint) -> bool:
        if self.size != other.size:
            return False
        if self.digest and other.digest:
            return self.digest == other.digest
        return self.mtime_ns == other.mtime_ns


@dataclass(slots=True)
class _Entry(Generic[T]):
    fingerprint: Fingerprint
    product: T
    n_bytes: int


class ParseCache(Generic[T]):
    """Products by key (a path, with what kind of product it is). max_bytes: of all products together, as their makers tell."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._entries: OrderedDict[Hashable, _Entry[T]] = OrderedDict()  # what was used last is at the end
        self.n_bytes = 0
        self.counts: Counter[str] = Counter()  # "hit", or why not: "unknown", "changed"; and "evicted", "too big", "dropped"

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable, fingerprint: Fingerprint) -> T | None:
        """The product of that key, if it was made of the same file."""
        entry = self._entries.get(key)
        if entry is None:
            self.counts["unknown"] += 1
            return None
        if not entry.fingerprint.matches(fingerprint):
            self.counts["changed"] += 1
            self._remove(key)
            return None
        self.counts["hit"] += 1
        self._entries.move_to_end(key)
        if fingerprint != entry.fingerprint:
            entry.fingerprint = _newer(entry.fingerprint, fingerprint)
        return entry.product

    def put(self, key: Hashable, fingerprint: Fingerprint, product: T, n_bytes: int) -> None:
        """Keep a product in place of the one before. What is longest unused goes first; one too big alone is not kept."""
        self._remove(key)
        if n_bytes > self.max_bytes:
            self.counts["too big"] += 1
            return
        self._entries[key] = _Entry(fingerprint, product, n_bytes)
        self.n_bytes += n_bytes
        while self.n_bytes > self.max_bytes:
            self._remove(next(iter(self._entries)))
            self.counts["evicted"] += 1

    def get_or_make(self, key: Hashable, fingerprint: Fingerprint, make: Callable[[], T], size_of: Callable[[T], int]) -> T:
        """The product; made and kept if there is none."""
        known = self.get(key, fingerprint)
        if known is not None:
            return known
        made = make()
        self.put(key, fingerprint, made, size_of(made))
        return made

    def drop(self, key: Hashable) -> None:
        """Forget what was made of a file that is gone or private."""
        if key in self._entries:
            self.counts["dropped"] += 1
            self._remove(key)

    def _remove(self, key: Hashable) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.n_bytes -= entry.n_bytes


def _newer(known: Fingerprint, told: Fingerprint) -> Fingerprint:
    """Of one and the same content: the time that was told last, and the digest if any of them has one."""
    return Fingerprint(told.mtime_ns, told.size, told.digest or known.digest)
