"""`/midfill/chunks/DIGEST`: texts to draft from, sent once and named by many requests.

Owns the page. Refuses more than there is room for, and what is not named rightly; what it keeps costs nobody anything but
memory.
"""

from __future__ import annotations

from aiohttp import web

from inference.call import token_ids
from inference.drafts.chunks import DIGEST, Chunks
from inference.plain import PlainError
from inference.serve.body import read_body
from inference.serve.errors import Refused
from inference.serve.host import EngineHost
from inference.serve.limits import Limits
from inference.wire import to_json


class Material:
    def __init__(self, chunks: Chunks, host: EngineHost, limits: Limits) -> None:
        self._chunks = chunks
        self._host = host
        self._limits = limits

    async def put(self, request: web.Request) -> web.Response:
        """`{"tokens": [ids]}` → `{"kept"}`: false where texts of this size are not kept."""
        digest = request.match_info["digest"]
        if not DIGEST.fullmatch(digest):
            raise Refused(400, "A digest has 32 hexadecimal digits.")
        body = await read_body(request, self._limits, self._host.n_ctx)
        try:
            kept = self._chunks.put(digest, token_ids(body.get("tokens"), "tokens"))
        except PlainError as error:
            raise Refused(400, f"{error}.") from None
        except ValueError as error:
            raise Refused(400, str(error)) from None
        return web.Response(body=to_json({"kept": kept}), content_type="application/json")
