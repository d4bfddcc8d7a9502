"""Questions to one store, and what is asked of the process that fills it.

Owns one connection, opened when first needed and again when the file was replaced. Blocking: for a thread. Nothing is loaded:
an answer reads the rows that it gives. Refuses to raise for what has become of the file: there is no answer then, and `trouble`
says why if it will stay so.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from context.imports import candidates
from context.symbol_types import Definition, Import
from lsp_server.index import schema
from lsp_server.index.place import Place, Trouble
from lsp_server.index.projects import roots_of
from lsp_server.index.rows import Defined, FileRow, State, Urgency, UsedIn, What, split
from lsp_server.index.schema import Broken
from lsp_server.index.store import pend

T = TypeVar("T")

MOST = 200  # rows of an answer, unless asked for otherwise
_DEFINITION = "n.name, d.kind, d.start, d.end, d.name_start, d.body_start, d.signature, d.doc, d.scope"


class Reader:
    """root: absolute, with links resolved; paths in answers begin with it. Safe for several threads, one after the other."""

    def __init__(self, place: Place, root: str) -> None:
        self._place = place
        self._root = root
        self._db: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._lock = threading.Lock()
        self.trouble = ""

    def definitions_of(self, name: str, most: int = MOST) -> tuple[Defined, ...]:
        """Of that very name, in the order of the paths."""
        rows = self._ask(
            f"""SELECT f.path, f.language, {_DEFINITION} FROM names n JOIN definitions d ON d.name_id = n.id
            JOIN files f ON f.id = d.file_id WHERE n.name = ? ORDER BY f.path, d.start LIMIT ?""",
            (name, most),
        )
        return tuple(Defined(self._absolute(path), language, _definition(rest)) for path, language, *rest in rows)

    def uses_of(self, name: str, most: int = MOST) -> tuple[UsedIn, ...]:
        """Files that use the name, those that use it most first."""
        rows = self._ask(
            """SELECT f.path, f.language, u.n_uses, u.n_calls FROM names n JOIN uses u ON u.name_id = n.id
            JOIN files f ON f.id = u.file_id WHERE n.name = ? ORDER BY u.n_uses DESC, f.path LIMIT ?""",
            (name, most),
        )
        return tuple(UsedIn(self._absolute(path), language, n_uses, n_calls) for path, language, n_uses, n_calls in rows)

    def symbols_in(self, path: str) -> FileRow | None:
        """Of the file at a path (absolute); None if it was not parsed."""
        relative = self.relative(path)
        return self._with(lambda db: self._file(db, relative), None) if relative else None

    def files_named(self, name: str, most: int = MOST) -> tuple[str, ...]:
        """Paths of files of that name, with its ending or without; those least deep first."""
        rows = self._ask(
            "SELECT path FROM files WHERE stem = ? ORDER BY length(path) - length(replace(path, '/', '')), path",
            (name.partition(".")[0] or name,),
        )
        found = [path for (path,) in rows if _is_named(path, name)]
        return tuple(self._absolute(path) for path in found[:most])

    def resolve(self, path: str, language: str, one: Import, most: int = 20) -> tuple[str, ...]:
        """The files that an import in the file at a path (absolute) may mean, the likeliest first; not that file itself."""
        relative = self.relative(path)
        if not relative:
            return ()
        nothing: list[str] = []
        found = self._with(lambda db: _resolved(db, language, relative, one), nothing)
        return tuple(self._absolute(each) for each in dict.fromkeys(found) if each != relative)[:most]

    def folders(self) -> tuple[str, ...]:
        """Absolute paths of all folders whose files count."""
        return tuple(self._absolute(path) for (path,) in self._ask("SELECT path FROM folders", ()))

    def counts(self) -> dict[str, int]:
        """Files by what is known of them, and what is still to be looked at."""
        states: dict[int, int] = dict(self._ask("SELECT state, count(*) FROM files GROUP BY state", ()))
        pending = self._ask("SELECT count(*) FROM pending", ())
        told = {state.name.lower(): int(states.get(int(state), 0)) for state in State}
        return {**told, "pending": int(pending[0][0]) if pending else 0}

    # -- what is to be done

    def is_anything_pending(self) -> bool:
        return bool(self._ask("SELECT 1 FROM pending LIMIT 1", ()))

    def rules(self) -> str:
        """By which the whole workspace was compared last; "" if it never was."""
        rows = self._ask("SELECT value FROM meta WHERE key = 'rules'", ())
        return str(rows[0][0]) if rows else ""

    def pend(self, paths: Iterable[tuple[str, What]]) -> bool:
        """Ask for files and folders (relative) to be looked at. False: that is not possible now."""
        tasks = list(paths)

        def write(db: sqlite3.Connection) -> bool:
            db.execute("BEGIN IMMEDIATE")
            try:
                pend(db, tasks, Urgency.CHANGED)
                db.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                raise
            return True

        return self._with(write, False)

    # -- the file

    def exists(self) -> bool:
        return self._place.database.is_file()

    def relative(self, path: str) -> str:
        """Of a path below the root; "" for all others."""
        return path[len(self._root) + 1 :] if path.startswith(f"{self._root.rstrip('/')}/") else ""

    def close(self) -> None:
        with self._lock:
            self._let_go()

    def _absolute(self, path: str) -> str:
        return f"{self._root.rstrip('/')}/{path}" if path else self._root

    def _ask(self, question: str, values: tuple[object, ...]) -> list[Any]:
        nothing: list[Any] = []
        return self._with(lambda db: db.execute(question, values).fetchall(), nothing)

    def _with(self, act: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        with self._lock:
            try:
                db = self._open()
                if db is None:
                    return otherwise
                try:
                    return act(db)
                except sqlite3.Error as error:
                    schema.raise_meaning(error, self._place.database)
            except Broken:
                self._let_go()
                with contextlib.suppress(OSError):  # whoever fills it looks it through
                    self._place.suspect.touch(0o600)
            except Trouble as trouble:
                self._let_go()
                self.trouble = str(trouble)
            except sqlite3.Error:  # somebody else has it just now
                pass
            return otherwise

    def _open(self) -> sqlite3.Connection | None:
        try:
            status = os.stat(self._place.database)
        except OSError:
            self._let_go()
            return None
        if self._db is None or self._identity != (status.st_dev, status.st_ino):
            self._let_go()
            self._db = schema.open_existing(self._place)
            self._identity = (status.st_dev, status.st_ino)
        return self._db

    def _let_go(self) -> None:
        if self._db is not None:
            with contextlib.suppress(sqlite3.Error):
                self._db.close()
        self._db = None

    def _file(self, db: sqlite3.Connection, relative: str) -> FileRow | None:
        row = db.execute(
            "SELECT id, language, size, is_broken FROM files WHERE path = ? AND state = ?", (relative, int(State.PARSED))
        ).fetchone()
        if row is None:
            return None
        file_id, language, size, is_broken = row
        definitions = db.execute(
            f"""SELECT {_DEFINITION} FROM definitions d JOIN names n ON n.id = d.name_id WHERE d.file_id = ?
            ORDER BY d.start, d.rowid""",
            (file_id,),
        )
        imports = db.execute(
            "SELECT module, name, alias, level, start, end FROM imports WHERE file_id = ? ORDER BY start, rowid", (file_id,)
        )
        names = db.execute(
            "SELECT n.name FROM uses u JOIN names n ON n.id = u.name_id WHERE u.file_id = ? ORDER BY n.name", (file_id,)
        )
        return FileRow(
            self._absolute(relative),
            language,
            size,
            bool(is_broken),
            tuple(_definition(each) for each in definitions),
            tuple(Import(*each) for each in imports),
            tuple(name for (name,) in names),
        )


def _definition(row: Iterable[Any]) -> Definition:
    name, kind, start, end, name_start, body_start, signature, doc, scope = row
    return Definition(name, kind, start, end, name_start, body_start, signature, doc, split(scope))


def _is_named(path: str, name: str) -> bool:
    base = path.rsplit("/", 1)[-1]
    return base == name or base.startswith(f"{name}.")


def _resolved(db: sqlite3.Connection, language: str, near: str, one: Import) -> list[str]:
    roots = roots_of(db.execute("SELECT kind, folder, value FROM facts ORDER BY kind, folder, value"))
    found: list[str] = []
    for place in candidates(language, near, one, roots):
        if place.endswith("/"):
            folder = "" if place == "./" else place[:-1]
            question = "SELECT path FROM files WHERE folder = ? AND language = ? ORDER BY path"
            found += [path for (path,) in db.execute(question, (folder, language))]
        else:
            found += [path for (path,) in db.execute("SELECT path FROM files WHERE path = ?", (place,))]
    return found
