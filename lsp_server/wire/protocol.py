"""Which messages are taken, in which order of life, and by whom (`answering` sees to what goes back).

pygls keeps the registry of handlers, the (de)serializer, the capability builder and its own requests. Its dispatch, its
document workspace and its error reports are not used: they leave invalid requests unanswered, keep a second copy of every
text, and show tracebacks and bodies to logs and users. Refuses to know what a completion is.
"""

from __future__ import annotations

import contextvars
import json
import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeGuard

from cattrs import Converter
from lsprotocol import types
from pygls.capabilities import ServerCapabilitiesBuilder
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcMethodNotFound,
    JsonRpcServerNotInitialized,
)
from pygls.lsp.server import LanguageServer
from pygls.protocol import default_converter, lsp_method

from lsp_server.wire.answering import Answering, MsgId, response
from lsp_server.wire.tolerance import mend_change, mend_initialize

log = logging.getLogger(__name__)

_MENDERS: dict[str, Callable[[Any], Any]] = {
    types.TEXT_DOCUMENT_DID_CHANGE: mend_change,
    types.INITIALIZE: mend_initialize,
}
# Nothing depends on what clients put into these.
_WITHOUT_PARAMS = frozenset({types.INITIALIZED, types.SHUTDOWN, types.EXIT})

_received: contextvars.ContextVar[float] = contextvars.ContextVar("received", default=0.0)


def silence_pygls() -> None:
    """pygls logs whole message bodies, at INFO and above. What is worth a line is logged here instead."""
    logging.getLogger("pygls").setLevel(logging.CRITICAL)


