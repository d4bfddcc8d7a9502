"""The bench's completion path on the strict fake backend: what the model says is scripted, or follows from its cells."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bench.heart import Heart
from inference.types import Costs, GenerationRequest
from tests.support.fake_backend import FakeBackend, FakeVocab
from tests.support.virtual import InlineExecutor, SteppedClient

VOCAB = FakeVocab()
Says = Callable[[bytes, bytes], str | None]  # (the prompt's bytes, the healing bytes) → what comes behind them


def fake_heart(says: Says | None = None, *, max_tokens: int = 40, n_ctx: int = 2048) -> tuple[Heart, SteppedClient]:
    """To be called on a loop."""
    client = SteppedClient(FakeBackend(VOCAB, n_ctx=4 * n_ctx, n_batch=64), n_ctx=n_ctx, costs=Costs(0.0, 0.0))

    def on_submit(request: GenerationRequest) -> None:
        said = says(VOCAB.text(request.tokens), request.heal) if says is not None and request.n_max else None
        if said is not None:
            client.backend.scripts[request.tokens] = VOCAB.encode(request.heal) + VOCAB.encode(said.encode())

    client.on_submit = on_submit
    clock = asyncio.get_running_loop().time
    return Heart(client, max_tokens, n_sequences=4, clock=clock, pool=InlineExecutor()), client
