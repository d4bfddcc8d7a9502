"""Refusals: a status, one sentence, and OpenAI's shape around it."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from inference.wire import error_object, to_json

_KINDS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


class Refused(Exception):
    """Answered with `status` and the sentence. closes: the connection is not used again, its rest is not worth reading."""

    def __init__(
        self,
        status: int,
        sentence: str,
        code: str | None = None,
        *,
        closes: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.code = code
        self.closes = closes
        self.headers = dict(headers or {})


def error_body(status: int, sentence: str, code: str | None = None) -> bytes:
    kind = _KINDS.get(status, "invalid_request_error" if status < 500 else "server_error")
    return to_json({"error": error_object(sentence, kind, code)})


def error_response(refused: Refused) -> web.Response:
    body = error_body(refused.status, refused.sentence, refused.code)
    response = web.Response(body=body, status=refused.status, headers=refused.headers, content_type="application/json")
    if refused.closes:
        response.force_close()
    return response
