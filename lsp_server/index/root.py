"""One workspace folder while its index is in use: the store's questions, the process that fills it, what keeps it fresh.

Owns these parts' life, and which folders are too wide to be indexed. Refuses to be told of settings: other settings
make another one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lsp_server.index.keeper import Keeper, OpenWatch
from lsp_server.index.quiet import OpenRequests
from lsp_server.index.reader import Reader
from lsp_server.index.rows import What
from lsp_server.index.supervisor import News, Supervisor
from lsp_server.index.watching import open_watch
from lsp_server.index.worker import Job

_WAIT_S = 0.5  # for threads that have been told to end


@dataclass(frozen=True, slots=True)
class Ears:
    """Called from threads, with the root. news: of the process. limit: a sentence, if changes on disk are noticed late."""

    news: Callable[[str, News], None]
    limit: Callable[[str], None]


class Root:
    """names: paths that mean this root, as editors spell it; answers use the first. Opening and closing look at the disk."""

    def __init__(self, job: Job, names: tuple[str, ...], ears: Ears, watch: OpenWatch = open_watch) -> None:
        self.job = job
        self.names = names
        self.reader = Reader(job.place, job.root)
        self._reader = Reader(job.place, job.root)  # a question never waits for a write
        self.requests: OpenRequests | None = None
        self._supervisor = Supervisor(job, self._hear, self._is_needed)
        self._keeper = Keeper(job.root, Reader(job.place, job.root), self._supervisor.need, ears.limit, watch)
        self._ears = ears

    def open(self) -> None:
        self.requests = OpenRequests(self.job.place.open_requests)
        self._supervisor.start(is_needed=False)  # the first look at the disk comes when it is watched: nothing falls between
        self._keeper.start()

    def close(self) -> None:
        """What runs ends soon."""
        self._keeper.close()
        self._supervisor.close()
        self.reader.close()
        self._reader.close()
        if self.requests is not None:
            self.requests.close()

    def join(self) -> None:
        self._keeper.join(_WAIT_S)
        self._supervisor.join(_WAIT_S)

    def relative(self, path: str) -> str | None:
        """Of an absolute path, "" for the root itself; None for what is not in it."""
        for name in (*self.names, self.job.root):
            if path == name:
                return ""
            if path.startswith(f"{name.rstrip('/')}/"):
                return path[len(name.rstrip("/")) + 1 :]
        return None

    def as_named(self, path: str) -> str:
        """A path of an answer as the editor spells it."""
        name = self.names[0] if self.names else self.job.root
        return f"{name.rstrip('/')}{path[len(self.job.root.rstrip('/')) :]}"

    def changed(self, relative: str) -> None:
        """By the editor."""
        self._keeper.changes.note(relative, What.FILE)

    def lost_count(self) -> None:
        """Anything may have changed."""
        self._keeper.changes.note_all()

    def hold(self) -> None:
        """A request is open in this server."""
        if self.requests is not None:
            self.requests.hold()

    def release(self) -> None:
        if self.requests is not None:
            self.requests.release()

    def is_filled(self) -> bool:
        return self.reader.rules() == self.job.rules and not self.reader.is_anything_pending()

    @property
    def worker_pid(self) -> int | None:
        return self._supervisor.pid

    def _hear(self, news: News) -> None:
        if news.what == "done":
            self._keeper.filled()
        self._ears.news(self.job.root, news)

    def _is_needed(self) -> bool:
        return self._reader.is_anything_pending() or (self._reader.exists() and self._reader.rules() != self.job.rules)


def is_too_wide(root: str) -> bool:
    """The home directory, or one that holds it: nobody means all of that to be one program."""
    home = os.path.realpath(os.path.expanduser("~"))
    return root == home or Path(root) in Path(home).parents
