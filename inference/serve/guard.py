"""Before and around every handler: the key, web pages, and refusals in one shape.

Owns who may ask. Refuses to tell in the log what was asked.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from inference.endpoint import is_loopback
from inference.serve.door import is_tcp
from inference.serve.errors import Refused, error_response
from inference.types import EngineError
from inference.wire import WireError

log = logging.getLogger(__name__)


def make_guard(key: str | None, on_refused: Callable[[int], None]) -> Middleware:
    """key: None on a Unix socket, where the system has checked who connects. on_refused: told the status."""
    wanted = f"Bearer {key}".encode() if key is not None else None

    def check(request: web.Request) -> None:
        if "Origin" in request.headers:
            raise Refused(403, "Web pages may not use this engine.", closes=True)
        if is_tcp(request.transport):
            _check_host(request)
        if wanted is not None and not hmac.compare_digest(_key_of(request), wanted):
            headers = {"WWW-Authenticate": "Bearer"}
            raise Refused(401, "The key is missing or wrong.", "invalid_api_key", closes=True, headers=headers)

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            check(request)
            return await handler(request)
        except Refused as refused:
            answer = refused
        except WireError as error:
            answer = Refused(400, str(error))
        except EngineError as error:
            answer = Refused(500, str(error), "engine_error")
        except web.HTTPException as error:
            answer = _of_aiohttp(error)
        except ConnectionError:
            raise
        except Exception as error:
            log.error("a request failed: %s", type(error).__name__)
            log.debug("details", exc_info=True)
            answer = Refused(500, "The engine's server failed; its log says more.", closes=True)
        if request.writer.output_size:  # an answer has begun, and nothing can be said in the middle of it
            log.warning("an answer was broken off (%d)", answer.status)
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError
        on_refused(answer.status)
        return error_response(answer)

    return guard


def _key_of(request: web.Request) -> bytes:
    return request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")


def _check_host(request: web.Request) -> None:
    """A name that was made to point to loopback is a web page's trick."""
    local = request.transport.get_extra_info("sockname") if request.transport is not None else None
    if local and is_loopback(str(local[0])):
        host = urlsplit(f"//{request.headers.get('Host', '')}").hostname or ""
        if not is_loopback(host):
            raise Refused(403, "This engine answers only to the names of loopback.", closes=True)


def _of_aiohttp(error: web.HTTPException) -> Refused:
    if error.status == 404:
        return Refused(404, "There is no such page here.", "unknown_url")
    if error.status == 405:
        allowed = error.headers.get("Allow", "")
        return Refused(405, f"This page takes {allowed}.", headers={"Allow": allowed})
    return Refused(error.status, f"The request was refused ({error.reason}).", closes=True)
