"""One short function per LSP method, and the settings of this connection.

Owns the wiring between the protocol and the rest: nothing here thinks. Document notifications run at once and in order. A
completion's text is fixed when its request is taken, not when its task begins, so that a change behind it in the pipe can't
slip in. Whatever fails in a completion becomes an empty list with a reason.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcContentModified, JsonRpcInvalidParams

from lsp_server import config as settings
from lsp_server import convert, forms, plain_completion
from lsp_server.documents import DocumentStore, Update
from lsp_server.forms import Form, Listed, Params
from lsp_server.status import State, Status
from lsp_server.types import Completer, CompletionQuery, Superseded
from lsp_server.uris import document_id, path_of
from lsp_server.wire.protocol import Server
from lsp_server.wire.tolerance import named_document
from lsp_server.workspace import IGNORE_FILE, Exclusion

log = logging.getLogger(__name__)

CONFIGURATION_WAIT_S = 2.0  # a client may never answer


def register(
    server: Server,
    completer: Completer,
    store: DocumentStore,
    exclusion: Exclusion,
    status: Status,
    sources: settings.Sources,
    on_started: Callable[[settings.Config], None] = lambda _config: None,
) -> Room:
    """Bind every method. on_started is called once, when the settings are known as well as they will be: the time to load a
    model. Returns what holds the settings."""
    room = Room(server, completer, store, exclusion, status, sources, on_started)
    features: dict[str, Callable[..., Any]] = {
        types.INITIALIZE: room.initialize,
        types.INITIALIZED: room.initialized,
        types.WORKSPACE_DID_CHANGE_CONFIGURATION: room.did_change_configuration,
        types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: room.did_change_workspace_folders,
        types.TEXT_DOCUMENT_DID_OPEN: room.did_open,
        types.TEXT_DOCUMENT_DID_CHANGE: room.did_change,
        types.TEXT_DOCUMENT_DID_CLOSE: room.did_close,
        types.TEXT_DOCUMENT_DID_SAVE: room.did_save,
        types.TEXT_DOCUMENT_INLINE_COMPLETION: room.inline_completion,
    }
    # pygls advertises inline completion only if it is registered with options
    options = {types.TEXT_DOCUMENT_INLINE_COMPLETION: types.InlineCompletionOptions()}
    for method, handler in features.items():
        server.feature(method, options.get(method))(partial(handler))  # pygls writes attributes on it: not on a bound method
    commands = {"midfill.explain": room.explain, convert.ACCEPTED_COMMAND: room.accepted, "midfill.pause": room.pause}
    for name, command in commands.items():
        server.command(name)(partial(command))
    server.protocol.on_unreadable = room.unreadable
    return room


class Room:
    def __init__(
        self,
        server: Server,
        completer: Completer,
        store: DocumentStore,
        exclusion: Exclusion,
        status: Status,
        sources: settings.Sources,
        on_started: Callable[[settings.Config], None],
    ) -> None:
        self._server = server
        self._protocol = server.protocol
        self._completer = completer
        self._store = store
        self._exclusion = exclusion
        self._status = status
        self._sources = sources
        self._on_started = on_started
        self.config, self._problems = settings.load(sources)
        self._told: tuple[str, ...] = ()
        self._roots: dict[str, None] = {}  # document ids of the workspace folders, in order
        self._is_started = False
        self._asked = 0  # how often the client was asked for its settings: only its last answer counts
        self._silence: dict[str, object] | None = None  # why the last request never reached the completer
        self.on_saved: Callable[[str], None] = lambda _doc_id: None
        self.on_rules: Callable[[], None] = lambda: None  # what may be used has changed: settings, folders, ignore files
        self._asked_uri = ""  # the document of the last request, as the client spells it

    # --- life cycle and settings

    def initialize(self, params: types.InitializeParams) -> None:
        folders = [folder.uri for folder in params.workspace_folders or ()]
        for uri in folders or [uri for uri in (params.root_uri,) if uri]:
            self._roots[document_id(uri)] = None
        self._exclusion.set_roots(list(self._roots))
        self._sources = replace(self._sources, options=params.initialization_options)
        self._apply()
        if self.config.server.completion:  # now or never: what is registered here is what the client is told of
            self._server.feature(types.TEXT_DOCUMENT_COMPLETION, plain_completion.OPTIONS)(partial(self.completion))

    def initialized(self, _params: Any) -> Awaitable[None]:
        self._status.begin()
        self._tell_problems()
        return self._start()

    async def _start(self) -> None:
        await self._ask_client()
        if not self._is_started:
            self._is_started = True
            self._on_started(self.config)

    def did_change_configuration(self, params: types.DidChangeConfigurationParams) -> Awaitable[None] | None:
        sent = params.settings
        if not isinstance(sent, dict) or settings.SECTION not in sent:
            return self._ask_client()
        self._asked += 1  # an answer still to come is older than this
        self._from_client(sent[settings.SECTION])
        return None

    def did_change_workspace_folders(self, params: types.DidChangeWorkspaceFoldersParams) -> None:
        for folder in params.event.removed:
            self._roots.pop(document_id(folder.uri), None)
        for folder in params.event.added:
            self._roots[document_id(folder.uri)] = None
        self._exclusion.set_roots(list(self._roots))
        self._withdraw()

    async def _ask_client(self) -> None:
        """workspace/configuration. Nobody waits for this; the answer is used if it comes in time."""
        workspace = self._protocol.client_capabilities.workspace
        if workspace is None or not workspace.configuration:
            return
        self._asked += 1
        turn = self._asked
        item = types.ConfigurationItem(section=settings.SECTION)
        asked = self._protocol.send_request_async(types.WORKSPACE_CONFIGURATION, types.ConfigurationParams(items=[item]))
        try:
            answer = await asyncio.wait_for(asked, CONFIGURATION_WAIT_S)
        except Exception as error:
            log.info("the client did not tell its settings: %s", type(error).__name__)
            return
        if turn == self._asked:
            self._from_client(answer[0] if answer else None)

    def _from_client(self, value: object) -> None:
        self._sources = replace(self._sources, client=value)
        restart = self._apply()
        self._tell_problems()
        later = [name for name in restart if name != "completion"]
        if later and self._is_started:
            self._show(f"{', '.join(later)}: takes effect when the server is restarted", types.MessageType.Info)
        if "completion" in restart:
            self._show(plain_completion.TOO_LATE, types.MessageType.Info)

    def _apply(self) -> tuple[str, ...]:
        """Read the sources and use what they say; the changed settings that wait for a restart."""
        config, problems = settings.load(self._sources)
        _, restart = settings.diff(self.config, config)
        self.config = config
        bad = self._exclusion.set_globs(config.server.exclude)
        self._problems = (*problems, *(f"exclude: {glob!r} is not a gitignore line" for glob in bad))
        self._store.max_bytes = config.server.max_file_bytes
        self._completer.configure(config)
        self._withdraw()
        return restart

    def _tell_problems(self) -> None:
        """In the log and to the user, each set of them once."""
        if self._problems == self._told:
            return
        self._told = self._problems
        for problem in self._problems:
            log.warning("%s", problem)
        if self._problems:
            self._show("; ".join(self._problems), types.MessageType.Warning)

    def _show(self, sentence: str, kind: types.MessageType) -> None:
        self._server.window_show_message(types.ShowMessageParams(type=kind, message=f"midfill: {sentence}"))

    # --- documents

    def did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        document = params.text_document
        self._pass_on(self._store.open(document.uri, str(document.language_id), document.version, document.text))

    def did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        changes = convert.to_changes(params.content_changes, self._protocol.encoding)
        self._pass_on(self._store.change(params.text_document.uri, params.text_document.version, changes), is_change=True)

    def did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        self._pass_on(self._store.close(params.text_document.uri))

    def did_save(self, params: types.DidSaveTextDocumentParams) -> None:
        self.on_saved(document_id(params.text_document.uri))
        if path_of(document_id(params.text_document.uri)).endswith(f"/{IGNORE_FILE}"):
            self._exclusion.forget()
            self._withdraw()

    def unreadable(self, method: str, params: Any) -> None:
        """A notification that is no valid message of its method. A lost change means that our copy may be wrong."""
        uri = named_document(params)
        if method == types.TEXT_DOCUMENT_DID_CHANGE and uri is not None:
            self._store.suspect(uri)

    def _pass_on(self, update: Update, *, is_change: bool = False) -> None:
        before, after = update.before, update.after
        if before is not None and after is not None and is_change:
            self._completer.changed(after, update.edits)
            return
        if before is not None:
            self._completer.closed(before.doc_id)
        if after is not None:
            self._completer.opened(after)

    def _withdraw(self) -> None:
        self.on_rules()
        for update in self._store.withdraw_all():
            self._pass_on(update)

    # --- completion

    def inline_completion(
        self, params: types.InlineCompletionParams
    ) -> types.InlineCompletionList | Awaitable[types.InlineCompletionList]:
        return self._take(forms.INLINE, params)

    def completion(self, params: types.CompletionParams) -> types.CompletionList | Awaitable[types.CompletionList]:
        return self._take(forms.PLAIN, params)

    def _take(self, form: Form[Params, Listed], params: Params) -> Listed | Awaitable[Listed]:
        """Not a coroutine function: the snapshot is taken now, the awaiting begins with the task."""
        uri = params.text_document.uri
        self._pass_on(self._store.withdraw(uri))  # a `.midfillignore` may have changed on disk
        document = self._store.find(uri)
        if document is None:
            return self._silent(form, uri, "the document is not open")
        if document.withheld:
            return self._silent(form, uri, document.withheld)
        if document.snapshot.language in self.config.server.languages_off:
            return self._silent(form, uri, f"the setting languages_off names {document.snapshot.language}")
        query = form.to_query(params, document.snapshot, self._protocol.encoding, self._protocol.received)
        return self._complete(form, query, uri)

    async def _complete(self, form: Form[Params, Listed], query: CompletionQuery, uri: str) -> Listed:
        document = self._store.find(query.snapshot.doc_id)
        if document is None or document.withheld:  # since the request was taken
            return self._silent(form, uri, "the document was closed or withdrawn meanwhile")
        self._silence, self._asked_uri = None, uri
        try:
            return form.to_list(await self._completer.complete(query), query, self._protocol.encoding)
        except Superseded:
            raise JsonRpcContentModified("a newer request for this document came") from None
        except Exception as error:
            log.error("a completion failed: %s", type(error).__name__)
            log.debug("details", exc_info=True)
            return self._silent(form, uri, f"internal error: {type(error).__name__}")

    def _silent(self, form: Form[Params, Listed], uri: str, reason: str) -> Listed:
        self._silence = {"document": uri, "reason": reason}
        return form.nothing

    # --- commands

    def explain(self, *_arguments: Any) -> dict[str, object]:
        """The last request: what it did, or why it showed nothing."""
        if self._silence is not None:
            return self._silence
        told = self._completer.explain()
        return {**told, "document": self._asked_uri} if "document" in told else told

    def accepted(self, *arguments: Any) -> None:
        """The client inserted the item whose request id this is."""
        request_id = arguments[0] if arguments else None
        if isinstance(request_id, int) and not isinstance(request_id, bool):
            self._completer.accepted(request_id)

    def pause(self, *arguments: Any) -> None:
        """Minutes; without them until resumed; 0 resumes."""
        minutes = arguments[0] if arguments and arguments[0] is not None else math.inf
        if isinstance(minutes, bool) or not isinstance(minutes, (int, float)) or minutes < 0:
            raise JsonRpcInvalidParams("midfill.pause takes a number of minutes, or 0 to resume")
        self._completer.pause(math.inf if minutes > 1e9 else float(minutes))
        if minutes:
            self._status.set(State.PAUSED)
        elif self._status.news.state is State.PAUSED:
            self._status.set(State.READY)
