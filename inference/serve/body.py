"""The body of a request, within limits of size and time, as a JSON object."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from inference.serve.errors import Refused
from inference.serve.limits import Limits
from inference.wire import read_json


async def read_body(request: web.Request, limits: Limits, n_ctx: int) -> dict[str, Any]:
    """Refused: too large, too slow, packed or cut. WireError: no JSON object."""
    most = limits.body_bytes_for(n_ctx)
    if "Content-Encoding" in request.headers:
        raise Refused(415, "Packed bodies are not read; send the JSON as it is.", closes=True)
    if (request.content_length or 0) > most:
        raise _too_large(most)
    data = bytearray()
    try:
        async with asyncio.timeout(limits.body_s):
            async for piece in request.content.iter_any():
                data += piece
                if len(data) > most:
                    raise _too_large(most)
    except TimeoutError:
        raise Refused(408, f"The body did not arrive within {limits.body_s:g} seconds.", closes=True) from None
    except web.RequestPayloadError:
        raise Refused(400, "The body ended early or is badly framed.", closes=True) from None
    value = read_json(bytes(data))
    if not isinstance(value, dict):
        raise Refused(400, "The body is not a JSON object.")
    return value


def _too_large(most: int) -> Refused:
    return Refused(413, f"The body has more than {most:,} bytes, which no prompt needs.", "body_too_large", closes=True)
