"""What can go wrong with a disk, in words: whatever it does becomes a `StoreError` that says what to do."""

from __future__ import annotations

import contextlib
import errno
import sqlite3
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import diskcache

from inference.prompt_cache.place import BusyError, PlaceError, is_damage
from inference.prompt_cache.raw_disk import RefusedValueError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Trouble(StrEnum):
    BUSY = "busy"  # others hold the database
    FULL = "full"  # no space left, or a limit of this process
    DAMAGED = "damaged"
    OTHER = "other"


class StoreError(Exception):
    """One sentence for people."""

    def __init__(self, trouble: Trouble, sentence: str) -> None:
        super().__init__(sentence)
        self.trouble = trouble


@contextlib.contextmanager
def guarded(directory: Path) -> Iterator[None]:
    """Inside, errors of the database and the disk become StoreErrors; those that are ours pass."""
    try:
        yield
    except (RefusedValueError, StoreError, PlaceError):
        raise
    except (diskcache.Timeout, BusyError):
        raise _busy(directory) from None
    except sqlite3.Error as error:
        code = (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise _busy(directory) from None
        if code == sqlite3.SQLITE_FULL:
            raise _full(directory) from None
        trouble = Trouble.DAMAGED if is_damage(error) else Trouble.OTHER
        raise StoreError(trouble, f"{directory} can't be used any more ({error}); `midfill cache clear` empties it.") from None
    except OSError as error:
        if error.errno in _FULL:
            raise _full(directory) from None
        reason = (error.strerror or type(error).__name__).lower()
        do = "make it readable and writable for you, or turn prompt_cache off"
        raise StoreError(Trouble.OTHER, f"{directory} can't be used ({reason}); {do}.") from None
    except (TypeError, ValueError, OverflowError) as error:  # rows that hold other types than were stored
        sentence = f"{directory} holds what was not stored there ({error}); `midfill cache clear` empties it."
        raise StoreError(Trouble.DAMAGED, sentence) from None


def _busy(directory: Path) -> StoreError:
    return StoreError(Trouble.BUSY, f"{directory} is in use by others; what is in it is passed over.")


def _full(directory: Path) -> StoreError:
    sentence = f"There is no space left for {directory}; free some, or set prompt_cache_bytes to less."
    return StoreError(Trouble.FULL, sentence)
