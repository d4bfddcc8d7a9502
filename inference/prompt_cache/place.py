"""Where saved prompts lie: whether the directory is this user's alone, and whether its database can be trusted.

Saved prompts are text of the user in another form. The directory has mode 0700, its files 0600; one that belongs to somebody
else, that others can write to, or that is a link, is not used. A database that is damaged, or has something in it that
diskcache would not put there, is set aside under another name, and a new one takes its place.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import sys
from pathlib import Path

DATABASE = "cache.db"
ASIDE = "cache.db.damaged"
LOCK = "open.lock"

_COMPANIONS = ("", "-wal", "-shm")
_HEADER = b"SQLite format 3\x00"
_SCHEMA = frozenset({
    ("table", "Settings"), ("table", "Cache"), ("index", "sqlite_autoindex_Settings_1"), ("index", "Cache_key_raw"),
    ("index", "Cache_expire_time"), ("trigger", "Settings_count_insert"), ("trigger", "Settings_count_delete"),
    ("trigger", "Settings_size_insert"), ("trigger", "Settings_size_update"), ("trigger", "Settings_size_delete"),
})  # fmt: skip
_SETTING = re.compile(
    r"statistics|tag_index|eviction_policy|size_limit|cull_limit|count|size|hits|misses|disk_min_file_size|disk_pickle_protocol|"
    r"sqlite_(auto_vacuum|cache_size|journal_mode|mmap_size|synchronous)"
)
_WORDS = frozenset({"none", "wal"})  # all that a setting says beside numbers


def directory_in(cache_dir: Path) -> Path:
    """Where prompts are saved, of all models."""
    return cache_dir / "prompts"


class PlaceError(Exception):
    """The directory can't be used. One sentence that says what to do."""


class BusyError(Exception):
    """Others hold it right now."""


def make_private(directory: Path) -> None:
    """Make it, or check the one that is there. PlaceError: it is not this user's alone."""
    try:
        for missing in [each for each in (directory, *directory.parents) if not os.path.lexists(each)][::-1]:
            missing.mkdir(mode=0o700, exist_ok=True)
        require_private(directory)
    except OSError as error:
        raise _unusable(directory, error) from None


def require_private(directory: Path) -> None:
    """`check_private`; and what others can only read is closed to them. PlaceError."""
    check_private(directory)
    if sys.platform != "win32" and os.lstat(directory).st_mode & 0o055:
        os.chmod(directory, 0o700)


def check_private(directory: Path) -> None:
    """PlaceError: it is a link, somebody else's, or others can write to it. Changes nothing."""
    info = os.lstat(directory)
    if stat.S_ISLNK(info.st_mode):
        raise PlaceError(f"{directory} is a symbolic link, so no prompts are saved; put a directory of your own there.")
    if not stat.S_ISDIR(info.st_mode):
        raise PlaceError(f"{directory} is not a directory, so no prompts are saved; remove it.")
    if sys.platform == "win32":
        return
    if info.st_uid != os.geteuid():
        raise PlaceError(f"{directory} belongs to somebody else, so no prompts are saved; remove it.")
    if info.st_mode & 0o022:
        raise PlaceError(
            f"Others can write to {directory}, so no prompts are saved; run `chmod -R go= {directory}`, or remove it."
        )
    for parent in directory.resolve().parents:
        mode = os.stat(parent).st_mode
        if mode & 0o022 and not mode & stat.S_ISVTX:
            raise PlaceError(
                f"Others can write to {parent}, and so replace {directory}: no prompts are saved; run `chmod go-w {parent}`."
            )


def prepare_database(directory: Path) -> str:
    """Make its file, or check the one that is there, and set it aside if it is not sound; why it was, or "".

    PlaceError, BusyError. Whoever calls holds the lock of the directory.
    """
    path = directory / DATABASE
    try:
        for suffix in _COMPANIONS:
            _require_plain(path.with_name(path.name + suffix))
        if not path.exists():
            make_file(path)
            return ""
        why = _why_unsound(path)
        if why:
            set_aside(directory)
            make_file(path)
        return why
    except OSError as error:
        raise _unusable(directory, error) from None


def set_aside(directory: Path) -> None:
    """Rename the database; what was set aside before goes. OSError."""
    for suffix in _COMPANIONS:
        path = directory / f"{DATABASE}{suffix}"
        if os.path.lexists(path):
            os.replace(path, directory / f"{ASIDE}{suffix}")


def is_damage(error: sqlite3.Error) -> bool:
    """The file is not what it should be, as opposed to the disk or the moment."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def make_file(path: Path) -> None:
    """An empty one, its user's alone, if there is none. (SQLite gives what it puts beside its database the same mode.)"""
    _require_plain(path)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600))


def _require_plain(path: Path) -> None:
    try:
        info = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(info.st_mode):
        raise PlaceError(f"{path} is not a plain file, so no prompts are saved; remove it.")
    if sys.platform == "win32":
        return
    if info.st_uid != os.geteuid() or info.st_nlink != 1:
        raise PlaceError(f"{path} is not yours alone, so no prompts are saved; remove it.")
    if info.st_mode & 0o077:
        os.chmod(path, 0o600)


def _why_unsound(path: Path) -> str:
    with open(path, "rb") as file:
        begin = file.read(len(_HEADER))
    if begin not in (b"", _HEADER):
        return "it is no database"
    connection = None
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=0.25, isolation_level=None)
        connection.execute("PRAGMA trusted_schema=OFF")
        schema = set(connection.execute("SELECT type, name FROM sqlite_master"))
        if not schema <= _SCHEMA:
            return "it holds what midfill does not put there"
        if ("table", "Settings") in schema and not all(
            _is_setting(key, value) for key, value in connection.execute("SELECT key, value FROM Settings")
        ):
            return "it holds what midfill does not put there"
        (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        return "" if said == "ok" else "it is damaged"
    except sqlite3.Error as error:
        if is_damage(error):
            return "it is damaged"
        code = (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise BusyError from None
        if code == sqlite3.SQLITE_ERROR:  # a table that has other columns
            return "it is damaged"
        what = f"{path.parent} can't be used ({error}), so no prompts are saved"
        raise PlaceError(f"{what}; make it readable and writable for you, or remove it.") from None
    finally:
        if connection is not None:
            connection.close()


def _is_setting(key: object, value: object) -> bool:
    return isinstance(key, str) and bool(_SETTING.fullmatch(key)) and (isinstance(value, int) or value in _WORDS)


def _unusable(directory: Path, error: OSError) -> PlaceError:
    reason = (error.strerror or type(error).__name__).lower()
    what = f"{directory} can't be used ({reason}), so no prompts are saved"
    return PlaceError(f"{what}; make it readable and writable for you, or turn prompt_cache off.")
