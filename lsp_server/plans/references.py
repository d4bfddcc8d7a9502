"""What the workspace says about a place: asked of the index, in the background, and kept until a request can use it.

Owns when it is asked (a document is opened, a quiet moment, a request far from where it was asked last) and a book for each
document. Never on the way of a request: what is late serves the next one. Lives on the event loop; what takes longer runs in
one thread of its own. A document that lies in no folder of the index has none, and no private file is ever asked about or
quoted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass

from context.budget import choose_pieces
from context.symbol_types import FileSymbols
from context.symbols import symbols_of_tree
from context.syntax import SyntaxTree
from context.text import Edit, Text
from context.types import DocumentSnapshot
from context.zones.focus import Focus, focus_of, names_in
from context.zones.types import Around, Candidate, Zones
from lsp_server.plans.dressing import Dressing
from lsp_server.plans.inquiry import Index, Inquiry, rough_symbols, source_of
from lsp_server.plans.outlook import NOTHING, Outlook
from lsp_server.plans.quoting import Naming, Quotes
from lsp_server.plans.recent import Recent
from lsp_server.plans.zone_book import Book
from lsp_server.trace import Record
from lsp_server.trees import NOT_YET, Trees
from lsp_server.uris import is_on_disk, path_of

log = logging.getLogger(__name__)

REFRESH_S = 10.0  # the same question is asked again after this
LATE_S = 2.0  # a quiet moment waits this long for the answers before it goes on without them
_TREE_S = 0.05
_MOST_WAITS = 60  # for a tree
_MOST_OWN_BYTES = 192 * 1024  # symbols of a longer document take the interpreter for too long


@dataclass(slots=True)
class _Job:
    snapshot: DocumentSnapshot
    offset: int | None
    task: asyncio.Task[None]


class References:
    """index: None: nothing is ever found. why_private: why a document may not be used, or "". roots: paths of the workspace
    folders. pool: one thread; None = its own."""

    def __init__(
        self,
        index: Index | None,
        trees: Trees,
        clock: Callable[[], float],
        why_private: Callable[[str], str],
        roots: Callable[[], Sequence[str]],
        pool: Executor | None = None,
    ) -> None:
        self._trees = trees
        self._clock = clock
        self._why_private = why_private
        self._pool = pool or ThreadPoolExecutor(1, thread_name_prefix="quote")  # no thread before there is work
        self._use: Dressing | None = None
        self._books: dict[str, Book] = {}
        self._focus: dict[str, Focus] = {}  # of the last question, moved along with the edits
        self._jobs: dict[str, _Job] = {}
        self._index = index
        self._recent = Recent(clock)
        self._inquiry = None if index is None else Inquiry(index, self._recent, why_private, roots)
        self._quotes = Quotes()
        self._refused: set[str] = set()  # files that have become private since the rules were read last
        self.n_asked = 0

    def use(self, use: Dressing | None) -> None:
        """None: off, or no engine. What was found for another budget or vocabulary is forgotten."""
        self._use = use
        self.forget()

    @property
    def has_index(self) -> bool:
        return self._inquiry is not None

    @property
    def is_on(self) -> bool:
        return self._use is not None

    # -- on the way of a request

    def outlook(self, snapshot: DocumentSnapshot) -> Outlook:
        """What is known now. Costs nothing."""
        if self._use is None or not self._covers(snapshot.doc_id):
            return NOTHING
        book = self._books.get(snapshot.doc_id)
        if book is not None and (private := self._private_of(book)):
            self._refused |= private
            self.forget(snapshot.doc_id)
            book = None
        tree, refused = self._trees.of(snapshot), frozenset(self._refused)
        return Outlook(None, (), tree, refused) if book is None else Outlook(book.wanted, book.others, tree, refused)

    def _covers(self, doc_id: str) -> bool:
        return self._index is not None and is_on_disk(doc_id) and self._index.covers(doc_id)

    def book(self, doc_id: str) -> Book:
        return self._books.setdefault(doc_id, Book())

    def _private_of(self, book: Book) -> set[str]:
        """Files with a piece in it that have become private."""
        choices = (*([] if book.wanted is None else [book.wanted]), *book.others)
        sources = {piece.source for zones in choices for piece in zones.pieces}
        return {source for source in sources if self._why_private(source)}

    def tell(self, record: Record) -> None:
        """Why these pieces were in a request's prompt, and in how many prompts each was."""
        book = self._books.get(record.doc_id)
        sent = [piece.id for piece in record.pieces if piece.id]
        if book is not None:
            book.n_sent.update(sent)
            record.choice = {"why": book.why, "n_sent": {each: book.n_sent[each] for each in sent}}

    # -- what happens in the editor

    def opened(self, snapshot: DocumentSnapshot) -> None:
        if self._inquiry is None:
            return
        self._recent.opened(snapshot)
        with contextlib.suppress(RuntimeError):  # without a loop nobody looks
            self._begin(snapshot, None)

    def changed(self, snapshot: DocumentSnapshot, edits: tuple[Edit, ...]) -> None:
        if self._inquiry is None:
            return
        self._recent.changed(snapshot, edits)
        focus = self._focus.get(snapshot.doc_id)
        if focus is not None:
            self._focus[snapshot.doc_id] = _moved(focus, edits)

    def closed(self, doc_id: str) -> None:
        self._stop(doc_id)
        self._recent.closed(doc_id)
        self._books.pop(doc_id, None)
        self._focus.pop(doc_id, None)

    def answered(self, snapshot: DocumentSnapshot, offset: int) -> None:
        """A request there is over: is that where the last question was about?"""
        if self._inquiry is None:
            return
        self._recent.asked(snapshot, offset)
        focus = self._focus.get(snapshot.doc_id)
        if self._use is not None and (focus is None or not focus.start <= offset <= focus.end):
            self._begin(snapshot, offset)

    def forget(self, doc_id: str | None = None) -> None:
        """What may be used, or how much, has changed."""
        for each in [doc_id] if doc_id is not None else list(self._books):
            self._stop(each)
            self._books.pop(each, None)
            self._focus.pop(each, None)
        if doc_id is None:
            self._refused.clear()
            self._quotes.forget()
            self._recent.forget()

    def ask_again(self) -> None:
        """The answers may be others by now."""
        for book in self._books.values():
            book.asked = None

    def close(self) -> None:
        for doc_id in list(self._jobs):
            self._stop(doc_id)
        self._pool.shutdown(wait=False, cancel_futures=True)

    # -- asking

    async def look(self, snapshot: DocumentSnapshot, offset: int | None, wait_s: float | None = None) -> None:
        """Find what there is for a place; returns when that is known, or after wait_s. Cancelling this ends no question."""
        job = self._begin(snapshot, offset)
        if job is not None:
            await asyncio.wait({job.task}, timeout=wait_s)

    def _begin(self, snapshot: DocumentSnapshot, offset: int | None) -> _Job | None:
        if self._use is None or not self._covers(snapshot.doc_id) or self._why_private(snapshot.doc_id):
            return None
        job = self._jobs.get(snapshot.doc_id)
        if job is not None and not job.task.done():
            if job.snapshot.version == snapshot.version and job.offset == offset:
                return job
            job.task.cancel()
        task = asyncio.get_running_loop().create_task(self._run(snapshot, offset, self._use))
        made = self._jobs[snapshot.doc_id] = _Job(snapshot, offset, task)
        return made

    def _stop(self, doc_id: str) -> None:
        job = self._jobs.pop(doc_id, None)
        if job is not None:
            job.task.cancel()

    async def _run(self, snapshot: DocumentSnapshot, place: int | None, use: Dressing) -> None:
        try:
            await self._find(snapshot, place, use)
        except RuntimeError as error:  # the thread was shut down
            log.debug("nothing was found: %s", error)
        except Exception as error:
            log.error("looking for references failed: %s", type(error).__name__)
            log.debug("details", exc_info=True)

    async def _find(self, snapshot: DocumentSnapshot, place: int | None, use: Dressing) -> None:
        text = snapshot.text
        wrapping = use.wrapping(snapshot.language)
        if wrapping is None or self._inquiry is None:
            self.book(snapshot.doc_id).why = f"none: a {snapshot.language} file has no comments to hold them"
            return
        offset = text.floor(min(max(place or 0, 0), len(text)))
        symbols = await self._symbols(snapshot, offset)
        focus = focus_of(symbols, text, offset)
        names = names_in(symbols, focus)
        self._focus[snapshot.doc_id] = focus
        book = self.book(snapshot.doc_id)
        near = frozenset(use_.name for use_ in names if use_.distance == 0)
        question = (
            place is None,
            focus.name,
            near,
            symbols.imports,
            tuple(worked.snapshot.doc_id for worked in self._recent.all()),
        )
        if book.asked == question and self._clock() < book.asked_at + REFRESH_S and book.wanted is not None:
            return
        self.n_asked += 1
        material = await self._inquiry.material(
            snapshot, offset, symbols, focus, names, use.near, use.rules, book.ranked
        )  # fmt: skip
        naming = Naming(self._inquiry.told, source_of, path_of, lambda path: not self._why_private(source_of(path)))
        around = Around(text.slice(*material.near).decode("utf-8", "replace"), material.names)
        limits = use.limits(len(text))
        loop = asyncio.get_running_loop()

        def choose() -> tuple[Zones, tuple[Candidate, ...]]:
            candidates = self._quotes.candidates(material, naming)
            return choose_pieces(candidates, limits, use.table, wrapping, around, book.wanted), candidates

        best, candidates = await loop.run_in_executor(self._pool, choose)
        if self._books.get(snapshot.doc_id) is book and self._use is use:
            book.ranked, book.asked, book.asked_at = material.ranked, question, self._clock()
            book.decide(best, candidates, has_place=place is not None)

    async def _symbols(self, snapshot: DocumentSnapshot, offset: int) -> FileSymbols:
        """Of the document's tree, once there is one; of what stands around the cursor, where there is none or it is long."""
        tree = None
        for _ in range(_MOST_WAITS if len(snapshot.text) <= _MOST_OWN_BYTES else 0):
            tree = self._trees.of(snapshot)
            worked = self._recent.of(snapshot.doc_id)
            is_old = worked is not None and worked.snapshot.version != snapshot.version
            is_hopeless = tree is None and self._trees.why_none(snapshot.doc_id) not in ("", NOT_YET)
            if is_old or is_hopeless or (tree is not None and tree.is_current):
                break
            await asyncio.sleep(_TREE_S)
        loop = asyncio.get_running_loop()
        if tree is not None:
            return await loop.run_in_executor(self._pool, _symbols_of, tree, snapshot.text)
        return rough_symbols(snapshot, offset, None if self._index is None else await self._index.symbols_in(snapshot.doc_id))


def _symbols_of(tree: SyntaxTree, text: Text) -> FileSymbols:
    return symbols_of_tree(tree, text.bytes())


def _moved(focus: Focus, edits: tuple[Edit, ...]) -> Focus:
    start, end = focus.start, focus.end
    for edit in edits:
        grown = len(edit.new) - (edit.end - edit.start)
        if edit.end <= start and edit.start < start:
            start, end = start + grown, end + grown
        elif edit.start <= end:
            end = max(end + grown, start)
    return Focus(start, end, focus.name)
