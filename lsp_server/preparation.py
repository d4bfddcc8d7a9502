"""A plan whose prompt is being prefilled in the background, to be used once it is resident in full."""

from __future__ import annotations

import asyncio

from context.types import Plan
from inference.clients.base import EngineClient, Stream
from inference.types import FinishReason, GenerationRequest, Priority


class Preparation:
    def __init__(self, plan: Plan, stream: Stream) -> None:
        self.plan = plan
        self.is_resident = False
        self._stream = stream
        self._reader = asyncio.get_running_loop().create_task(self._read())

    @classmethod
    def of(cls, plan: Plan, client: EngineClient) -> Preparation:
        """Submit the plan's prompt as background work."""
        request = GenerationRequest(client.next_id(), plan.tokens, n_max=0, priority=Priority.BACKGROUND)
        return cls(plan, client.submit(request))

    async def _read(self) -> None:
        while (event := await self._stream.next()).finish is None:
            pass
        self.is_resident = event.finish is FinishReason.RESIDENT

    @property
    def is_running(self) -> bool:
        return not self._reader.done()

    def cancel(self) -> None:
        if self.is_running:
            self._stream.cancel()
