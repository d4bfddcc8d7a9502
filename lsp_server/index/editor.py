"""What editors tell of files: saved, made, renamed, removed, changed on the disk.

Owns the methods and what the client is asked for: file operations are announced in the capabilities, changes on the disk are
asked for when the client can tell them. Knows nothing of what is made of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from lsprotocol import types

from lsp_server.uris import document_id
from lsp_server.wire.protocol import Server

log = logging.getLogger(__name__)

OnChange = Callable[[str], None]  # a document's id
_REGISTRATION = "midfill-files"
_EVERYTHING = types.FileOperationRegistrationOptions(
    filters=[types.FileOperationFilter(pattern=types.FileOperationPattern(glob="**/*"), scheme="file")]
)


def register(server: Server, on_change: OnChange) -> None:
    """Before `initialize` is answered."""

    def created(params: types.CreateFilesParams) -> None:
        for file in params.files:
            on_change(document_id(file.uri))

    def deleted(params: types.DeleteFilesParams) -> None:
        for file in params.files:
            on_change(document_id(file.uri))

    def renamed(params: types.RenameFilesParams) -> None:
        for file in params.files:
            on_change(document_id(file.old_uri))
            on_change(document_id(file.new_uri))

    def changed(params: types.DidChangeWatchedFilesParams) -> None:
        for change in params.changes:
            on_change(document_id(change.uri))

    server.feature(types.WORKSPACE_DID_CREATE_FILES, _EVERYTHING)(partial(created))
    server.feature(types.WORKSPACE_DID_DELETE_FILES, _EVERYTHING)(partial(deleted))
    server.feature(types.WORKSPACE_DID_RENAME_FILES, _EVERYTHING)(partial(renamed))
    server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)(partial(changed))


def ask_for_changes(server: Server) -> bool:
    """After `initialized`: have the client tell of changes on the disk, too. False: it can't. Nobody waits for its answer."""
    workspace = server.protocol.client_capabilities.workspace
    can = workspace.did_change_watched_files if workspace is not None else None
    if can is None or not can.dynamic_registration:
        return False
    options = types.DidChangeWatchedFilesRegistrationOptions(watchers=[types.FileSystemWatcher(glob_pattern="**/*")])
    registration = types.Registration(
        id=_REGISTRATION, method=types.WORKSPACE_DID_CHANGE_WATCHED_FILES, register_options=options
    )
    server.protocol.send_request(types.CLIENT_REGISTER_CAPABILITY, types.RegistrationParams(registrations=[registration]))
    return True
