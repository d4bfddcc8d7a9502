"""Saved prompts on disk: what is there, what is written, and what goes when there is no place.

Owns one directory, through diskcache. A prompt is two rows (`rows`): a short one that says what it is, which the index is made
of, and the state's file, written first, so that what is listed is there. Several processes use one directory; none waits for
another longer than LOCK_S. Belongs to one thread. Everything that can go wrong with a disk is a `StoreError`, and costs the
caller a prompt, not more.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

import diskcache

from inference.models.lock import Held, hold
from inference.prompt_cache import rows
from inference.prompt_cache.index import Entry
from inference.prompt_cache.place import ASIDE, DATABASE, LOCK, BusyError, make_file, make_private, prepare_database
from inference.prompt_cache.raw_disk import RawDisk, RefusedValueError
from inference.prompt_cache.rows import N_OF, Listed
from inference.prompt_cache.trouble import StoreError, Trouble, guarded

LOCK_S = 0.25
HOURLY_BYTES = 1 << 30

_OPEN_S = 5.0
_HALF_LIFE_S = 3 * 86_400.0  # after which a prompt is half as likely to be asked for again
_ORPHAN_S = 600.0  # a file that nobody has listed after so long is left over


class Put(StrEnum):
    STORED = "stored"
    TOO_LARGE = "too large"  # for the place there is
    TOO_MUCH = "too much"  # was written within an hour


class Store:
    """max_bytes: of all states together; less where that would take more than half of what the disk has left.

    free_bytes: of the disk. now: seconds since 1970.
    """

    def __init__(
        self,
        directory: Path,
        max_bytes: int,
        *,
        hourly_bytes: int = HOURLY_BYTES,
        now: Callable[[], float] = time.time,
        free_bytes: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free,
    ) -> None:
        self.directory = directory
        self._max_bytes = max_bytes
        self._hourly_bytes = hourly_bytes
        self._now = now
        self._free_bytes = free_bytes
        self._cache: diskcache.Cache | None = None

    def open(self) -> str:
        """Make or check the directory and its database; what was wrong with an older one, or "". PlaceError, StoreError."""
        make_private(self.directory)
        with guarded(self.directory), self._locked():
            why = prepare_database(self.directory)
            # what goes, and when, is decided here and not by diskcache
            self._cache = diskcache.Cache(
                os.fspath(self.directory), timeout=LOCK_S, disk=RawDisk, eviction_policy="none", cull_limit=0,
                size_limit=1 << 62, statistics=0, tag_index=0, sqlite_mmap_size=0,
            )  # fmt: skip
        return f"the index of saved prompts in {self.directory} was set aside: {why}" if why else ""

    def close(self) -> None:
        if self._cache is not None:
            with contextlib.suppress(sqlite3.Error):
                self._cache.close()
            self._cache = None

    def limit_bytes(self) -> int:
        """Most bytes of all states now."""
        return self._limit(sum(each.entry.n_bytes for each in self.listed()))

    def listed(self, of: bytes | None = None) -> list[Listed]:
        """All that is kept, or what is kept with this fingerprint."""
        cache = self._opened()
        with guarded(self.directory):
            found = [rows.unpack(key, cache.get(key)) for key in list(cache.iterkeys()) if rows.is_about(key, of)]
        return [each for each in found if each is not None]

    def put(self, of: bytes, entry: Entry, parts: tuple[bytes, ...], *, instead: tuple[bytes, ...] = ()) -> Put:
        """Keep a state under its entry. instead: paths that it takes the place of. Others go where there is no place, the least
        worth first: tokens that a prompt saves, by how likely it is asked for again, for its bytes."""
        new = Listed(of[:N_OF], replace(entry, used_at=self._now()))
        replaced = {rows.about(of, path) for path in (entry.path, *instead)}
        kept = [each for each in self.listed() if each.about not in replaced]
        n_bytes = sum(each.entry.n_bytes for each in kept)
        limit = self._limit(n_bytes)
        if entry.n_bytes > limit:
            return Put.TOO_LARGE
        if not self._reserve(entry.n_bytes):
            return Put.TOO_MUCH
        for each in sorted(kept, key=lambda e: self._worth(e.entry)):
            if n_bytes + entry.n_bytes <= limit:
                break
            self.remove(each.of, each.entry.path)
            n_bytes -= each.entry.n_bytes
        with guarded(self.directory):
            self._opened().set(rows.state(of, entry.path), parts)
            self._opened().set(new.about, new.pack())
        for path in instead:  # only now: who is killed in between has lost nothing
            self.remove(of, path)
        return Put.STORED

    def get(self, of: bytes, path: bytes) -> bytes | None:
        """A state's file as it lies there; None: it is gone. What was not stored here is removed, and gone."""
        try:
            with guarded(self.directory):
                data = self._opened().get(rows.state(of, path))
        except RefusedValueError:
            data = b""
        if isinstance(data, bytes) and data:
            return data
        self.remove(of, path)
        return None

    def touch(self, of: bytes, entry: Entry) -> None:
        """It was used: the entry is kept as it is given, if it is there still."""
        listed = Listed(of[:N_OF], entry)
        with guarded(self.directory):
            if listed.about in self._opened():
                self._opened().set(listed.about, listed.pack())

    def remove(self, of: bytes, path: bytes) -> None:
        with guarded(self.directory):
            self._opened().delete(rows.about(of, path))
            self._opened().delete(rows.state(of, path))

    def clear(self) -> int:
        """Remove everything, also what is left over; how many bytes of states. Engines that run find nothing any more."""
        n_bytes = 0
        for each in self.listed():
            self.remove(each.of, each.entry.path)
            n_bytes += each.entry.n_bytes
        self.sweep(0.0)
        with guarded(self.directory):
            for path in self.directory.glob(f"{ASIDE}*"):
                path.unlink(missing_ok=True)
        return n_bytes

    def sweep(self, after_s: float = _ORPHAN_S) -> int:
        """Remove what a process that was killed has left: states that are not listed, and files without a row, that are older
        than after_s. How many."""
        cache, n = self._opened(), 0
        with guarded(self.directory):
            keys = set(cache.iterkeys())
            for key in keys:
                listed_as = rows.about_of_state(key)
                if listed_as is not None and listed_as not in keys and self._is_left(key, after_s):
                    cache.delete(key)
                    n += 1
            known = {str(name) for (name,) in self._query("SELECT filename FROM Cache WHERE filename IS NOT NULL")}
            for path in _below(self.directory, 3):
                name = os.fspath(path.relative_to(self.directory))
                if path.suffix == ".val" and name not in known and self._age(path) >= after_s:
                    path.unlink(missing_ok=True)
                    n += 1
        return n

    def _is_left(self, key: bytes, after_s: float) -> bool:
        """The file of a state was written long ago, or is gone."""
        found = self._query("SELECT filename FROM Cache WHERE key = ?", key)
        return not found or self._age(self.directory / str(found[0][0])) >= after_s

    def _age(self, path: Path) -> float:
        try:
            return self._now() - os.lstat(path).st_mtime
        except OSError:
            return float("inf")

    def _query(self, query: str, *values: bytes) -> list[tuple[object, ...]]:
        with contextlib.closing(sqlite3.connect(self.directory / DATABASE, timeout=LOCK_S)) as connection:
            return connection.execute(query, values).fetchall()

    # -- limits

    def _limit(self, n_kept: int) -> int:
        with contextlib.suppress(OSError):
            return min(self._max_bytes, n_kept + self._free_bytes(self.directory) // 2)
        return self._max_bytes

    def _worth(self, entry: Entry) -> float:
        age = max(0.0, self._now() - entry.used_at)
        return float(entry.n_tokens * (1 + entry.n_used) * 0.5 ** (age / _HALF_LIFE_S) / max(1, entry.n_bytes))

    def _reserve(self, n: int) -> bool:
        """Count n bytes as written within this hour, by any process, unless that would be too many."""
        cache, now = self._opened(), self._now()
        with guarded(self.directory):
            cache.incr(rows.written(now), n)
            total = 0
            for key in [key for key in cache.iterkeys() if rows.is_written(key)]:
                count = cache.get(key) if rows.is_recent(key, now) else None
                if isinstance(count, int):
                    total += count
                else:
                    cache.delete(key)
            if total > self._hourly_bytes:
                cache.incr(rows.written(now), -n)
                return False
        return True

    def _opened(self) -> diskcache.Cache:
        if self._cache is None:
            raise StoreError(Trouble.OTHER, f"The directory {self.directory} is not open.")
        return self._cache

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        make_file(self.directory / LOCK)
        until = time.monotonic() + _OPEN_S
        while True:
            try:
                with hold(self.directory / LOCK):
                    yield
                    return
            except Held:
                if time.monotonic() > until:
                    raise BusyError from None
                time.sleep(0.02)


def _below(directory: Path, depth: int) -> Iterator[Path]:
    """What lies so deep. Others may remove a directory meanwhile, and links are not followed."""
    with contextlib.suppress(FileNotFoundError), os.scandir(directory) as found:
        for each in found:
            if depth == 1:
                yield Path(each.path)
            elif each.is_dir(follow_symlinks=False):
                yield from _below(Path(each.path), depth - 1)
