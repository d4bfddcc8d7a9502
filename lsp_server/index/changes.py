"""What has changed on the disk, collected from several sources until it is passed on.

Owns the coalescing: a path once, however often it was heard of; a burst becomes one look at the whole workspace, when it is
over. Refuses the disk. For any thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from lsp_server.index import git_rules
from lsp_server.index.files import RULE_FILES
from lsp_server.index.rows import What

MOST = 512  # paths; walking over all is as quick
GATHER_S = 0.05  # what belongs together (an atomic save, a rename) comes within this
BURST_S = 0.4  # of quiet, after which a burst counts as over
MOST_S = 3.0  # a burst that does not end is passed on all the same
_ALL = {"": What.FOLDER}


class Changes:
    """Paths are relative to the root, with slashes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = MOST) -> None:
        self._clock = clock
        self._most = most
        self._paths: dict[str, What] = {}
        self._is_burst = False
        self._first = self._last = 0.0
        self._lock = threading.Lock()
        self.on_first: Callable[[], None] = lambda: None  # something is there to be passed on

    def note(self, path: str, what: What = What.FILE) -> None:
        """what: FOLDER if it is or was one, as far as that is known. A file that holds rules means its folder."""
        folder, _, name = path.rpartition("/")
        if name in RULE_FILES:
            path, what = folder, What.FOLDER
        elif f"/{path}/".find("/.git/") >= 0 and name != git_rules.NAME:
            return
        with self._lock:
            self._last = self._clock()
            is_first = not self._paths
            if is_first:
                self._first = self._last
            if not self._is_burst:
                self._paths[path] = max(what, self._paths.get(path, What.FILE))
                if len(self._paths) > self._most:
                    self._burst()
        if is_first:
            self.on_first()

    def note_all(self) -> None:
        """Events were lost: anything may have changed."""
        with self._lock:
            self._last = self._clock()
            is_first = not self._paths
            if is_first:
                self._first = self._last
            self._burst()
        if is_first:
            self.on_first()

    def due_s(self) -> float | None:
        """Seconds until there is something to be taken, 0.0 if there is now; None: nothing was noted."""
        with self._lock:
            if not self._paths:
                return None
            due = min(self._last + BURST_S, self._first + MOST_S) if self._is_burst else self._first + GATHER_S
            return max(0.0, due - self._clock())

    def take(self) -> list[tuple[str, What]]:
        """All of it, whether it is due or not."""
        with self._lock:
            paths, self._paths, self._is_burst = self._paths, {}, False
            return list(paths.items())

    def _burst(self) -> None:
        self._paths, self._is_burst = dict(_ALL), True
