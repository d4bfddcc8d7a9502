"""Watching the folders of a workspace that count, with watchdog, and no others.

Owns what is asked of the system and how its events are read: a path has changed, or events were lost. On Linux each folder has
a watch of its own on one inotify instance (watchdog's recursive one would also watch `node_modules`); elsewhere the whole tree
is watched and what lies in other folders is passed over. Links are not followed. Refuses to look at what has changed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from watchdog.events import FileSystemEvent, FileSystemEventHandler

from context.languages import language_of
from lsp_server.index import projects
from lsp_server.index.files import RULE_FILES
from lsp_server.index.rows import What

OnChange = Callable[[str, What], None]

SYSCTL = {errno.ENOSPC: "fs.inotify.max_user_watches", errno.EMFILE: "fs.inotify.max_user_instances"}


class Limit(Exception):
    """The system gives no (more) watches. Its text is a sentence for people that says what to do."""


class Watch(Protocol):
    """sync: watch these folders (relative to the root) and no others; those that are new. Limit: only some of them could be;
    the others are not heard of."""

    def sync(self, folders: Iterable[str]) -> list[str]: ...

    def close(self) -> None: ...


def open_watch(root: str, on_change: OnChange, on_loss: Callable[[], None]) -> Watch:
    """root: absolute, with links resolved. on_change, on_loss: called from a thread. Limit."""
    try:
        return FolderWatch(root, on_change, on_loss) if sys.platform == "linux" else TreeWatch(root, on_change)
    except (OSError, RuntimeError, ImportError) as error:  # RuntimeError: no more threads
        raise limit_of(error) from None


def limit_of(error: BaseException) -> Limit:
    number = getattr(error, "errno", None)
    if number in SYSCTL:
        return Limit(
            f"the system allows no more watched folders, so changes on disk are noticed late; raise {SYSCTL[number]} (sysctl)"
        )
    why = getattr(error, "strerror", None) or type(error).__name__
    return Limit(f"folders can't be watched ({why}), so changes on disk are noticed late; changes made in this editor are not")


def is_of_interest(name: str) -> bool:
    """Whether a file of that name could count. What editors write beside a file mostly does not."""
    return name in RULE_FILES or name in projects.NAMES or "." not in name or bool(language_of(name))


class FolderWatch:
    """Linux. Raises OSError if there is no instance to be had."""

    def __init__(self, root: str, on_change: OnChange, on_loss: Callable[[], None]) -> None:
        from watchdog.observers.inotify_c import CallbackId, InotifyConstants, InotifyFD, Mask

        self._root = root
        self._on_change = on_change
        self._on_loss = on_loss
        self._paths: dict[Any, str] = {}  # by watch
        self._watches: dict[str, Any] = {}  # by folder
        self._lock = threading.Lock()
        bits = InotifyConstants
        self._mask = Mask(
            bits.IN_CLOSE_WRITE | bits.IN_CREATE | bits.IN_DELETE | bits.IN_MOVED_FROM | bits.IN_MOVED_TO
            | bits.IN_ONLYDIR | bits.IN_DONT_FOLLOW | bits.IN_EXCL_UNLINK
        )  # fmt: skip
        self._id = CallbackId(id(self))
        self._system = InotifyFD()
        self._system.start()

    def sync(self, folders: Iterable[str]) -> list[str]:
        wanted = set(folders)
        with self._lock:
            old = [(folder, watch) for folder, watch in self._watches.items() if folder not in wanted]
            new = sorted(wanted - self._watches.keys())
        # The old ones first: a folder that was moved has the same watch under its new name.
        for folder, watch in old:
            with self._lock:
                self._watches.pop(folder, None)
                if self._paths.get(watch) == folder:
                    del self._paths[watch]
            with contextlib.suppress(OSError):
                self._system.remove_callbacks([(watch, self._id)])
        watched = []
        for folder in new:
            path = os.fsencode(f"{self._root}/{folder}" if folder else self._root)
            try:
                watch = self._add(path)
            except OSError as error:
                if error.errno in SYSCTL:
                    raise limit_of(error) from None
                continue  # it is gone again, or no folder any more
            with self._lock:
                self._paths[watch] = folder
                self._watches[folder] = watch
            watched.append(folder)
        return watched

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._system.stop()

    @property
    def n_watches(self) -> int:
        return len(self._watches)

    def _add(self, path: bytes) -> Any:
        import warnings

        with warnings.catch_warnings():  # a folder that came back under another name has its callback already
            warnings.simplefilter("ignore", RuntimeWarning)
            return self._system.add_callback(path, self._mask, self, self._id)

    # -- called by watchdog, in its thread

    def on_event(self, event: Any) -> None:
        with self._lock:
            folder = self._paths.get(event.wd)
        name = os.fsdecode(event.name)
        if folder is None or not name:
            return
        if event.is_directory:
            self._on_change(f"{folder}/{name}" if folder else name, What.FOLDER)
        elif is_of_interest(name):
            self._on_change(f"{folder}/{name}" if folder else name, What.FILE)

    def on_watch_deleted(self, wd: Any) -> None:
        with self._lock:
            folder = self._paths.pop(wd, None)
            if folder is not None and self._watches.get(folder) == wd:
                del self._watches[folder]

    def on_queue_overflow(self) -> None:
        self._on_loss()


class TreeWatch(FileSystemEventHandler):
    """Where the system watches whole trees (macOS, Windows)."""

    def __init__(self, root: str, on_change: OnChange) -> None:
        from watchdog.observers import Observer

        self._root = root
        self._on_change = on_change
        self._folders: frozenset[str] = frozenset({""})
        self._observer = Observer()
        self._observer.schedule(self, root, recursive=True)
        self._observer.start()

    def sync(self, folders: Iterable[str]) -> list[str]:
        before, self._folders = self._folders, frozenset(folders)
        return sorted(self._folders - before)

    def close(self) -> None:
        self._observer.stop()

    def on_any_event(self, event: FileSystemEvent) -> None:
        if event.event_type in ("opened", "closed_no_write"):
            return
        for path in (event.src_path, event.dest_path):
            self._note(os.fsdecode(path).replace(os.sep, "/"), event.is_directory)

    def _note(self, path: str, is_folder: bool) -> None:
        if not path.startswith(f"{self._root}/"):
            return
        relative = path[len(self._root) + 1 :]
        folder, _, name = relative.rpartition("/")
        if folder in self._folders and (is_folder or is_of_interest(name)):
            self._on_change(relative, What.FOLDER if is_folder else What.FILE)
