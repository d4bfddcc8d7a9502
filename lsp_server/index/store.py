"""A store as the process that fills it sees it: what is to be done, and what was found, in small transactions.

Owns every write but the entries of `pending` that servers make. Refuses to be opened without the store's lock. Each method is
one transaction. Raises sqlite3.Error as it comes (`schema.raise_meaning` says what it means).
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from lsp_server.index.rows import Fresh, Gone, Stamp, State, Task, Urgency, What, joined

MOST_NAMES = 5000  # used by one file; a longer list is a table of data
_MOST_LETTERS = 200  # of a name

_PEND = """INSERT INTO pending(path, what, urgency) VALUES(?, ?, ?) ON CONFLICT(path) DO UPDATE SET
    what = max(what, excluded.what), urgency = max(urgency, excluded.urgency), ticket = ticket + 1"""
_BELOW = "path = ? OR (path >= ? AND path < ?)"  # "/" and "0" are neighbours: no pattern, and the index is used


def pend(connection: sqlite3.Connection, tasks: Iterable[tuple[str, What]], urgency: Urgency) -> None:
    """Ask for something to be looked at. For any process."""
    connection.executemany(_PEND, [(path, int(what), int(urgency)) for path, what in tasks])


class Store:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._db.execute("CREATE TEMP TABLE IF NOT EXISTS seen(path TEXT PRIMARY KEY) WITHOUT ROWID")
        self._is_walking = False

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
        except BaseException:
            if self._db.in_transaction:  # some errors end it
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    # -- what is to be done

    def pend(self, tasks: Iterable[tuple[str, What]], urgency: Urgency) -> None:
        with self._transaction() as db:
            pend(db, tasks, urgency)

    def tasks(self, most: int, *, only_changed_files: bool = False) -> list[Task]:
        """The most urgent ones; of these, folders first."""
        where = f"WHERE urgency = {int(Urgency.CHANGED)} AND what = {int(What.FILE)}" if only_changed_files else ""
        rows = self._db.execute(
            f"SELECT path, what, urgency, ticket FROM pending {where} ORDER BY urgency DESC, what DESC, path LIMIT ?", (most,)
        )
        return [Task(path, What(what), Urgency(urgency), ticket) for path, what, urgency, ticket in rows]

    def n_pending(self) -> int:
        count: int = self._db.execute("SELECT count(*) FROM pending").fetchone()[0]
        return count

    # -- files

    def stamp(self, path: str) -> Stamp | None:
        row = self._db.execute("SELECT mtime_ns, size, looked_ns FROM files WHERE path = ?", (path,)).fetchone()
        return Stamp(*row) if row is not None else None

    def is_folder(self, path: str) -> bool:
        return self._db.execute("SELECT 1 FROM folders WHERE path = ?", (path,)).fetchone() is not None

    def digest(self, path: str) -> bytes:
        """Of what was parsed or judged last; b"" if that is nothing to go by."""
        row = self._db.execute("SELECT digest FROM files WHERE path = ?", (path,)).fetchone()
        return bytes(row[0]) if row is not None else b""

    def n_deaths(self, path: str) -> int:
        row = self._db.execute("SELECT n_deaths FROM files WHERE path = ?", (path,)).fetchone()
        return int(row[0]) if row is not None else 0

    def put(self, found: Sequence[Fresh | Gone], done: Sequence[Task] = ()) -> None:
        """What was found, and what is done with it unless it was asked for again meanwhile."""
        with self._transaction() as db:
            for each in found:
                if isinstance(each, Gone):
                    self._delete(each.path)
                else:
                    self._write(each)
                    if self._is_walking:
                        db.execute("INSERT OR IGNORE INTO seen VALUES(?)", (each.path,))
            db.executemany("DELETE FROM pending WHERE path = ? AND ticket = ?", [(task.path, task.ticket) for task in done])

    def died(self, path: str, stamp: Stamp, reason: str) -> int:
        """A process has ended while it parsed this file; how often that has happened. It keeps its place in the queue, as the
        last; the second time it is given up as it is."""
        with self._transaction() as db:
            file_id = self._file_id(Fresh(path, stamp, b"", state=State.FAILED, reason=reason))
            self._drop_symbols(file_id)
            db.execute("UPDATE files SET n_deaths = n_deaths + 1 WHERE id = ?", (file_id,))
            n_deaths: int = db.execute("SELECT n_deaths FROM files WHERE id = ?", (file_id,)).fetchone()[0]
            db.execute("DELETE FROM pending WHERE path = ?", (path,))
            if n_deaths == 1:
                pend(db, [(path, What.FILE)], Urgency.LAST)
            return n_deaths

    def _write(self, fresh: Fresh) -> None:
        if fresh.digest is None:
            stamp = fresh.stamp
            self._db.execute(
                "UPDATE files SET mtime_ns = ?, size = ?, looked_ns = ? WHERE path = ?",
                (stamp.mtime_ns, stamp.size, stamp.looked_ns, fresh.path),
            )
            return
        self._db.execute("DELETE FROM folders WHERE path = ?", (fresh.path,))  # it may have been one
        file_id = self._file_id(fresh)
        before = self._names_of(file_id)
        self._drop_symbols(file_id, names=False)
        self._db.execute("UPDATE files SET n_deaths = 0 WHERE id = ? AND state != ?", (file_id, int(State.FAILED)))
        self._db.executemany("INSERT INTO facts VALUES(?, ?, ?, ?)", [(file_id, *fact) for fact in fresh.facts])
        if fresh.symbols is not None:
            self._add_symbols(file_id, fresh)
        self._drop_names(before)

    def _file_id(self, fresh: Fresh) -> int:
        folder, _, name = fresh.path.rpartition("/")
        stem = name.partition(".")[0] or name
        is_broken = fresh.symbols is not None and fresh.symbols.is_broken
        row = self._db.execute(
            """INSERT INTO files(path, folder, stem, mtime_ns, size, looked_ns, digest, language, state, reason, is_broken,
            n_deaths) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0) ON CONFLICT(path) DO UPDATE SET mtime_ns = excluded.mtime_ns,
            size = excluded.size, looked_ns = excluded.looked_ns, digest = excluded.digest, language = excluded.language,
            state = excluded.state, reason = excluded.reason, is_broken = excluded.is_broken RETURNING id""",
            (fresh.path, folder, stem, fresh.stamp.mtime_ns, fresh.stamp.size, fresh.stamp.looked_ns, fresh.digest or b"",
             fresh.language, int(fresh.state), fresh.reason, is_broken),
        ).fetchone()  # fmt: skip
        return int(row[0])

    def _add_symbols(self, file_id: int, fresh: Fresh) -> None:
        symbols = fresh.symbols
        assert symbols is not None
        uses = Counter(use.name for use in symbols.uses)
        calls = Counter(use.name for use in symbols.uses if use.is_call)
        used = [name for name in uses if len(name) <= _MOST_LETTERS][:MOST_NAMES]
        names = {definition.name for definition in symbols.definitions}.union(used)
        self._db.executemany("INSERT OR IGNORE INTO names(name) VALUES(?)", [(name,) for name in sorted(names)])
        self._db.executemany(
            """INSERT INTO definitions(file_id, name_id, kind, start, end, name_start, body_start, signature, doc, scope)
            VALUES(?, (SELECT id FROM names WHERE name = ?), ?, ?, ?, ?, ?, ?, ?, ?)""",
            [(file_id, each.name, each.kind, each.start, each.end, each.name_start, each.body_start, each.signature, each.doc,
              joined(each.scope)) for each in symbols.definitions],
        )  # fmt: skip
        self._db.executemany(
            "INSERT INTO imports VALUES(?, ?, ?, ?, ?, ?, ?)",
            [(file_id, each.module, each.name, each.alias, each.level, each.start, each.end) for each in symbols.imports],
        )
        self._db.executemany(
            "INSERT INTO uses VALUES((SELECT id FROM names WHERE name = ?), ?, ?, ?)",
            [(name, file_id, uses[name], calls[name]) for name in used],
        )

    def _names_of(self, file_id: int) -> list[int]:
        rows = self._db.execute(
            "SELECT name_id FROM definitions WHERE file_id = ? UNION SELECT name_id FROM uses WHERE file_id = ?",
            (file_id, file_id),
        )
        return [name_id for (name_id,) in rows]

    def _drop_symbols(self, file_id: int, *, names: bool = True) -> None:
        before = self._names_of(file_id) if names else []
        for table in ("definitions", "imports", "uses", "facts"):
            self._db.execute(f"DELETE FROM {table} WHERE file_id = ?", (file_id,))
        self._drop_names(before)

    def _drop_names(self, name_ids: list[int]) -> None:
        """Those that nothing has any more: a name of a private file must not stay."""
        self._db.executemany(
            """DELETE FROM names WHERE id = ?1 AND NOT EXISTS(SELECT 1 FROM definitions WHERE name_id = ?1)
            AND NOT EXISTS(SELECT 1 FROM uses WHERE name_id = ?1)""",
            [(name_id,) for name_id in name_ids],
        )

    def _delete(self, path: str) -> None:
        """The file or folder, and all below it."""
        for (file_id,) in self._db.execute(f"SELECT id FROM files WHERE {_BELOW}", _below(path)).fetchall():
            self._drop_symbols(file_id)
            self._db.execute("DELETE FROM files WHERE id = ?", (file_id,))
        self._db.execute(f"DELETE FROM folders WHERE {_BELOW}", _below(path))

    # -- a walk over the disk

    def begin_walk(self) -> None:
        self._db.execute("DELETE FROM seen")
        self._is_walking = True

    def walked(self, folders: Sequence[str], files: Sequence[str], stale: Sequence[str]) -> None:
        """What a walk has come by; stale: files that are to be looked at."""
        with self._transaction() as db:
            db.executemany("INSERT OR IGNORE INTO folders VALUES(?)", [(path,) for path in folders])
            db.executemany("INSERT OR IGNORE INTO seen VALUES(?)", [(path,) for path in (*folders, *files)])
            pend(db, [(path, What.FILE) for path in stale], Urgency.SCAN)

    def vanished(self, start: str) -> list[str]:
        """Files and folders below start that the walk has not come by."""
        rows = self._db.execute(
            f"""SELECT path FROM files WHERE ({_BELOW}) AND path NOT IN (SELECT path FROM seen) UNION ALL
            SELECT path FROM folders WHERE ({_BELOW}) AND path NOT IN (SELECT path FROM seen)""",
            (*_below(start), *_below(start)),
        )
        return [path for (path,) in rows]

    def end_walk(self) -> None:
        self._is_walking = False
        self._db.execute("DELETE FROM seen")

    # -- the whole

    def forget_made_by_others(self, maker: str) -> None:
        """Symbols of another version's parsers still answer, and are all made anew."""
        with self._transaction() as db:
            row = db.execute("SELECT value FROM meta WHERE key = 'maker'").fetchone()
            if row is not None and row[0] == maker:
                return
            db.execute("INSERT OR REPLACE INTO meta VALUES('maker', ?)", (maker,))
            db.execute("UPDATE files SET digest = x'', looked_ns = 0, n_deaths = 0")

    def rules(self) -> str:
        """By which the whole workspace was compared last; "" if it never was."""
        row = self._db.execute("SELECT value FROM meta WHERE key = 'rules'").fetchone()
        return str(row[0]) if row is not None else ""

    def compared(self, rules: str) -> None:
        """The whole workspace was compared with what counts by these rules."""
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES('rules', ?)", (rules,))

    def tidy(self) -> None:
        """Nothing that was deleted stays in the file of changes."""
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        self._db.close()


def _below(path: str) -> tuple[str, str, str]:
    """For _BELOW: the path, and the bounds of what begins with it and a slash; of the root, everything."""
    return (path, f"{path}/", f"{path}0") if path else ("", "", "\U0010ffff")
