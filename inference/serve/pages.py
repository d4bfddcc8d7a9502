"""Everything that is asked for and answered at once: health, metrics, models, the greeting, the vocabulary, and commands."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable

import psutil
from aiohttp import web

from inference.call import token_ids
from inference.models.identity import cut_vocabulary, vocabulary_digest
from inference.plain import PlainError
from inference.serve import metrics
from inference.serve.body import read_body
from inference.serve.errors import Refused
from inference.serve.host import EngineHost
from inference.serve.leases import Leases
from inference.serve.limits import Limits
from inference.serve.running import Running
from inference.wire import PROTOCOL, EngineState, Hello, WireError, settings_digest, to_json

_BLOCK = 1 << 18  # bytes of the vocabulary written at a time


class Pages:
    """on_drained: called once nothing runs any more after `drain`. on_stop: called when somebody wants the engine to end."""

    def __init__(
        self,
        host: EngineHost,
        running: Running,
        leases: Leases,
        limits: Limits,
        version: str,
        n_connections: Callable[[], int],
        on_drained: Callable[[], None],
        on_stop: Callable[[], None],
    ) -> None:
        self._host = host
        self._running = running
        self._leases = leases
        self._limits = limits
        self._version = version
        self._n_connections = n_connections
        self._on_drained = on_drained
        self._on_stop = on_stop
        self._started = int(time.time())
        self.metrics = metrics.Metrics()

    async def health(self, _: web.Request) -> web.Response:
        news = self._leases.news()
        is_well = news.state in (EngineState.READY, EngineState.UNLOADED)
        body = {"status": "ok" if is_well else news.state, "share": news.share, "why": news.why}
        return _json(body, 200 if is_well else 503)

    async def prometheus(self, _: web.Request) -> web.Response:
        page = self.metrics.page(self._host, self._running, len(self._leases), self._n_connections())
        return web.Response(body=page.encode(), headers={"Content-Type": metrics.CONTENT_TYPE})

    async def models(self, _: web.Request) -> web.Response:
        model = {"id": self._host.model_name, "object": "model", "created": self._started, "owned_by": "midfill"}
        return _json({"object": "list", "data": [model]})

    async def hello(self, _: web.Request) -> web.Response:
        host = self._host
        return _json(
            Hello(
                protocol=PROTOCOL,
                version=self._version,
                pid=os.getpid(),
                model_name=host.model_name,
                model_path=str(host.model.path),
                model_digest=host.model.digest,
                vocab_digest=host.model.vocab_digest,
                settings_digest=settings_digest(host.settings),
                settings=host.settings,
                n_ctx=host.n_ctx,
                costs=host.costs(),
                counters=host.counters(),
                news=self._leases.news(),
                notices=host.notices,
            )
        )

    async def stats(self, _: web.Request) -> web.Response:
        """What `midfill engine status` and the command `midfill.stats` tell."""
        host = self._host
        return _json({
            "pid": os.getpid(),
            "version": self._version,
            "model": host.model_name,
            "news": self._leases.news(),
            "uptime_s": int(time.time()) - self._started,
            "leases": len(self._leases),
            "requests": len(self._running),
            "rss_bytes": psutil.Process().memory_info().rss,
            "n_ctx": host.n_ctx,
            "counters": host.counters(),
            "engine": host.stats(),
        })  # fmt: skip

    async def vocabulary(self, request: web.Request) -> web.StreamResponse:
        """The cut is made anew each time: it is asked for once by each machine, and need not stay in memory."""
        digest = self._host.model.vocab_digest
        if request.match_info.get("digest", digest) != digest:
            raise Refused(404, "This engine's model has another vocabulary.", "vocabulary_not_found")
        headers = {"ETag": f'"{digest}"', "Cache-Control": "private, max-age=31536000, immutable"}
        if any(tag.value == digest for tag in request.if_none_match or ()):
            return web.Response(status=304, headers=headers)
        cut = await asyncio.to_thread(cut_vocabulary, self._host.model.path)
        if vocabulary_digest(cut) != digest:
            raise Refused(410, "The model's file has changed since it was loaded; restart the engine.")
        response = web.StreamResponse(headers={**headers, "Content-Type": "application/octet-stream"})
        response.content_length = len(cut)
        await response.prepare(request)
        for at in range(0, len(cut), _BLOCK):
            async with asyncio.timeout(self._limits.write_s):
                await response.write(cut[at : at + _BLOCK])
        await response.write_eof()
        return response

    async def reusable(self, request: web.Request) -> web.Response:
        body = await read_body(request, self._limits, self._host.n_ctx)
        try:
            tokens = token_ids(body.get("tokens"), "tokens")
        except PlainError as error:
            raise WireError(f"{error}.") from None
        return _json({"n": self._host.n_reusable(tokens) if self._host.n_ctx else 0})

    async def cancel(self, request: web.Request) -> web.Response:
        name = (await read_body(request, self._limits, self._host.n_ctx)).get("name")
        if not isinstance(name, str):
            raise WireError("name is not a text.")
        return _json({"cancelled": self._running.cancel(name)})

    async def drain(self, _: web.Request) -> web.Response:
        self._running.drain(self._on_drained)
        self._leases.announce()
        return _json({"state": EngineState.DRAINING, "running": len(self._running)})

    async def stop(self, _: web.Request) -> web.Response:
        asyncio.get_running_loop().call_soon(self._on_stop)
        return _json({"pid": os.getpid()})


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(body=to_json(value), status=status, content_type="application/json")