class ShellProtocol(Answering):
    """Messages in (`feed`), answers out. All of it on the event loop; `notify` may be called from any thread."""

    # pygls's built-in handlers for these feed its workspace or run as generators that are never forgotten. Without them a
    # handler registered by `server.feature` is called directly.
    lsp_initialized = None  # type: ignore[assignment]
    lsp_text_document__did_open = None  # type: ignore[assignment]
    lsp_text_document__did_change = None  # type: ignore[assignment]
    lsp_text_document__did_close = None  # type: ignore[assignment]
    lsp_notebook_document__did_open = None  # type: ignore[assignment]
    lsp_notebook_document__did_change = None  # type: ignore[assignment]
    lsp_notebook_document__did_close = None  # type: ignore[assignment]
    lsp_workspace__did_change_workspace_folders = None  # type: ignore[assignment]
    lsp_work_done_progress_cancel = None  # type: ignore[assignment]
    lsp_set_trace = None  # type: ignore[assignment]

    def __init__(self, server: LanguageServer, converter: Converter) -> None:
        self._is_initialized = False
        self._on_exit: Callable[[int], None] = lambda _code: None
        self._on_client: Callable[[int], None] = lambda _pid: None
        self.on_unreadable: Callable[[str, Any], None] = lambda _method, _params: None
        self.encoding = types.PositionEncodingKind.Utf16.value
        super().__init__(server, converter)

    # --- the wire's side (lsp_server.wire.stdio.Peer)

    def connect(self, writer: Any, *, on_exit: Callable[[int], None], on_client: Callable[[int], None]) -> None:
        self.set_writer(writer)
        self._on_exit = on_exit
        self._on_client = on_client

    @property
    def code_at_end(self) -> int:
        return 0 if self._shutdown else 1

    @property
    def is_initialized(self) -> bool:
        return self._is_initialized

    @property
    def received(self) -> float:
        """When the message being handled was read from the client, in loop.time() seconds."""
        return _received.get()

    def feed(self, body: bytes, received: float) -> None:
        """Take one message. Never raises: a message that can't be handled is answered or passed over."""
        try:
            data = json.loads(body)
        except (ValueError, RecursionError):
            self._say("a message that is not JSON was passed over")
            return
        if not isinstance(data, dict):
            self._say("a message that is not an object was passed over")
            return
        # Each message in a context of its own, so that tasks begun by it keep its time of arrival.
        context = contextvars.copy_context()
        context.run(_received.set, received)
        context.run(self._take, data)

    # --- taking messages

    def _take(self, data: dict[str, Any]) -> None:
        method, msg_id = data.get("method"), data.get("id")
        if isinstance(method, str) and msg_id is None:
            self._take_notification(method, data)
        elif not _is_id(msg_id):
            self._say("a message without a usable id was passed over")
        elif isinstance(method, str):
            self._take_request(msg_id, method, data)
        else:
            self._take_answer(msg_id, data)

    def _take_request(self, msg_id: MsgId, method: str, data: dict[str, Any]) -> None:
        if msg_id in self._unanswered:
            error: JsonRpcException = JsonRpcInvalidRequest("this id belongs to a request that is not answered yet")
            self._send_data(response(msg_id, error=error.to_response_error()))
            return
        self._unanswered.add(msg_id)
        try:
            self._check_order(method)
            handler = self._get_handler(method)
            result = handler(self._params(method, data))
        except Exception as error:
            self._fail(msg_id, method, error)
            return
        self._answer_with(msg_id, method, result)

    def _take_notification(self, method: str, data: dict[str, Any]) -> None:
        if method == types.CANCEL_REQUEST:
            self._cancel(data.get("params"))
            return
        handler = self.fm.builtin_features.get(method) or self.fm.features.get(method)
        is_early = not self._is_initialized or self._shutdown
        if handler is None or (is_early and method != types.EXIT):
            return
        try:
            params = self._params(method, data)
        except JsonRpcInvalidParams:
            self._say(f"a {method} notification with invalid parameters was passed over")
            self.on_unreadable(method, data.get("params"))
            return
        try:
            result = handler(params)
        except Exception as error:
            self._report(method, error)
            return
        self._see_through(method, result)

    def _take_answer(self, msg_id: MsgId, data: dict[str, Any]) -> None:
        """An answer to a request of ours. Unknown, repeated or too late (its future was cancelled): passed over."""
        future: Future[Any] | None = self._request_futures.pop(msg_id, None)
        result_type = self._result_types.pop(msg_id, None)
        if future is None or future.done():
            return
        error = data.get("error")
        if error is not None:
            code = error.get("code") if isinstance(error, dict) else None
            future.set_exception(JsonRpcException("the client refused", code if isinstance(code, int) else None))
            return
        try:
            result = self._converter.structure(data, result_type).result if result_type else data.get("result")
        except Exception as fault:
            future.set_exception(JsonRpcException(f"the client's answer can't be read: {type(fault).__name__}"))
            return
        future.set_result(result)

    def _check_order(self, method: str) -> None:
        """The life cycle that the specification prescribes, as errors."""
        if self._shutdown:
            raise JsonRpcInvalidRequest("the server is shutting down")
        if method == types.INITIALIZE and self._is_initialized:
            raise JsonRpcInvalidRequest("already initialized")
        if method != types.INITIALIZE and not self._is_initialized and method != types.SHUTDOWN:
            raise JsonRpcServerNotInitialized("initialize comes first")

    def _get_handler(self, method: str) -> Callable[[Any], Any]:
        handler: Callable[[Any], Any] | None = self.fm.builtin_features.get(method) or self.fm.features.get(method)
        if handler is None:
            raise JsonRpcMethodNotFound.of(method)
        return handler

    def _params(self, method: str, data: dict[str, Any]) -> Any:
        """Typed parameters of a method that the specification knows, else as they came."""
        if method in _WITHOUT_PARAMS:
            return None
        message_type = self.get_message_type(method)
        if message_type is None:
            return data.get("params")
        try:
            return self._converter.structure(data, message_type).params
        except Exception:
            mend = _MENDERS.get(method)
        try:
            if mend is not None:
                return self._converter.structure({**data, "params": mend(data.get("params"))}, message_type).params
        except Exception:
            log.debug("parameters can't be mended", exc_info=True)
        raise JsonRpcInvalidParams(f"invalid parameters for {method}")

    def _cancel(self, params: Any) -> None:
        msg_id = params.get("id") if isinstance(params, dict) else None
        task = self._running.get(msg_id) if _is_id(msg_id) else None
        if task is not None:
            task.cancel()

    # --- the methods that belong to the protocol itself

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> types.InitializeResult:  # type: ignore[override]
        self.client_capabilities = params.capabilities
        self._is_initialized = True
        chosen = ServerCapabilitiesBuilder.choose_position_encoding(params.capabilities)
        self.encoding = chosen.value if isinstance(chosen, types.PositionEncodingKind) else chosen
        handler = self.fm.features.get(types.INITIALIZE)
        if handler is not None:
            try:
                handler(params)
            except Exception as error:  # a server without its settings is better than none
                self._report(types.INITIALIZE, error)
        self.server_capabilities = ServerCapabilitiesBuilder(
            params.capabilities,
            {*self.fm.features, *self.fm.builtin_features},
            self.fm.feature_options,
            list(self.fm.commands),
            self._server._text_document_sync_kind,
            None,
            chosen,
        ).build()  # type: ignore[no-untyped-call]
        if params.process_id is not None:
            self._on_client(params.process_id)
        return types.InitializeResult(capabilities=self.server_capabilities, server_info=self.server_info)

    @lsp_method(types.SHUTDOWN)
    def lsp_shutdown(self, _params: Any = None) -> None:  # type: ignore[override]
        """Answered at once; everything that runs is cancelled, and answered so."""
        self._shutdown = True
        for task in (*self._running.values(), *self._background):
            task.cancel()
        for future in list(self._request_futures.values()):
            future.cancel()

    @lsp_method(types.EXIT)
    def lsp_exit(self, _params: Any = None) -> None:  # type: ignore[override]
        self._on_exit(self.code_at_end)

    @lsp_method(types.WORKSPACE_EXECUTE_COMMAND)
    def lsp_workspace__execute_command(self, params: types.ExecuteCommandParams) -> Any:
        """Unlike pygls's: arguments are passed as they came, and cancelling ends the command itself."""
        command: Callable[..., Any] | None = self.fm.commands.get(params.command)
        if command is None:
            raise JsonRpcInvalidParams("no such command")
        return command(*(params.arguments or ()))


class Server(LanguageServer):
    """pygls's server with our protocol. Errors are never shown to the user as pop-ups."""

    protocol: ShellProtocol

    def report_server_error(self, error: Exception, _source: Any) -> None:
        log.error("pygls reports %s", type(error).__name__)
        log.debug("details", exc_info=error)


def make_server(version: str) -> Server:
    silence_pygls()
    return Server(
        "midfill",
        version,
        types.TextDocumentSyncKind.Incremental,
        protocol_cls=ShellProtocol,
        converter_factory=default_converter,
    )


def _is_id(value: Any) -> TypeGuard[MsgId]:
    return isinstance(value, (int, str)) and not isinstance(value, bool)
