"""What is no file of this disk is not to be written to it: neither what is asked nor what is prepared."""

from __future__ import annotations

import pytest

from context.types import DocumentSnapshot
from lsp_server.types import CompletionQuery
from tests.lsp_server.test_session import LINES, Bench, virtual
from tests.lsp_server.test_warmup import COLD, background, forget, rest


@pytest.mark.parametrize(
    "doc_id, is_private",
    [("file:///w/a.py", False), ("untitled:Untitled-1", True), ("vscode-vfs://github/a/b.py", True), ("/w/bare.py", False)],
)
def test_requests_say_whether_they_may_be_saved(doc_id: str, is_private: bool) -> None:
    @virtual
    async def scenario() -> None:
        b = Bench(LINES[:2000], LINES, **COLD)
        b.completer.closed(b.snapshot.doc_id)
        snapshot = DocumentSnapshot(doc_id, 1, "python", b.text)
        b.completer.opened(snapshot)
        await b.completer.complete(CompletionQuery(snapshot, b.cursor, False, None, b.now))
        await rest(b, 3.0)
        forget(b)
        mine = list(b.client.requests)
        assert background(b) and len(mine) > len(background(b))
        assert {request.is_private for request in mine} == {is_private}

    scenario()
