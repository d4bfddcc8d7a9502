"""The SQLite file of a store: its tables, how it is opened, when it is not ours or broken, and what its errors mean.

Owns every PRAGMA and the header's check. Only the process that holds the store's lock creates a file or sets one aside; all
others open what is there.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from lsp_server.index.place import SCHEMA, Place, Trouble

APPLICATION_ID = 0x6D696466  # "midf"
_BUSY_MS = 5000  # transactions are short: one that waits longer has met a process that hangs

# names: one row per name that is defined or used, as long as it is. pending: what is to be looked at again; what: 0 a file,
# 1 a folder and all below; ticket: rises with every time that it is asked for.
_TABLES = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE folders(path TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE files(
    id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, folder TEXT NOT NULL, stem TEXT NOT NULL,
    mtime_ns INTEGER NOT NULL, size INTEGER NOT NULL, looked_ns INTEGER NOT NULL, digest BLOB NOT NULL,
    language TEXT NOT NULL, state INTEGER NOT NULL, reason TEXT NOT NULL, is_broken INTEGER NOT NULL,
    n_deaths INTEGER NOT NULL);
CREATE INDEX files_stem ON files(stem);
CREATE INDEX files_folder ON files(folder);
CREATE TABLE names(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE definitions(
    file_id INTEGER NOT NULL, name_id INTEGER NOT NULL, kind TEXT NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL,
    name_start INTEGER NOT NULL, body_start INTEGER NOT NULL, signature TEXT NOT NULL, doc TEXT NOT NULL, scope TEXT NOT NULL);
CREATE INDEX definitions_name ON definitions(name_id);
CREATE INDEX definitions_file ON definitions(file_id, start);
CREATE TABLE imports(
    file_id INTEGER NOT NULL, module TEXT NOT NULL, name TEXT NOT NULL, alias TEXT NOT NULL, level INTEGER NOT NULL,
    start INTEGER NOT NULL, end INTEGER NOT NULL);
CREATE INDEX imports_file ON imports(file_id, start);
CREATE TABLE uses(
    name_id INTEGER NOT NULL, file_id INTEGER NOT NULL, n_uses INTEGER NOT NULL, n_calls INTEGER NOT NULL,
    PRIMARY KEY(name_id, file_id)) WITHOUT ROWID;
CREATE INDEX uses_file ON uses(file_id);
CREATE TABLE facts(file_id INTEGER NOT NULL, kind TEXT NOT NULL, folder TEXT NOT NULL, value TEXT NOT NULL);
CREATE INDEX facts_file ON facts(file_id);
CREATE TABLE pending(
    path TEXT PRIMARY KEY, what INTEGER NOT NULL, urgency INTEGER NOT NULL, ticket INTEGER NOT NULL DEFAULT 0);
CREATE INDEX pending_order ON pending(urgency DESC, what DESC, path);
"""

_BROKEN = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_MEANING = {
    sqlite3.SQLITE_FULL: "the disk is full; make room",
    sqlite3.SQLITE_READONLY: "it can't be written to; make it writable",
    sqlite3.SQLITE_CANTOPEN: "it can't be opened; check the rights of its directory",
    sqlite3.SQLITE_PERM: "it can't be opened; check the rights of its directory",
    sqlite3.SQLITE_IOERR: "the disk has failed to read or write it; check the disk, or make room",
}


class Broken(Exception):
    """What lies there is no store, or a damaged one."""


def create_or_open(place: Place) -> sqlite3.Connection:
    """For the holder of the store's lock. What is there and is no store of this schema is set aside. Trouble."""
    try:
        try:
            return _checked(place.database, create=True)
        except Broken:
            set_aside(place)
            return _checked(place.database, create=True)
    except Broken:
        raise Trouble(f"the workspace index is off: {place.database} is no index and can't be replaced; remove it") from None


def open_existing(place: Place) -> sqlite3.Connection | None:
    """None: there is none (yet), or it is not this schema's. Trouble. Broken."""
    if not place.database.is_file():
        return None
    return _checked(place.database, create=False)


def set_aside(place: Place) -> None:
    """Rename it, for whoever wants to look at it; what was set aside before is lost. Trouble: it can't be."""
    try:
        for ending in ("-wal", "-shm"):  # they belong to this file and would spoil the next
            Path(f"{place.database}{ending}").unlink(missing_ok=True)
        os.replace(place.database, place.broken)
    except FileNotFoundError:
        return
    except OSError as error:
        why = (error.strerror or "error").lower()
        raise Trouble(
            f"the workspace index is off: {place.database} is damaged and can't be moved ({why}); remove it"
        ) from None


def is_sound(connection: sqlite3.Connection) -> bool:
    """Look through the whole file. Takes its time."""
    try:
        return [row[0] for row in connection.execute("PRAGMA quick_check(1)")] == ["ok"]
    except sqlite3.DatabaseError:
        return False


def raise_meaning(error: sqlite3.Error, database: Path) -> None:
    """Raises Broken, or Trouble. A lock that is not come by raises the error itself: try again."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _BUSY:
        raise error
    if code in _BROKEN:
        raise Broken(str(error)) from None
    meaning = _MEANING.get(code)
    if meaning is None and not isinstance(error, sqlite3.OperationalError):
        raise Broken(str(error)) from None
    raise Trouble(f"the workspace index is off: {database}: {meaning or f'{error}; remove it'}") from None


def _checked(database: Path, *, create: bool) -> sqlite3.Connection:
    connection = None
    try:
        if create:
            _make_file(database)
        connection = sqlite3.connect(
            f"{database.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, check_same_thread=False,
            timeout=_BUSY_MS / 1000, cached_statements=64,
        )  # fmt: skip
        _prepare(connection, create=create)
    except (sqlite3.Error, OSError, Broken) as error:
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        if isinstance(error, sqlite3.Error):
            raise_meaning(error, database)
        if isinstance(error, OSError):
            why = (error.strerror or "error").lower()
            raise Trouble(f"the workspace index is off: {database}: {why}; check its directory") from None
        raise
    return connection


def _make_file(database: Path) -> None:
    """With its mode from the first moment; SQLite gives the same to what it puts beside it."""
    os.close(os.open(database, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600))


def _prepare(connection: sqlite3.Connection, *, create: bool) -> None:
    connection.execute(f"PRAGMA busy_timeout={_BUSY_MS}")
    connection.execute("PRAGMA synchronous=NORMAL")  # a power cut loses the last moments, and nothing else
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if create and not application and not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript(
            f"BEGIN IMMEDIATE;{_TABLES}PRAGMA application_id={APPLICATION_ID};PRAGMA user_version={SCHEMA};COMMIT;"
        )
    elif application != APPLICATION_ID or version != SCHEMA:
        raise Broken("it is not a store of this version")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA secure_delete=ON")  # what was deleted because it is private is not to be found in the file
    connection.execute("PRAGMA cache_size=-2048")
    connection.execute("SELECT count(*) FROM meta").fetchone()
