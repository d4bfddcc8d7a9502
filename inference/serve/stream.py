"""An answer of server-sent events to one client that may stop reading.

Owns the time that a client has to take what was written; one that does not is cut off. What is not written yet is bounded by
aiohttp's buffer (64 KiB) and one event, since the writer waits here.
"""

from __future__ import annotations

import asyncio
import logging

from aiohttp import web

log = logging.getLogger(__name__)

_HEADERS = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class EventStream:
    """All methods raise ConnectionError when the client is gone, or has been cut off."""

    def __init__(self, request: web.Request, write_s: float) -> None:
        self._request = request
        self._write_s = write_s
        self._response = web.StreamResponse(headers=_HEADERS)

    async def begin(self) -> None:
        """Sends the header."""
        await self._response.prepare(self._request)

    async def write(self, data: bytes) -> None:
        try:
            async with asyncio.timeout(self._write_s):
                await self._response.write(data)
        except TimeoutError:
            self._cut_off()

    async def end(self, data: bytes = b"") -> web.StreamResponse:
        """The last bytes."""
        try:
            async with asyncio.timeout(self._write_s):
                await self._response.write_eof(data)
        except TimeoutError:
            self._cut_off()
        return self._response

    def _cut_off(self) -> None:
        log.warning("a client that did not read for %g s was cut off", self._write_s)
        if self._request.transport is not None:
            self._request.transport.abort()
        raise ConnectionResetError
