"""What the server is doing, for the editor: `midfill/status` notifications, and work-done progress while a model comes.

Owns the last state and the progress token. Nothing here waits for the client: a progress begins when the client has agreed to
its token, and if it never answers there is none. Refuses to know why a state changes.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from itertools import count

from lsprotocol import types

from lsp_server.wire.protocol import Server

log = logging.getLogger(__name__)

METHOD = "midfill/status"


class State(StrEnum):
    STARTING = "starting"
    DOWNLOADING = "downloading"
    LOADING = "loading"
    READY = "ready"
    THINKING = "thinking"
    PAUSED = "paused"
    ERROR = "error"


_WITH_PROGRESS = frozenset({State.DOWNLOADING, State.LOADING})


@dataclass(frozen=True, slots=True)
class News:
    """message: one sentence for people. percent: 0..100 of a download or load. reason: why nothing was shown."""

    state: State
    message: str = ""
    percent: int | None = None
    reason: str = ""

    def as_params(self) -> dict[str, object]:
        params: dict[str, object] = {"state": self.state.value, "message": self.message}
        if self.percent is not None:
            params["percent"] = self.percent
        if self.reason:
            params["reason"] = self.reason
        return params


class Status:
    """Call `begin` when the client has said `initialized`: before that nothing may be sent to it, and the last state waits."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._news = News(State.STARTING, "starting")
        self._is_begun = False
        self._progress: _Progress | None = None
        self._tokens = count(1)
        self._indexing: int | None = None
        self._index_progress: _Progress | None = None

    @property
    def news(self) -> News:
        return self._news

    def begin(self) -> None:
        self._is_begun = True
        self._tell()

    def set(self, state: State, message: str = "", percent: float | None = None, reason: str = "") -> None:
        """Tell the client unless it knows already. percent is cut to whole numbers from 0 to 100. On the event loop only."""
        news = News(state, message, None if percent is None else min(max(int(percent), 0), 100), reason)
        if news == self._news:
            return
        self._news = news
        if self._is_begun:
            self._tell()

    def index(self, percent: int | None) -> None:
        """How far the workspace is indexed; None: nobody has to know any more. Beside the state, which it does not change."""
        if percent == self._indexing:
            return
        self._indexing = percent
        if not self._is_begun:
            return
        self._notify()
        news = News(self._news.state, "indexing the workspace", percent)
        if percent is None:
            if self._index_progress is not None:
                self._index_progress.end("the workspace is indexed")
            self._index_progress = None
        elif self._index_progress is not None:
            self._index_progress.show(news)
        elif self._can_progress():
            self._index_progress = _Progress(self._server, f"midfill-{next(self._tokens)}", news)

    def _notify(self) -> None:
        params = self._news.as_params()
        self._server.protocol.notify(METHOD, params if self._indexing is None else {**params, "indexing": self._indexing})

    def _tell(self) -> None:
        self._notify()
        if self._news.state in _WITH_PROGRESS:
            if self._progress is None and self._can_progress():
                self._progress = _Progress(self._server, f"midfill-{next(self._tokens)}", self._news)
            elif self._progress is not None:
                self._progress.show(self._news)
        elif self._progress is not None:
            self._progress.end(self._news.message)
            self._progress = None

    def _can_progress(self) -> bool:
        window = self._server.protocol.client_capabilities.window
        return window is not None and bool(window.work_done_progress)


class _Progress:
    """One progress. Until the client has agreed, only the latest news is remembered."""

    def __init__(self, server: Server, token: str, news: News) -> None:
        self._protocol = server.protocol
        self._token = token
        self._news: News | None = news  # None: it has ended
        self._is_agreed = False
        asked: Future[object] = self._protocol.send_request(
            types.WINDOW_WORK_DONE_PROGRESS_CREATE, types.WorkDoneProgressCreateParams(token=token)
        )
        asked.add_done_callback(self._answered)

    def show(self, news: News) -> None:
        self._news = news
        if self._is_agreed:
            self._send(types.WorkDoneProgressReport(message=news.message, percentage=news.percent))

    def end(self, message: str) -> None:
        self._news = None
        if self._is_agreed:
            self._send(types.WorkDoneProgressEnd(message=message))

    def _answered(self, asked: Future[object]) -> None:
        if asked.cancelled() or asked.exception() is not None or self._news is None:
            return
        self._is_agreed = True
        self._send(
            types.WorkDoneProgressBegin(
                title="midfill", message=self._news.message, percentage=self._news.percent, cancellable=False
            )
        )

    def _send(self, value: types.WorkDoneProgressBegin | types.WorkDoneProgressReport | types.WorkDoneProgressEnd) -> None:
        self._protocol.notify(types.PROGRESS, types.ProgressParams(token=self._token, value=value))
