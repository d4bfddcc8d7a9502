"""Filling a store: walk, compare, read, write, until nothing is left to do; and what has changed meanwhile first.

Owns the order of the work and its pauses. It pauses between files while a request is open, never within a transaction; what
somebody has just changed waits for one second at most. Knows no process (see `worker`): it is told when it is not wanted any
more.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from context.symbols import symbols_of
from lsp_server.index import reading
from lsp_server.index.files import Files, Folder, Found
from lsp_server.index.reading import Guard, Parse
from lsp_server.index.rows import Fresh, Gone, Stamp, Task, Urgency, What, is_same
from lsp_server.index.store import Store
from lsp_server.workspace import Exclusion

T = TypeVar("T")

MOST_DEATHS = 2
MOST_FILES = 300_000  # and folders of one root: there is an end to what can be of use
LOOK_S = 0.1  # how often somebody who waits for work looks for it
PATIENCE_S = 1.0  # how long a change waits for requests
_PAUSE_S = 0.02
_BATCH = 32  # files of a transaction
_BATCH_S = 0.2
_WALK_BATCH = 256
_TELL_S = 0.5
_RULES_S = 30.0  # how long ignore files count as read


class Unwanted(Exception):
    """Nobody needs this process any more. What was not done stays pending."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """is_wanted, is_busy: asked between files; busy = a request is open. tell: progress as (files done, files left)."""

    is_wanted: Callable[[], bool]
    is_busy: Callable[[], bool]
    tell: Callable[[int, int], None]
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class Filling:
    """root: absolute, with links resolved. exclusion: the private files of this workspace. rules: a word for what counts, which
    the store keeps once all of it was compared."""

    def __init__(
        self,
        root: str,
        exclusion: Exclusion,
        max_bytes: int,
        rules: str,
        store: Store,
        guard: Guard,
        around: Surroundings,
        parse: Parse = symbols_of,
    ) -> None:
        self._root = root
        self._exclusion = exclusion
        self._max_bytes = max_bytes
        self._rules = rules
        self._store = store
        self._guard = guard
        self._around = around
        self._parse = parse
        self._files: Files | None = None
        self._rules_end = 0.0
        self._n_done = 0
        self._told = 0.0

    def begin(self, *, scan: bool = True) -> bool:
        """See to what the process before has left; whether it has died of a file. scan: compare the whole workspace."""
        died = self._guard.found()
        if died and (stamp := reading.stamp_of(f"{self._root}/{died}")) is not None:
            self._store.died(died, stamp, "the parser did not come back from it")
        self._guard.clear()
        if scan:
            self._store.pend([("", What.FOLDER)], Urgency.SCAN)
        return bool(died)

    def work(self) -> bool:
        """Do all there is to do; whether there was anything. Unwanted."""
        n_before = self._n_done
        has_worked = False
        while tasks := self._store.tasks(_BATCH):
            has_worked = True
            first = tasks[0]
            if first.what is What.FOLDER:
                self._walk(first)
            else:
                self._look([task for task in tasks if task.what is What.FILE and task.urgency is first.urgency])
        if self._n_done > n_before:
            self._around.tell(self._n_done, 0)
            self._n_done = 0
        return has_worked

    # -- a folder and all below

    def _walk(self, task: Task) -> None:
        files = self._renew()
        if not os.path.isdir(self._root):  # a disk that is not mounted now: what is known of it stays
            self._done(task)
            return
        self._store.begin_walk()
        try:
            for batch in _batches(islice(files.walk(task.path), MOST_FILES), _WALK_BATCH):
                self._rest(patience_s=None)
                self._take(batch)
                self._changed_meanwhile()
            gone = self._store.vanished(task.path)
            for some in _batches(gone, _BATCH):
                self._store.put([Gone(path) for path in some])
            self._done(task)
        finally:
            self._store.end_walk()
        if gone:
            self._store.tidy()

    def _done(self, task: Task) -> None:
        self._store.put([], [task])
        if not task.path:
            self._store.compared(self._rules)

    def _take(self, batch: list[Folder | Found]) -> None:
        folders, paths, stale = [], [], []
        was_file: list[Gone] = []
        for each in batch:
            known = self._store.stamp(each.path)
            if isinstance(each, Folder):
                folders.append(each.path)
                if known is not None:
                    was_file.append(Gone(each.path))
                continue
            paths.append(each.path)
            if known is None or not is_same(known, each.mtime_ns, each.size):
                stale.append(each.path)
        if was_file:
            self._store.put(was_file)
        self._store.walked(folders, paths, stale)

    def _changed_meanwhile(self) -> None:
        """Files that somebody has changed don't wait for the end of a walk."""
        while tasks := self._store.tasks(_BATCH, only_changed_files=True):
            self._look(tasks)

    # -- files

    def _look(self, tasks: list[Task]) -> None:
        found: list[Fresh | Gone] = []
        folders: list[tuple[str, What]] = []
        done: list[Task] = []
        begun = self._around.clock()
        for task in tasks:
            self._rest(
                patience_s=max(0.0, PATIENCE_S - (self._around.clock() - begun)) if task.urgency is Urgency.CHANGED else None
            )
            if self._is_folder(task.path) or self._store.is_folder(task.path):  # it is one, or was
                folders.append((task.path, What.FOLDER))
            else:
                found.append(self._judge(task))
            done.append(task)
            if self._around.clock() - begun > _BATCH_S:
                break
        removed = [each.path for each in found if isinstance(each, Gone) and self._store.stamp(each.path) is not None]
        self._guard.rest()
        self._store.put(found, done)
        if folders:  # after their tasks as files are done: they are the same entry
            self._store.pend(folders, Urgency.CHANGED)
        if removed:
            self._store.tidy()
        self._n_done += len(done)
        now = self._around.clock()
        if now - self._told > _TELL_S:
            self._told = now
            self._around.tell(self._n_done, self._store.n_pending())

    def _judge(self, task: Task) -> Fresh | Gone:
        path = task.path
        files = self._current()
        if not files.file_counts(path):
            return Gone(path)
        got = reading.read(files.absolute(path), self._max_bytes)
        if got is None:
            return Gone(path)
        if self._is_hopeless(path, got.stamp):
            return Fresh(path, got.stamp, None)
        return reading.judge(path, got, self._store.digest(path), self._guard, self._parse)

    def _is_hopeless(self, path: str, stamp: Stamp) -> bool:
        if self._store.n_deaths(path) < MOST_DEATHS:
            return False
        known = self._store.stamp(path)
        return known is not None and (known.mtime_ns, known.size) == (stamp.mtime_ns, stamp.size)

    def _is_folder(self, path: str) -> bool:
        try:
            return stat.S_ISDIR(os.lstat(f"{self._root}/{path}").st_mode)
        except (OSError, ValueError):
            return False

    # -- rules and pauses

    def _current(self) -> Files:
        if self._files is None or self._around.clock() > self._rules_end:
            return self._renew()
        return self._files

    def _renew(self) -> Files:
        self._exclusion.forget()
        self._files = Files(self._root, self._exclusion, self._max_bytes)
        self._rules_end = self._around.clock() + _RULES_S
        return self._files

    def _rest(self, patience_s: float | None) -> None:
        """While a request is open, at most so long. Unwanted."""
        around = self._around
        if not around.is_wanted():
            raise Unwanted
        end = None if patience_s is None else around.clock() + patience_s
        while around.is_busy() and (end is None or around.clock() < end):
            if not around.is_wanted():
                raise Unwanted
            self._guard.rest()
            around.sleep(_PAUSE_S)


def _batches(items: Iterable[T], n: int) -> Iterator[list[T]]:
    source = iter(items)
    while batch := list(islice(source, n)):
        yield batch
