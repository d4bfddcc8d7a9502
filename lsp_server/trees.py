"""Syntax trees of the open documents.

Owns which tree each document has, and when it is made. A document gets one when it is first edited or its tree is first asked
for. An edit moves the tree along at once, which costs next to nothing; the parser works in a thread, for at most one document
at a time, and what the newest text makes useless is given up. Until it is done the last good tree serves, moved. Lives on the
event loop; without one there are no trees. Refuses to say what a tree means.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from context.grammars import has_grammar, why_no_grammar
from context.syntax import NoTree, SyntaxTree, parse
from context.text import Edit
from context.types import DocumentSnapshot

log = logging.getLogger(__name__)

PARSE_AFTER_S = 0.03  # after an edit: the completion that it asks for comes first, and a burst is parsed once
EXACT_AFTER_S = 0.5  # after the last edit: then the whole text is parsed, for now and then a tree depends on the one before
_BYTES_PER_S = 400_000  # a long text waits longer, so that this takes a twentieth of the time at most
MOST_PATIENCE_S = 60.0  # between attempts at a document that is too hard to parse
NOT_YET = "not parsed yet"
MAX_TREES = 24  # kept at a time; what is longest unused is made again when it is asked for
# The parser holds the interpreter's lock. About once in a millisecond it lets the event loop have it.
_CALLS_BETWEEN_PAUSES = 32
_PAUSE_S = 0.0001


@dataclass(slots=True)
class _Job:
    """A parse in the thread. since: the edits after the text that it parses. is_over: nobody wants its result any more."""

    since: list[Edit] = field(default_factory=list)
    is_over: bool = False


@dataclass(slots=True, eq=False)
class _Open:
    snapshot: DocumentSnapshot
    tree: SyntaxTree | None = None
    reason: str = NOT_YET
    job: _Job | None = None
    timer: asyncio.TimerHandle | None = None
    patience_s: float = 0.0  # to wait longer, after an attempt that led nowhere
    is_closed: bool = False


class Trees:
    """pool: one thread; None = a thread of its own. pause: how a parse lets others go on (tests need none)."""

    def __init__(self, pool: Executor | None = None, pause: Callable[[float], None] = time.sleep) -> None:
        self._pool = pool
        self._pause = pause
        self._documents: dict[str, _Open] = {}
        self._used: OrderedDict[str, None] = OrderedDict()  # documents with a tree, the one used last at the end
        self._told: set[str] = set()
        self.n_parsed = self.n_given_up = 0

    def opened(self, snapshot: DocumentSnapshot) -> None:
        self.closed(snapshot.doc_id)
        self._documents[snapshot.doc_id] = _Open(snapshot)

    def changed(self, snapshot: DocumentSnapshot, edits: tuple[Edit, ...]) -> None:
        """edits lead from the text last reported to the snapshot's, each in the coordinates of the text before it."""
        document = self._documents.get(snapshot.doc_id)
        if document is None:
            self.opened(snapshot)
            document = self._documents[snapshot.doc_id]
        document.snapshot = snapshot
        if document.tree is not None:
            document.tree = document.tree.edited(edits, snapshot.text)
        if document.job is not None:
            document.job.since += edits
            # A first tree is worth waiting for: it is moved along. Any other is made of the newest text instead.
            document.job.is_over = document.tree is not None
        self._parse_after(document, PARSE_AFTER_S)

    def closed(self, doc_id: str) -> None:
        document = self._documents.pop(doc_id, None)
        if document is not None:
            self._forget(document)
            document.is_closed = True
            if document.job is not None:
                document.job.is_over = True

    def of(self, snapshot: DocumentSnapshot) -> SyntaxTree | None:
        """The tree of a snapshot, perhaps moved along with the last edits (`is_current`); None while there is none, or none for
        that version any more. Asking makes one, for the next time."""
        document = self._documents.get(snapshot.doc_id)
        if document is None or document.snapshot.version != snapshot.version:
            return None
        if document.tree is None:
            if document.reason == NOT_YET:
                self._parse_after(document, 0.0)
            return None
        self._used.move_to_end(snapshot.doc_id)
        return document.tree

    def why_none(self, doc_id: str) -> str:
        """Why a document has no tree, or ""."""
        document = self._documents.get(doc_id)
        return "not open" if document is None else "" if document.tree is not None else document.reason

    def close(self) -> None:
        for doc_id in list(self._documents):
            self.closed(doc_id)
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _parse_after(self, document: _Open, delay: float) -> None:
        """Unless a parse is due anyway: someone who types on and on gets trees meanwhile."""
        language = document.snapshot.language
        if not has_grammar(language):
            document.reason = why_no_grammar(language)
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        delay = max(delay, document.patience_s)
        if document.timer is None or document.timer.when() > loop.time() + delay:
            if document.timer is not None:
                document.timer.cancel()
            document.timer = loop.call_later(delay, self._start, document)

    def _start(self, document: _Open) -> None:
        document.timer = None
        if document.is_closed or document.job is not None:
            return  # what runs starts the next one when it is done
        tree, snapshot = document.tree, document.snapshot
        if tree is not None and tree.is_exact:
            return
        job = document.job = _Job()
        goes_on = partial(self._goes_on, job, [0])
        if tree is None:
            work = partial(parse, snapshot.language, snapshot.text, goes_on)
        else:
            work = partial(tree.exact if tree.is_current else tree.parsed, goes_on)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="parse")
        try:
            future = asyncio.get_running_loop().run_in_executor(self._pool, work)
        except RuntimeError:  # it was shut down
            document.job = None
            return
        future.add_done_callback(partial(self._finish, document, job))

    def _goes_on(self, job: _Job, calls: list[int]) -> bool:
        """In the thread."""
        calls[0] += 1
        if calls[0] % _CALLS_BETWEEN_PAUSES == 0:
            self._pause(_PAUSE_S)
        return not job.is_over

    def _finish(self, document: _Open, job: _Job, future: asyncio.Future[SyntaxTree | NoTree]) -> None:
        document.job = None
        if document.is_closed or future.cancelled():
            return
        error = future.exception()
        if error is not None:
            log.error("a document could not be parsed: %s", type(error).__name__)
            document.reason = "its parser failed"
            return
        made = future.result()
        if isinstance(made, SyntaxTree):
            self.n_parsed += 1
            self._keep(document, made.edited(job.since, document.snapshot.text))
        elif made.ended:
            self.n_given_up += 1
        else:
            self._forget(document)
            document.reason = made.reason
            document.patience_s = min(max(2 * document.patience_s, 1.0), MOST_PATIENCE_S)
            self._tell(made.reason, document.snapshot.language)
            return
        if document.tree is None or not document.tree.is_current:
            self._parse_after(document, PARSE_AFTER_S)
        elif not document.tree.is_exact:
            self._parse_after(document, EXACT_AFTER_S + len(document.tree.text) / _BYTES_PER_S)

    def _keep(self, document: _Open, tree: SyntaxTree) -> None:
        document.tree, document.reason, document.patience_s = tree, "", 0.0
        self._used[document.snapshot.doc_id] = None
        self._used.move_to_end(document.snapshot.doc_id)
        while len(self._used) > MAX_TREES:
            self._forget(self._documents[next(iter(self._used))])

    def _forget(self, document: _Open) -> None:
        document.tree, document.reason = None, NOT_YET
        self._used.pop(document.snapshot.doc_id, None)
        if document.timer is not None:
            document.timer.cancel()
            document.timer = None

    def _tell(self, reason: str, language: str) -> None:
        """A grammar that is missing or does not fit: once per language."""
        if reason == why_no_grammar(language) and reason not in self._told:
            self._told.add(reason)
            log.warning("%s", reason)
