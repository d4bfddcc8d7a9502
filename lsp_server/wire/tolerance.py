"""Mends or reads raw parameters that lsprotocol refuses although their meaning is clear. Used only after a message failed.

Owns the leniency; returns new values and never changes what it is given. What can't be mended is refused by the caller.
"""

from __future__ import annotations

from typing import Any

MAX_UINTEGER = 2**31 - 1  # of the specification; clients use larger numbers for "to the end"

# What of a client's capabilities is ever looked at.
_CAPABILITIES = (
    ("general", "positionEncodings"),
    ("window", "workDoneProgress"),
    ("workspace", "configuration"),
    ("workspace", "workspaceFolders"),
)


def mend_change(params: Any) -> Any:
    """didChange: rangeLength dropped (deprecated, the range wins), a null range is none, huge columns become the largest."""
    document = dict(params["textDocument"])
    if document.get("version") is None:  # allowed by older versions of the specification
        document["version"] = 0
    return {**params, "textDocument": document, "contentChanges": [_mend_one(change) for change in params["contentChanges"]]}


def _mend_one(change: Any) -> Any:
    mended = {key: value for key, value in change.items() if key != "rangeLength"}
    if mended.get("range") is None:
        mended.pop("range", None)
        return mended
    mended["range"] = {edge: _mend_position(mended["range"][edge]) for edge in ("start", "end")}
    return mended


def _mend_position(position: Any) -> Any:
    return {key: min(position[key], MAX_UINTEGER) for key in ("line", "character")}


def mend_initialize(params: Any) -> Any:
    """initialize: only what we look at. A capability of a newer specification must not keep the server from starting."""
    kept = {key: params[key] for key in ("processId", "rootUri", "workspaceFolders", "initializationOptions") if key in params}
    capabilities: dict[str, Any] = {}
    for group, name in _CAPABILITIES:
        offered = (params.get("capabilities") or {}).get(group) or {}
        if name in offered:
            capabilities.setdefault(group, {})[name] = offered[name]
    return {"processId": None, "rootUri": None, **kept, "capabilities": capabilities}


def named_document(params: Any) -> str | None:
    """The document's URI as far as it can be made out."""
    document = params.get("textDocument") if isinstance(params, dict) else None
    uri = document.get("uri") if isinstance(document, dict) else None
    return uri if isinstance(uri, str) else None
