"""A prompt that is, or was, prefilled in the background. Owns the reading of its stream and its entry in the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from context.types import Plan
from inference.clients.base import Stream
from inference.types import FinishReason, GenerationRequest, GenerationStats, Priority
from lsp_server.desk import Desk


class Preparation:
    """plan: whose prompt it is; None: only the beginning that other prompts share. tokens: to be prefilled. why: for people."""

    def __init__(
        self, plan: Plan | None, tokens: tuple[int, ...], why: str, stream: Stream, on_end: Callable[[Preparation], None]
    ) -> None:
        self.plan = plan
        self.tokens = tokens
        self.why = why
        self.is_resident = False
        self.stats = GenerationStats()
        self._stream = stream
        self._on_end = on_end
        self._reader = asyncio.get_running_loop().create_task(self._read())

    @classmethod
    def begin(
        cls,
        plan: Plan | None,
        tokens: tuple[int, ...],
        n_new: int,
        priority: Priority,
        desk: Desk,
        why: str,
        on_end: Callable[[Preparation], None],
        *,
        private: bool,
    ) -> Preparation:
        """Submit. n_new: tokens that are not resident. private: nothing of it is saved to disk."""
        request = GenerationRequest(desk.client.next_id(), tokens, n_max=0, priority=priority, is_private=private)
        ledger = desk.allowance.ledger
        ledger.begin(request.request_id, n_new)

        def ended(ahead: Preparation) -> None:
            ledger.end(request.request_id, desk.clock(), ahead.stats.n_rows)
            on_end(ahead)

        return cls(plan, tokens, why, desk.client.submit(request), ended)

    async def _read(self) -> None:
        while (event := await self._stream.next()).finish is None:
            pass
        self.stats = event.stats
        self.is_resident = event.finish is FinishReason.RESIDENT
        self._on_end(self)

    @property
    def is_running(self) -> bool:
        return not self._reader.done()

    async def wait(self) -> None:
        """Until it is over; whoever stops waiting does not end it."""
        await asyncio.wait({self._reader})

    def cancel(self) -> None:
        if self.is_running:
            self._stream.cancel()
