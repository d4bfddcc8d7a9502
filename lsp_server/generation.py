"""A generation: one stream of the engine as text that grows, which any request may read from.

Owns the reading of the stream. It outlives the request that began it: answered, superseded or cancelled requests leave it
behind, and a later request whose text agrees with it goes on from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from context.types import Plan
from inference.clients.base import Stream
from inference.types import FinishReason, GenerationStats


class Generation:
    """plan, typed: the plan it was made with, and the prompt form of the text between anchor and cursor when it began.
    n_prompt_new: tokens of its prompt that were not resident then. on_end: is told what it took."""

    def __init__(
        self,
        request_id: int,
        plan: Plan,
        typed: bytes,
        n_prompt_new: int,
        stream: Stream,
        on_end: Callable[[GenerationStats], None] = lambda stats: None,
    ) -> None:
        self.request_id = request_id
        self.plan = plan
        self.typed = typed
        self._n_prompt_new = n_prompt_new
        self.text = ""  # beyond the cursor at which it began
        self.stats = GenerationStats()
        self.finish: FinishReason | None = None
        self.error = ""
        self.readers: set[asyncio.Event] = set()  # each is set when there is something new
        self._stream = stream
        self._on_end = on_end
        self._parked: asyncio.TimerHandle | None = None
        self._is_cancelled = False
        self._reader = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        while self.finish is None:
            event = await self._stream.next()
            self.text += event.text
            self.stats = event.stats
            self.finish, self.error = event.finish, event.error
            for reader in self.readers:
                reader.set()
        self._on_end(self.stats)

    @property
    def is_running(self) -> bool:
        return self.finish is None

    @property
    def n_ahead(self) -> int:
        """Prompt tokens that had to be evaluated before its first text, if that is still to come."""
        return 0 if self.text or not self.is_running else self._n_prompt_new

    @property
    def is_parked(self) -> bool:
        return self._parked is not None

    @property
    def is_ending(self) -> bool:
        """Cancelled, but the engine has not said so yet: its text is a beginning, and stays one."""
        return self._is_cancelled and self.is_running

    def remainder(self, typed: bytes) -> str | None:
        """What was generated beyond `typed` (anchor to cursor, prompt form); None if it disagrees or is not there yet."""
        whole = self.typed + self.text.encode()
        if len(typed) < len(self.typed) or not whole.startswith(typed):
            return None
        return whole[len(typed) :].decode()

    def park(self, adopt_s: float) -> None:
        """Nobody waits for it any more: unless adopted within adopt_s it ends."""
        if self.is_running and not self.is_parked:
            self._parked = asyncio.get_running_loop().call_later(adopt_s, self.cancel)

    def adopt(self) -> None:
        """A request reads from it again."""
        if self._parked is not None:
            self._parked.cancel()
            self._parked = None

    def cancel(self) -> None:
        if self.is_running:
            self._is_cancelled = True
            self._stream.cancel()
