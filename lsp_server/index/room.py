"""The index as the server has it: one root for each workspace folder, questions by name, and what the editor tells.

Owns the roots in use and what of them the user hears: how far the filling is, and each trouble once. Questions and everything
else that touches the disk run in one thread of its own; the event loop only waits for them. A document that is no file of this
disk is in no root and nobody looks for it. What is private by the settings of this server is in no answer, whatever another
server with other settings has filled in.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from context.symbol_types import Import
from lsp_server.config import ServerConfig
from lsp_server.index import place, quiet
from lsp_server.index.place import Trouble
from lsp_server.index.root import Ears, Root, is_too_wide
from lsp_server.index.rows import Defined, FileRow, UsedIn
from lsp_server.index.supervisor import News
from lsp_server.index.worker import Job
from lsp_server.uris import is_on_disk, path_of
from lsp_server.workspace import Exclusion

log = logging.getLogger(__name__)

T = TypeVar("T")

MOST = 200
_SHOWN_FROM = 64  # files left: less is done before anybody has read of it


@dataclass(frozen=True, slots=True)
class Wanted:
    """What decides which roots there are. roots: paths as the editor spells them."""

    roots: tuple[str, ...]
    globs: tuple[str, ...]
    max_bytes: int


class IndexRoom:
    """cache_dir: where stores go. maker: this version's name. on_progress: percent, None when there is nothing to show;
    on_trouble: a sentence. Both are called on the loop."""

    def __init__(
        self,
        cache_dir: Callable[[], Path],
        maker: str,
        on_progress: Callable[[int | None], None] = lambda _percent: None,
        on_trouble: Callable[[str], None] = lambda _sentence: None,
    ) -> None:
        self._cache_dir = cache_dir
        self._maker = maker
        self._on_progress = on_progress
        self._on_trouble = on_trouble
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="ask")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wanted: Wanted | None = None
        self._applying: asyncio.Future[None] | None = None
        self._roots: tuple[Root, ...] = ()
        self._exclusion = Exclusion()
        self._left: dict[str, tuple[int, int]] = {}  # by root: files done, files left
        self._told: set[str] = set()
        self._renewal: asyncio.TimerHandle | None = None

    # -- life

    def configure(self, config: ServerConfig, roots: Sequence[str]) -> None:
        """What is set now; the loop does not wait for what follows from it. Before `start` it is only noted."""
        self._wanted = Wanted(tuple(roots), config.exclude, config.index_file_bytes) if config.index else Wanted((), (), 0)
        if self._loop is not None:
            self._apply_soon()

    def start(self) -> None:
        """The settings are known as well as they will be. On the loop."""
        self._loop = asyncio.get_running_loop()
        self._apply_soon()

    async def settled(self) -> None:
        """What was set last is in use."""
        while self._applying is not None and not self._applying.done():
            await asyncio.wait({self._applying})

    async def aclose(self) -> None:
        self._loop = None
        self.release()
        with contextlib.suppress(RuntimeError):
            self._pool.submit(self._close_roots)
        self._pool.shutdown(wait=False)

    def _apply_soon(self) -> None:
        assert self._loop is not None
        wanted = self._wanted
        if wanted is not None:
            self._applying = self._loop.run_in_executor(self._pool, self._apply, wanted)

    def _apply(self, wanted: Wanted) -> None:
        """In the thread. Roots whose job stays the same stay."""
        try:
            names: dict[str, list[str]] = {}
            for name in wanted.roots:
                real = os.path.realpath(name).replace(os.sep, "/")
                if os.path.isdir(real) and not is_too_wide(real):
                    names.setdefault(real, []).append(name)
            if names:
                place.make_private(self._cache_dir() / "index")
            self._exclusion = Exclusion(wanted.globs, [*wanted.roots, *names])
            cache_dir = str(self._cache_dir())
            jobs = {
                real: Job(cache_dir, real, _around(real, names), wanted.globs, wanted.max_bytes, self._maker) for real in names
            }
            kept = tuple(root for root in self._roots if jobs.get(root.job.root) == root.job)
            for root in self._roots:
                if root not in kept:
                    self._left.pop(root.job.root, None)
                    root.close()
            ears = Ears(self._hear, self._limited)
            known = {root.job.root for root in kept}
            fresh = tuple(Root(job, tuple(names[real]), ears) for real, job in jobs.items() if real not in known)
            self._roots = (*kept, *fresh)  # of use before anything runs
            for root in fresh:
                root.open()
        except (Trouble, OSError) as error:
            self._close_roots()
            self._say(str(error))

    def _close_roots(self) -> None:
        roots, self._roots = self._roots, ()
        for root in roots:
            root.close()

    # -- questions

    def covers(self, doc_id: str) -> bool:
        """Is the document in one of the folders? Looks at paths only."""
        return bool(self._places(doc_id))

    async def definitions_of(self, name: str, most: int = MOST) -> tuple[Defined, ...]:
        """Of that very name in all roots."""
        return await self._ask(lambda: self._all(lambda root: root.reader.definitions_of(name, most), most))

    async def uses_of(self, name: str, most: int = MOST) -> tuple[UsedIn, ...]:
        """Files that use the name, in each root those that use it most first."""
        return await self._ask(lambda: self._all(lambda root: root.reader.uses_of(name, most), most))

    async def symbols_in(self, doc_id: str) -> FileRow | None:
        """Of a file as it is on the disk; None if it has none, or does not count."""

        def ask() -> FileRow | None:
            for root, path in self._places(doc_id):
                row = root.reader.symbols_in(path)
                if row is not None and not self._exclusion.reason(row.path):
                    return replace(row, path=root.as_named(row.path))
            return None

        return await self._ask(ask)

    async def files_named(self, name: str, most: int = MOST) -> tuple[str, ...]:
        """Paths of files of that name, with its ending or without."""

        def ask() -> tuple[str, ...]:
            found = [(root, path) for root in self._roots for path in root.reader.files_named(name, most)]
            return self._named(found)[:most]

        return await self._ask(ask)

    async def resolve(self, doc_id: str, language: str, one: Import) -> tuple[str, ...]:
        """Paths of the files that an import of this document may mean, the likeliest first."""

        def ask() -> tuple[str, ...]:
            places = self._places(doc_id)
            return self._named([(root, found) for root, path in places for found in root.reader.resolve(path, language, one)])

        return await self._ask(ask)

    async def counts(self) -> dict[str, dict[str, int]]:
        """By root: files by what is known of them, and what is still to be looked at."""
        return await self._ask(lambda: {root.job.root: root.reader.counts() for root in self._roots})

    async def is_filled(self) -> bool:
        """Everything was looked at once, and nothing is left to be looked at."""
        return await self._ask(lambda: all(root.is_filled() for root in self._roots))

    async def _ask(self, question: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, question)

    def _all(self, question: Callable[[Root], Sequence[T]], most: int) -> tuple[T, ...]:
        """A file in two roots (one may lie in the other) is told once."""
        found: dict[T, None] = {}
        for root in self._roots:
            for each in question(root):
                path: str = each.path  # type: ignore[attr-defined]
                if not self._exclusion.reason(path):
                    found.setdefault(replace(each, path=root.as_named(path)))  # type: ignore[type-var]
        return tuple(found)[:most]

    def _named(self, found: list[tuple[Root, str]]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(root.as_named(path) for root, path in found if not self._exclusion.reason(path)))

    def _places(self, doc_id: str) -> list[tuple[Root, str]]:
        """Roots that a document is in, with its path there, links of the root resolved."""
        if not is_on_disk(doc_id):
            return []
        path = path_of(doc_id).replace(os.sep, "/")
        places = []
        for root in self._roots:
            relative = root.relative(path)
            if relative:
                places.append((root, f"{root.job.root.rstrip('/')}/{relative}"))
        return places

    # -- what the editor tells, on the loop

    def changed(self, doc_id: str) -> None:
        """A file was saved, made, renamed or removed."""
        for root, path in self._places(doc_id):
            root.changed(root.relative(path) or "")

    def hold(self) -> None:
        """A request is open: the filling pauses until `release`."""
        for root in self._roots:
            root.hold()
        if self._loop is not None and self._renewal is None:
            self._renewal = self._loop.call_later(quiet.RENEW_S, self._renew)

    def release(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None
        for root in self._roots:
            root.release()

    def _renew(self) -> None:
        self._renewal = None
        self.hold()

    # -- what the roots tell, from their threads

    def _hear(self, root: str, news: News) -> None:
        if news.what == "trouble":
            self._say(news.sentence)
        elif news.what in ("progress", "done"):
            self._on_loop(self._progressed, root, news)

    def _limited(self, sentence: str) -> None:
        self._say(sentence)

    def _say(self, sentence: str) -> None:
        log.warning("%s", sentence)
        self._on_loop(self._tell, sentence)

    def _on_loop(self, act: Callable[..., None], *arguments: object) -> None:
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(act, *arguments)

    def _progressed(self, root: str, news: News) -> None:
        is_shown = bool(self._left)
        if news.what == "progress" and (news.left >= _SHOWN_FROM or root in self._left):
            self._left[root] = (news.done, news.left)
        elif news.what == "done":
            self._left.pop(root, None)
        if self._left:
            done = sum(done for done, _ in self._left.values())
            left = sum(left for _, left in self._left.values())
            self._on_progress(100 * done // max(1, done + left))
        elif is_shown:
            self._on_progress(None)

    def _tell(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            self._on_trouble(sentence)


def _around(root: str, roots: Iterable[str]) -> tuple[str, ...]:
    """The roots that a root lies in, itself among them: from the outermost one the user's globs count."""
    return tuple(each for each in roots if root == each or root.startswith(f"{each.rstrip('/')}/"))
