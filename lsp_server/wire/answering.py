"""Every request is answered exactly once, whatever becomes of its handler.

Owns the requests not answered yet, the tasks that run, and the encoding of what is sent. What a fault of ours says never holds
the user's text: the client and the log are told its type, details are logged at DEBUG.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from functools import partial
from typing import Any

from cattrs import Converter
from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcRequestCancelled
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol

log = logging.getLogger(__name__)

MsgId = int | str


class Answering(LanguageServerProtocol):
    def __init__(self, server: LanguageServer, converter: Converter) -> None:
        self._unanswered: set[MsgId] = set()
        self._running: dict[MsgId, asyncio.Future[Any]] = {}
        self._background: set[asyncio.Future[Any]] = set()  # of notifications; the loop itself holds tasks only weakly
        self._said: set[str] = set()
        super().__init__(server, converter)

    async def drain(self, seconds: float) -> None:
        """Cancel what still runs and answer it; what does not end in that time is answered without waiting for it."""
        tasks = [*self._running.values(), *self._background]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
            await asyncio.sleep(0)
        for msg_id in list(self._unanswered):
            self._send_response(msg_id, error=JsonRpcRequestCancelled().to_response_error())

    def _answer_with(self, msg_id: MsgId, method: str, result: Any) -> None:
        """A handler's result: the answer, or something to await for it."""
        if not inspect.isawaitable(result):
            self._send_response(msg_id, result)
            return
        task = asyncio.ensure_future(result)
        self._running[msg_id] = task
        task.add_done_callback(partial(self._finish, msg_id, method))

    def _see_through(self, method: str, result: Any) -> None:
        """The same for a notification: nobody waits for it, but its faults are logged."""
        if inspect.isawaitable(result):
            task = asyncio.ensure_future(result)
            self._background.add(task)
            task.add_done_callback(partial(self._check, method))

    def _finish(self, msg_id: MsgId, method: str, task: asyncio.Future[Any]) -> None:
        self._running.pop(msg_id, None)
        if task.cancelled():
            self._send_response(msg_id, error=JsonRpcRequestCancelled().to_response_error())
        elif (error := task.exception()) is not None:
            self._fail(msg_id, method, error)
        else:
            self._send_response(msg_id, task.result())

    def _check(self, method: str, task: asyncio.Future[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._report(method, error)

    def _fail(self, msg_id: MsgId, method: str, error: BaseException) -> None:
        """An error that we raise on purpose is an ordinary answer; any other one is a fault of ours, told by its type."""
        if not isinstance(error, JsonRpcException):
            self._report(method, error)
            error = JsonRpcException(f"internal error: {type(error).__name__}")
        self._send_response(msg_id, error=error.to_response_error())

    def _report(self, method: str, error: BaseException) -> None:
        log.error("%s failed: %s", method, type(error).__name__)
        log.debug("details", exc_info=error)

    def _say(self, sentence: str) -> None:
        """A warning, the first time."""
        log.log(logging.DEBUG if sentence in self._said else logging.WARNING, "%s", sentence)
        self._said.add(sentence)

    def _send_response(self, msg_id: MsgId, result: Any = None, error: types.ResponseError | None = None) -> None:
        if msg_id not in self._unanswered:
            return
        self._unanswered.discard(msg_id)
        try:
            answer = response(msg_id, self._converter.unstructure(result), error)
            frame = self._frame(answer)
        except Exception as fault:
            self._report("encoding an answer", fault)
            error = types.ResponseError(code=JsonRpcException.CODE, message="internal error: the result can't be encoded")
            frame = self._frame(response(msg_id, error=error))
        self._write(frame)

    def _send_data(self, data: Any) -> None:
        """Where pygls's `notify` and `send_request` end."""
        try:
            frame = self._frame(data)
        except Exception as fault:
            self._report("encoding a message", fault)
            return
        self._write(frame)

    def _frame(self, data: Any) -> bytes:
        # NaN and infinity are not JSON: clients would drop the connection.
        body = json.dumps(data, default=self._serialize_message, allow_nan=False, separators=(",", ":")).encode()
        return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)

    def _write(self, frame: bytes) -> None:
        if self.writer is not None:
            self.writer.write(frame)


def response(msg_id: MsgId, result: Any = None, error: types.ResponseError | None = None) -> dict[str, Any]:
    """A response with the id as it came: pygls may turn "7" into 7."""
    head: dict[str, Any] = {"jsonrpc": "2.0", "id": msg_id}
    if error is None:
        return {**head, "result": result}
    return {**head, "error": {"code": error.code, "message": error.message}}
