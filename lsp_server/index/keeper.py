"""Keeps one workspace's store fresh: what the system and the editor tell of changes goes to the process that looks at them.

Owns one thread: it passes on what was gathered, sees that each folder that counts is watched, and looks at everything now and
then where the system can't tell of changes. Refuses to look at a file itself.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from lsp_server.index.changes import Changes
from lsp_server.index.reader import Reader
from lsp_server.index.rows import What
from lsp_server.index.watching import Limit, Watch

log = logging.getLogger(__name__)

POLL_S = 30.0  # where there are no watches
_DRAIN_S = 0.2
_MANY = 32  # new folders: looking at all is as quick

OpenWatch = Callable[[str, Callable[[str, What], None], Callable[[], None]], Watch]


class Keeper:
    """root: absolute, with links resolved. reader: this thread's own. need: wakes the process that fills the store. on_limit:
    told once if not everything can be watched."""

    def __init__(
        self,
        root: str,
        reader: Reader,
        need: Callable[[], None],
        on_limit: Callable[[str], None],
        open_watch: OpenWatch,
        poll_s: float = POLL_S,
    ) -> None:
        self._root = root
        self._reader = reader
        self._need = need
        self._on_limit = on_limit
        self._open_watch = open_watch
        self._poll_s = poll_s
        self._watch: Watch | None = None
        self._is_limited = False
        self._is_told = False
        self._is_waiting = True  # for the store to have nothing left to do: then its folders are known
        self._wake = threading.Event()
        self._closed = threading.Event()
        self.changes = Changes()
        self.changes.on_first = self._wake.set
        self._thread = threading.Thread(target=self._run, name="keep", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def filled(self) -> None:
        """The process that fills the store says that it is done."""
        self._is_waiting = True
        self._wake.set()

    def close(self) -> None:
        """Does not wait."""
        self._closed.set()
        self._wake.set()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            self._watch = self._open_watch(self._root, self.changes.note, self.changes.note_all)
        except Limit as limit:
            self._limited(limit)
        try:
            self._sync(is_first=True)
            self._need()
            while not self._closed.is_set():
                self._turn()
        finally:
            if self._watch is not None:
                self._watch.close()
            self._reader.close()

    def _turn(self) -> None:
        due_s = self.changes.due_s()
        if due_s is None:
            wait_s = _DRAIN_S if self._is_waiting else self._poll_s if self._is_limited else None
            is_woken = self._wake.wait(wait_s)
            self._wake.clear()
            if not is_woken and not self._is_waiting and self._is_limited:
                self.changes.note_all()
        elif due_s > 0:
            self._closed.wait(due_s)
        else:
            self._pass_on()
        if self._is_waiting and not self._reader.is_anything_pending():
            self._is_waiting = False
            self._sync()

    def _pass_on(self) -> None:
        paths = self.changes.take()
        if not self._reader.pend(paths):
            # There is no store yet, and the first look at the disk finds all; or it is taken, and then later.
            if self._reader.exists():
                self._closed.wait(_DRAIN_S)
                for path, what in paths:
                    self.changes.note(path, what)
            return
        self._is_waiting = self._is_waiting or any(what is What.FOLDER for _, what in paths)
        self._need()

    def _sync(self, *, is_first: bool = False) -> None:
        """Watch the folders that count now. What happened in a new one before it was watched is looked for, unless everything
        is looked at only now."""
        if self._watch is None:
            return
        folders = self._reader.folders()
        if not folders:
            return
        try:
            new = self._watch.sync(self._reader.relative(folder) for folder in folders)
        except Limit as limit:
            self._limited(limit)
            return
        if is_first:
            return
        if len(new) > _MANY:
            self.changes.note_all()
        else:
            for folder in new:
                self.changes.note(folder, What.FOLDER)

    def _limited(self, limit: Limit) -> None:
        self._is_limited = True
        if not self._is_told:
            self._is_told = True
            log.warning("%s", limit)
            self._on_limit(str(limit))
