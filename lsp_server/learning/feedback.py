"""`midfill/feedback`: what a client did with an item, as far as it tells. Owns the form; anything else is passed over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lsp_server.learning.outcome import Said
from lsp_server.wire.protocol import Server

METHOD = "midfill/feedback"


def register(server: Server, told: Callable[[int, Said], None]) -> None:
    """told: is given the request's id and what was done."""

    def feedback(params: Any) -> None:
        found = read(params)
        if found is not None:
            told(*found)

    server.feature(METHOD)(feedback)


def read(params: Any) -> tuple[int, Said] | None:
    """`{requestId, kind}`; kind: "shown", "accepted", "partlyAccepted" or "dismissed"."""
    if not isinstance(params, dict):
        return None
    request_id, kind = params.get("requestId"), params.get("kind")
    if isinstance(request_id, bool) or not isinstance(request_id, int) or kind not in [said.value for said in Said]:
        return None
    return request_id, Said(kind)
