"""The composition of the engine's HTTP application: which page is where. No logic of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web

from inference.drafts.chunks import Chunks
from inference.serve.completions import Completions
from inference.serve.door import Doorkeeper
from inference.serve.guard import make_guard
from inference.serve.host import EngineHost
from inference.serve.leases import Leases
from inference.serve.limits import Limits
from inference.serve.material import Material
from inference.serve.pages import Pages
from inference.serve.running import Running


@dataclass(frozen=True, slots=True)
class Parts:
    """What stands behind an application, for those who listen and for the engine's life cycle."""

    running: Running
    leases: Leases
    limits: Limits
    has_key: bool
    doors: list[Doorkeeper] = field(default_factory=list)


PARTS = web.AppKey("parts", Parts)


def make_application(
    host: EngineHost,
    *,
    version: str,
    on_drained: Callable[[], None],
    on_stop: Callable[[], None],
    key: str | None = None,
    limits: Limits | None = None,
    chunks: Chunks | None = None,
) -> web.Application:
    """To be listened on with `listen.on_socket` (key None) or `listen.on_tcp`. One application, one place to listen.

    on_drained: called on the loop, once, when nothing runs any more after `/midfill/drain`. on_stop: at `/midfill/stop`.
    chunks: texts to draft from, which the host's engine knows; None: nobody would use any, and none are kept.
    """
    chunks = Chunks(0) if chunks is None else chunks  # an empty one is falsy
    limits = limits or Limits()
    running = Running(host, limits)
    leases = Leases(host, running, limits)
    parts = Parts(running, leases, limits, key is not None)
    pages = Pages(
        host, running, leases, limits, version, lambda: sum(door.n_connections for door in parts.doors), on_drained, on_stop
    )
    running.on_event = pages.metrics.heard
    app = web.Application(middlewares=[make_guard(key, pages.metrics.refused)])
    app[PARTS] = parts

    async def start(_: web.Application) -> None:
        leases.start()

    async def shutdown(_: web.Application) -> None:
        leases.close()
        running.cancel_all()

    app.on_startup.append(start)
    app.on_shutdown.append(shutdown)
    get = {
        "/health": pages.health,
        "/metrics": pages.prometheus,
        "/v1/models": pages.models,
        "/midfill/hello": pages.hello,
        "/midfill/stats": pages.stats,
        "/midfill/vocab": pages.vocabulary,
        "/midfill/vocab/{digest}": pages.vocabulary,
        "/midfill/lease": leases.handle,
    }
    post = {
        "/v1/completions": Completions(host, running, limits, chunks).handle,
        "/midfill/reusable": pages.reusable,
        "/midfill/cancel": pages.cancel,
        "/midfill/drain": pages.drain,
        "/midfill/stop": pages.stop,
    }
    app.add_routes([web.get(path, handler, allow_head=False) for path, handler in get.items()])
    app.add_routes([web.post(path, handler) for path, handler in post.items()])
    app.add_routes([web.put("/midfill/chunks/{digest}", Material(chunks, host, limits).put)])
    return app
