"""The two forms of a completion request: how each is read and how its answer is written. Refuses to answer anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from lsprotocol import types

from context.types import DocumentSnapshot
from lsp_server import convert, plain_completion
from lsp_server.types import Completion, CompletionQuery

Params = TypeVar("Params", types.InlineCompletionParams, types.CompletionParams)
Listed = TypeVar("Listed", types.InlineCompletionList, types.CompletionList)


@dataclass(frozen=True, slots=True)
class Form(Generic[Params, Listed]):
    """to_query: parameters, snapshot, encoding, when it was read → the query. to_list: answer, query, encoding → the result.
    nothing: the result without items."""

    to_query: Callable[[Params, DocumentSnapshot, str, float], CompletionQuery]
    to_list: Callable[[Completion, CompletionQuery, str], Listed]
    nothing: Listed


INLINE = Form(
    convert.to_query,
    lambda completion, query, encoding: convert.to_list(completion, query.snapshot, encoding),
    types.InlineCompletionList(items=[]),
)
PLAIN = Form(plain_completion.to_query, plain_completion.to_list, types.CompletionList(is_incomplete=True, items=[]))
