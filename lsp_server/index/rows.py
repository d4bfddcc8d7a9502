"""What is asked and told about a workspace's code, as frozen values.

Paths are absolute, with links resolved and with slashes. Definitions and imports are those of `context.symbols`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from context.symbol_types import Definition, FileSymbols, Import


class State(IntEnum):
    """What is known of a file. Only of one that is PARSED are there symbols."""

    PARSED = 0
    SKIPPED = 1  # binary, generated, minified; `reason` says which
    FAILED = 2  # reading it for its symbols has gone wrong, twice if it ended the process


class What(IntEnum):
    FILE = 0
    FOLDER = 1  # and all below it


class Urgency(IntEnum):
    LAST = 0  # it has ended a process once
    SCAN = 1
    CHANGED = 2  # somebody has just changed it


@dataclass(frozen=True, slots=True)
class Defined:
    path: str
    language: str
    definition: Definition


@dataclass(frozen=True, slots=True)
class UsedIn:
    """A file that uses a name, so many times; of these n_calls are calls."""

    path: str
    language: str
    n_uses: int
    n_calls: int


@dataclass(frozen=True, slots=True)
class FileRow:
    """A file that was parsed. names: what it uses, in the order of the alphabet. is_broken: its tree holds errors."""

    path: str
    language: str
    n_bytes: int
    is_broken: bool
    definitions: tuple[Definition, ...]
    imports: tuple[Import, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stamp:
    """When a file was looked at, and what it was like. looked_ns: by the clock that gives mtime_ns."""

    mtime_ns: int
    size: int
    looked_ns: int


RACY_NS = 2_000_000_000  # the coarsest clock of a file system in use


def is_same(stamp: Stamp, mtime_ns: int, size: int) -> bool:
    """Whether a file must be what it was. One changed right before it was looked at may have been changed right after, too,
    within the same tick of the file system's clock."""
    return stamp.mtime_ns == mtime_ns and stamp.size == size and mtime_ns + RACY_NS < stamp.looked_ns


@dataclass(frozen=True, slots=True)
class Fresh:
    """What the store is to know of a file from now on. symbols: None if there are none to be had (then reason says why, and
    state is not PARSED), or if they are those that it knows (then digest is None). facts: see `projects`."""

    path: str
    stamp: Stamp
    digest: bytes | None
    language: str = ""
    state: State = State.PARSED
    reason: str = ""
    symbols: FileSymbols | None = None
    facts: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Gone:
    """A file, or a folder with all below it, that is not there or does not count any more."""

    path: str


@dataclass(frozen=True, slots=True)
class Task:
    """An entry of what is to be looked at again."""

    path: str
    what: What
    urgency: Urgency
    ticket: int


def joined(scope: Iterable[str]) -> str:
    return "\n".join(scope)


def split(scope: str) -> tuple[str, ...]:
    return tuple(scope.split("\n")) if scope else ()
