"""The completion heart as the shell sees it (`lsp_server.types.Completer`): the sessions of all documents, and what they share.

Answers empty, with a reason, until `attach` brings an engine.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor

from context.text import Edit
from context.tokens import TokenTable
from context.types import DocumentSnapshot, FileName
from inference.clients.base import EngineClient
from inference.types import EngineError
from lsp_server.config import Config
from lsp_server.desk import Desk, TimedTokenizer
from lsp_server.learning.learned import Learned
from lsp_server.learning.outcome import Said
from lsp_server.plans.called_names import CalledNames
from lsp_server.plans.dressing import Dressing, placed
from lsp_server.plans.inquiry import Index
from lsp_server.plans.layouts import NO_NAME, choose_layout, file_name
from lsp_server.plans.planning import Planner
from lsp_server.plans.references import LATE_S, References
from lsp_server.session import Session
from lsp_server.trace import Phases, Record, Trace
from lsp_server.trees import Trees
from lsp_server.types import Completion, CompletionQuery
from lsp_server.warm.allowance import Allowance
from lsp_server.warm.power import Power
from lsp_server.warm.warmup import WarmUp

logger = logging.getLogger(__name__)
_QUOTED_BYTES = 4 << 20  # what the tokens of other files may take


class Completions:
    """pool: for planning; None = a thread of its own. power: tells whether the machine runs on its battery. index: what is
    known of the workspace's code; None: prompts hold the document alone. fill: prompts use all of their tokens, for benches."""

    def __init__(
        self,
        config: Config,
        clock: Callable[[], float] = time.monotonic,
        pool: Executor | None = None,
        power: Power | None = None,
        index: Index | None = None,
        *,
        fill: bool = False,
    ) -> None:
        self._config = config
        self._fill = fill
        self._clock = clock
        self._client: EngineClient | None = None
        self._desk: Desk | None = None
        self._sessions: dict[str, Session] = {}
        self._pool = pool or ThreadPoolExecutor(1, thread_name_prefix="plan")
        self._paused_until: float | None = None
        self._allowance = Allowance(power or Power(clock, executor=pool))
        self._warm_up = WarmUp(
            clock, lambda: self._desk, self._session, self._why_cold, lambda: self._is_answering, self._rest_others, self._look
        )
        self._n_asked = self._n_offered = 0
        self.trace = Trace()
        self.trees = Trees(pool)
        self._learned = Learned(clock, self.trees)
        self.references = References(index, self.trees, clock, lambda doc: self.why_private(doc), lambda: self.roots(), pool)
        self._names = CalledNames(index, clock)
        self.not_ready = "the model is still loading"
        self.on_thinking: Callable[[bool, str], None] = lambda busy, reason: None
        self.on_needed: Callable[[], None] = lambda: None  # a request came while there is no engine
        self.roots: Callable[[], Sequence[str]] = lambda: ()  # paths of the workspace folders
        self.why_private: Callable[[str], str] = lambda doc_id: ""  # why a document may not be used, or ""

    @property
    def client(self) -> EngineClient | None:
        return self._client

    def attach(self, client: EngineClient) -> None:
        """The engine is there, in place of the one before. EngineError: its model can't do the layout that is set; another
        setting may bring it in."""
        self._leave_sessions()
        self._client = client
        self._tokenizer = TimedTokenizer(client.vocab.encode, self._clock)
        self._table = TokenTable(self._tokenizer, client.vocab.pre_type, client.vocab.pieces)
        self._other_table = self._table.sibling(client.vocab, max_bytes=_QUOTED_BYTES)
        self._set_out()
        self._warm_up.again()

    def detach(self, why: str) -> None:
        """There is no engine any more. What runs is ended by the client, when it is closed."""
        self._warm_up.stop()
        self._leave_sessions()
        self._client, self._desk, self.not_ready = None, None, why

    def refresh(self) -> None:
        """The client works with another engine of the same model now, which may have other limits. Never raises."""
        for session in self._sessions.values():
            session.forget_plan()
        with contextlib.suppress(EngineError):  # it could do the layout before
            self._set_out()

    def _leave_sessions(self) -> None:
        """Nothing of them is good for another engine. Those that answer somebody end with their streams."""
        self._learned.results.forget()
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            if not session.is_answering:
                session.close()

    def configure(self, config: Config) -> None:
        """New settings. Never raises: a layout that this model has no way to do silences it, with the reason."""
        if config == self._config and self._desk is not None:
            return
        self._config = config
        for session in self._sessions.values():
            session.forget_plan()
        try:
            self._set_out()
            self._warm_up.again()
        except EngineError as error:
            self._warm_up.stop()
            logger.error("%s", error)

    def _set_out(self) -> None:
        """What sessions work with, for the settings and the client as they are now."""
        self._learned.forget(self._config.server.result_cache_bytes)
        if self._client is None:
            return
        config = self._config
        try:
            layout = choose_layout(config.context.layout, self._client.vocab, self._client.model_name)
        except EngineError as error:
            self._desk, self.not_ready = None, str(error)
            raise
        layout = placed(layout, config.context)
        is_on = config.context.references and config.server.index and self.references.has_index
        outlook = self.references.outlook if is_on else None
        planner = Planner(
            self._client, self._table, layout, config.context, config.server.max_tokens, self._name_of, outlook, fill=self._fill
        )  # fmt: skip
        self.references.use(Dressing.of(self._other_table, planner, layout, config.context) if is_on else None)
        self._desk = Desk(
            self._client, planner, self._tokenizer, config, self._clock, self._pool, self._allowance, self._learned, self.trees,
            self._names if config.server.index else CalledNames(None, self._clock),
        )  # fmt: skip

    async def _look(self, snapshot: DocumentSnapshot, offset: int | None) -> bool:
        await self.references.look(snapshot, offset, LATE_S)
        return self.references.is_on

    async def found(self, snapshot: DocumentSnapshot, offset: int) -> None:
        """What the workspace says about a place is known, and the next prompt there holds it. For whoever wants no request
        without."""
        await self.references.look(snapshot, offset)

    def look_again(self, *, forget: bool) -> None:
        """The index knows more; or (forget) other files may be used now, and what was found before is not used any more."""
        if self.references.is_on:
            self.references.ask_again()
            if forget:
                self.references.forget()
                for session in self._sessions.values():
                    session.forget_plan()
            self._warm_up.again()

    def _name_of(self, doc_id: str) -> FileName:
        return file_name(doc_id, self.roots()) if self._config.context.file_header else NO_NAME

    def _session(self, doc_id: str) -> Session:
        return self._sessions.setdefault(doc_id, Session(self._learned.outcomes.tell))

    def opened(self, snapshot: DocumentSnapshot) -> None:
        self.closed(snapshot.doc_id)
        self.trees.opened(snapshot)
        self.references.opened(snapshot)
        self._session(snapshot.doc_id).opened(snapshot)
        self._warm_up.opened(snapshot)

    def changed(self, snapshot: DocumentSnapshot, edits: tuple[Edit, ...]) -> None:
        self.trees.changed(snapshot, edits)
        self.references.changed(snapshot, edits)
        cursor = self._warm_up.changed(snapshot, edits)
        edit = self._session(snapshot.doc_id).changed(snapshot, edits, cursor, self._clock())
        self._learned.changed(snapshot, edit)

    def closed(self, doc_id: str) -> None:
        self.trees.closed(doc_id)
        self.references.closed(doc_id)
        self._warm_up.closed(doc_id)
        session = self._sessions.pop(doc_id, None)
        if session is not None:
            session.close()
        self._learned.results.forget(doc_id)

    async def complete(self, query: CompletionQuery) -> Completion:
        """Answer one request. Raises Superseded if a newer one for the same document came first."""
        doc_id = query.snapshot.doc_id
        record = Record(0, doc_id, query.offset, query.invoked, Phases(self._clock, query.received))
        record.phases.lap("read")
        self.trace.add(record)
        record.reason = self._silence()
        self._n_asked += 1
        self._learned.asked(self.roots())
        if self._client is None:
            self.on_needed()
        if self._desk is None or record.reason:
            return Completion(0, (), record.reason)
        session = self._session(doc_id)
        record.warm_up = session.ahead.note(self._clock())
        self._warm_up.asked(query)
        self._rest_others(doc_id)
        self.on_thinking(True, "")
        completion = None
        try:
            completion = await session.complete(query, self._desk, record)
            self._n_offered += bool(completion.items)
            return completion
        finally:
            if not self._is_answering:
                self.on_thinking(False, record.reason)
            self._warm_up.answered(query, completion)
            self.references.answered(query.snapshot, query.offset)
            self.references.tell(record)

    @property
    def _is_answering(self) -> bool:
        return any(session.is_answering for session in self._sessions.values())

    def _rest_others(self, doc_id: str) -> None:
        """One document at a time."""
        for other_id, other in self._sessions.items():
            if other_id != doc_id:
                other.rest()

    def _why_cold(self, snapshot: DocumentSnapshot) -> str:
        """Why nothing is to be prepared for a document, or ""."""
        if snapshot.language in self._config.server.languages_off:
            return f"the setting languages_off names {snapshot.language}"
        return self._silence() or self.why_private(snapshot.doc_id)

    def _silence(self) -> str:
        """Why nothing can be answered now, or ""."""
        if self._desk is None:
            return self.not_ready
        if not self._config.server.enabled:
            return "midfill is switched off by the setting enabled"
        return "paused" if self.is_paused else ""

    def counts(self) -> dict[str, object]:
        """Requests so far, how many of them were offered something, and what became of that, by language and shape."""
        for session in self._sessions.values():
            session.following.passed(self._clock())
        return {"requests": self._n_asked, "offered": self._n_offered, "outcomes": self._learned.outcomes.counts()}

    def accepted(self, request_id: int) -> None:
        self.told(request_id, Said.ACCEPTED)
        self._warm_up.accepted()

    def told(self, request_id: int, what: Said) -> None:
        """The client says what was done with the item of a request."""
        for session in self._sessions.values():
            session.following.confirmed(request_id, what, self._clock())

    def explain(self) -> dict[str, object]:
        last = self.trace.last
        return last.as_dict() if last is not None else {"reason": self._silence() or "nothing was asked yet"}

    def pause(self, minutes: float | None) -> None:
        self._paused_until = self._clock() + minutes * 60 if minutes else None
        if not minutes:
            self._warm_up.again()
            return
        self._warm_up.stop()
        for session in self._sessions.values():
            session.ahead.stop()
            session.prefetch.stop()

    @property
    def is_paused(self) -> bool:
        return self._paused_until is not None and self._clock() < self._paused_until

    async def aclose(self, *, engine: bool = True) -> None:
        """engine: the client's, too; false where others use it."""
        self._warm_up.stop()
        for doc_id in list(self._sessions):
            self.closed(doc_id)
        if engine and self._client is not None:
            await self._client.aclose()
        self.references.close()
        self.trees.close()
        self._pool.shutdown(wait=False, cancel_futures=True)
