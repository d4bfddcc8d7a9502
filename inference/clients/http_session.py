"""HTTP as a client of the engine needs it: short questions, downloads and event streams over kept connections.

Owns aiohttp on this side: nobody else has to know its exceptions. Refuses answers that are too long.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType

import aiohttp

from inference import sse, unix_socket
from inference.endpoint import Endpoint
from inference.types import EngineError

_IDLE_S = 60.0  # a connection is kept so long; less than the engine keeps it, or a request could meet its closing
_CONNECT_S = 5.0
_QUESTION_S = 10.0
_SILENCE_S = 30.0  # of a stream; the engine says something every few seconds
_ANSWER_BYTES = 4 << 20
_HIDDEN = ("User-Agent", "Accept-Encoding", "Accept")
_STALE = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionResetError)


class Gone(EngineError):
    """The engine is not there, or not any more."""


class Refusal(EngineError):
    """The engine said no, with a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Session:
    """To be made and closed on one event loop. EngineError: the socket could belong to somebody else. Methods raise Gone and
    Refusal."""

    def __init__(self, endpoint: Endpoint) -> None:
        connector: aiohttp.BaseConnector
        if endpoint.socket is not None:
            if not os.path.lexists(endpoint.socket):
                raise Gone("No engine is there; start one.")
            unix_socket.require_trusted(endpoint.socket)
            connector = aiohttp.UnixConnector(str(endpoint.socket), limit=0, keepalive_timeout=_IDLE_S)
        else:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_S)
        self._session = aiohttp.ClientSession(
            base_url=endpoint.url or "http://midfill",
            connector=connector,
            headers={"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else None,
            skip_auto_headers=_HIDDEN,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_SILENCE_S),
        )

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._session.close()

    async def ask(self, method: str, path: str, body: bytes | None = None, *, most: int = _ANSWER_BYTES) -> bytes:
        """The whole answer. most: its largest size in bytes."""
        try:
            async with asyncio.timeout(_QUESTION_S), self._response(method, path, body) as response:
                return await _whole(response, most)
        except TimeoutError:
            raise Gone("The engine does not answer; restart it.") from None

    async def events(
        self, method: str, path: str, body: bytes | None = None, on_accepted: Callable[[], None] = lambda: None
    ) -> AsyncGenerator[bytes, None]:
        """Data of each event. on_accepted: called when the engine has taken the request, before the first event."""
        async with self._response(method, path, body) as response:
            on_accepted()
            reader = sse.Reader()
            try:
                async for piece in response.content.iter_any():
                    for data in reader.push(piece):
                        yield data
            except sse.TooLong:
                raise Gone("The engine sent an event without end; restart it.") from None

    @asynccontextmanager
    async def _response(self, method: str, path: str, body: bytes | None) -> AsyncIterator[aiohttp.ClientResponse]:
        try:
            response = await self._request(method, path, body)
            async with response:
                if response.status != 200:
                    raise Refusal(response.status, _sentence(response.status, await _whole(response, _ANSWER_BYTES)))
                yield response
        except aiohttp.ClientConnectorError:
            raise Gone("No engine is there; start one.") from None
        except (aiohttp.ServerTimeoutError, TimeoutError):
            raise Gone("The engine does not answer; restart it.") from None
        except (aiohttp.ClientError, OSError):
            raise Gone("The connection to the engine was lost.") from None

    async def _request(self, method: str, path: str, body: bytes | None) -> aiohttp.ClientResponse:
        """A kept connection may have been closed while the request was on its way: then once more, on a fresh one."""
        headers = {"Content-Type": "application/json"} if body is not None else None
        try:
            return await self._session.request(method, path, data=body, headers=headers)
        except aiohttp.ClientConnectorError:
            raise
        except _STALE:
            return await self._session.request(method, path, data=body, headers=headers)


async def _whole(response: aiohttp.ClientResponse, most: int) -> bytes:
    data = bytearray()
    async for piece in response.content.iter_any():
        data += piece
        if len(data) > most:
            response.close()
            raise Gone(f"The engine's answer has more than {most:,} bytes.")
    return bytes(data)


def _sentence(status: int, body: bytes) -> str:
    """OpenAI's shape, or whatever stands in front of the engine."""
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError, RecursionError):
        message = ""
    return str(message)[:1000] or f"The engine answered with status {status}."
