"""A small HTTP router: patterns with typed parameters, middleware, and answers that always have a length."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

log = logging.getLogger(__name__)

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
MAX_BODY = 1_000_000
PARAMETER = re.compile(r"<(?:(?P<kind>[a-z]+):)?(?P<name>[a-z_]+)>")
KINDS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "str": (r"[^/]+", str),
    "int": (r"-?\d+", int),
    "path": (r".+", str),
    "hex": (r"[0-9a-f]+", lambda text: int(text, 16)),
}


class HttpError(Exception):
    """An answer that a handler raises instead of returning it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class NotFoundError(HttpError):
    def __init__(self, path: str) -> None:
        super().__init__(404, f"nothing here called {path}")


class MethodNotAllowedError(HttpError):
    def __init__(self, method: str, allowed: Iterable[str]) -> None:
        self.allowed = sorted(allowed)
        super().__init__(405, f"{method} is not possible here, only {', '.join(self.allowed)}")


@dataclass(frozen=True)
class Request:
    """What came in. Header names are in lower case; query keeps the last value of a repeated name."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes = b"") -> Request:
        parts = urlsplit(target)
        return cls(
            method=method.upper(),
            path=unquote(parts.path) or "/",
            headers={name.lower(): value.strip() for name, value in headers},
            query=dict(parse_qsl(parts.query, keep_blank_values=True)),
            body=body,
        )

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def json(self) -> Any:
        if self.content_type != "application/json":
            raise HttpError(415, "send JSON, and say so in Content-Type")
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise HttpError(400, f"this is not JSON: {error}") from error


@dataclass(frozen=True)
class Response:
    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of_text(cls, text: str, status: int = 200) -> Response:
        return cls(status, text.encode(), (("Content-Type", "text/plain; charset=utf-8"),))

    @classmethod
    def of_json(cls, value: Any, status: int = 200) -> Response:
        body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        return cls(status, body, (("Content-Type", "application/json"),))

    def with_header(self, name: str, value: str) -> Response:
        kept = tuple(pair for pair in self.headers if pair[0].lower() != name.lower())
        return replace(self, headers=(*kept, (name, value)))

    def header(self, name: str) -> str | None:
        for key, value in self.headers:
            if key.lower() == name.lower():
                return value
        return None


Handler = Callable[[Request], Response]
Middleware = Callable[[Request, Handler], Response]


@dataclass(frozen=True)
class Route:
    """A pattern such as /items/<int:item_id>/tags, compiled, with its handler for one method."""

    method: str
    pattern: str
    handler: Handler
    regex: re.Pattern[str]
    converters: Mapping[str, Callable[[str], Any]]

    @classmethod
    def build(cls, method: str, pattern: str, handler: Handler) -> Route:
        if method not in METHODS:
            raise ValueError(f"unknown method {method}")
        if not pattern.startswith("/"):
            raise ValueError(f"{pattern!r} must begin with a slash")
        converters: dict[str, Callable[[str], Any]] = {}
        regex, end = "", 0
        for match in PARAMETER.finditer(pattern):
            name, kind = match["name"], match["kind"] or "str"
            if name in converters:
                raise ValueError(f"{pattern} names {name} twice")
            expression, converters[name] = KINDS[kind]
            regex += re.escape(pattern[end : match.start()]) + f"(?P<{name}>{expression})"
            end = match.end()
        regex += re.escape(pattern[end:])
        return cls(method, pattern, handler, re.compile(regex), converters)

    def match(self, path: str) -> dict[str, Any] | None:
        """The parameters as values, or None if the path is another one."""
        found = self.regex.fullmatch(path)
        if found is None:
            return None
        return {name: self.converters[name](text) for name, text in found.groupdict().items()}

    @property
    def weight(self) -> tuple[int, int]:
        """Fewer parameters first, then the longer pattern: /items/new is tried before /items/<name>."""
        return (len(self.converters), -len(self.pattern))


class Router:
    """Finds the handler for a request and calls it inside the middleware, outermost first."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix.rstrip("/")
        self.routes: list[Route] = []
        self.middleware: list[Middleware] = []

    def add(self, method: str, pattern: str, handler: Handler) -> None:
        route = Route.build(method, self.prefix + pattern, handler)
        if any(r.method == method and r.pattern == route.pattern for r in self.routes):
            raise ValueError(f"{method} {route.pattern} has a handler already")
        self.routes.append(route)
        self.routes.sort(key=lambda r: r.weight)

    def get(self, pattern: str) -> Callable[[Handler], Handler]:
        return self._decorator("GET", pattern)

    def post(self, pattern: str) -> Callable[[Handler], Handler]:
        return self._decorator("POST", pattern)

    def delete(self, pattern: str) -> Callable[[Handler], Handler]:
        return self._decorator("DELETE", pattern)

    def _decorator(self, method: str, pattern: str) -> Callable[[Handler], Handler]:
        def register(handler: Handler) -> Handler:
            self.add(method, pattern, handler)
            return handler

        return register

    def use(self, middleware: Middleware) -> None:
        self.middleware.append(middleware)

    def mount(self, other: Router) -> None:
        for route in other.routes:
            self.add(route.method, route.pattern, route.handler)

    # block begins here
    def resolve(self, request: Request) -> tuple[Route, Request]:
        """The route for a request, and the request with the parameters of its path filled in."""
        method = "GET" if request.method == "HEAD" else request.method
        allowed: set[str] = set()
        for route in self.routes:
            parameters = route.match(request.path)
            if parameters is None:
                continue
            if route.method == method:
                return route, replace(request, parameters=parameters)
            allowed.add(route.method)
        if allowed:
            if "GET" in allowed:
                allowed.add("HEAD")
            raise MethodNotAllowedError(request.method, allowed)
        raise NotFoundError(request.path)

    def explain(self, path: str) -> list[dict[str, str]]:
        """Which routes would answer a path, for the debug page."""
        found = []
        for route in self.routes:
            state = "match" if route.match(path) is not None else "no"
            found.append({"route": f"{route.method} {route.pattern}", "state": state})
        return found

    # block ends here
    def handle(self, request: Request) -> Response:
        """One answer for every request; what a handler raises becomes an answer too."""
        started = time.perf_counter()
        try:
            if len(request.body) > MAX_BODY:
                raise HttpError(413, f"at most {MAX_BODY} bytes, please")
            response = self._call(request)
        except MethodNotAllowedError as error:
            response = Response.of_json({"error": error.message}, 405).with_header("Allow", ", ".join(error.allowed))
        except HttpError as error:
            response = Response.of_json({"error": error.message}, error.status)
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            response = Response.of_json({"error": "this is our fault"}, 500)
        elapsed = (time.perf_counter() - started) * 1000
        log.info("%s %s -> %d in %.1f ms", request.method, request.path, response.status, elapsed)
        return self._finish(request, response)

    def _call(self, request: Request) -> Response:
        route, request = self.resolve(request)
        handler = route.handler
        for middleware in reversed(self.middleware):
            handler = _wrapped(middleware, handler)
        return handler(request)

    @staticmethod
    def _finish(request: Request, response: Response) -> Response:
        response = response.with_header("Content-Length", str(len(response.body)))
        if request.method == "HEAD":
            response = replace(response, body=b"")
        return response


def _wrapped(middleware: Middleware, handler: Handler) -> Handler:
    def call(request: Request) -> Response:
        return middleware(request, handler)

    return call


def require_token(tokens: Mapping[str, str]) -> Middleware:
    """Let only those in who send a known bearer token; their name goes into the request's parameters."""

    def middleware(request: Request, handler: Handler) -> Response:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        user = tokens.get(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise HttpError(401, "who are you?")
        return handler(replace(request, parameters={**request.parameters, "user": user}))

    return middleware


def limit_rate(per_minute: int, clock: Callable[[], float] = time.monotonic) -> Middleware:
    """Refuse the request that comes too soon after too many others of the same address."""
    seen: dict[str, list[float]] = {}

    def middleware(request: Request, handler: Handler) -> Response:
        address, now = request.headers.get("x-forwarded-for", "local"), clock()
        recent = [moment for moment in seen.get(address, []) if now - moment < 60]
        if len(recent) >= per_minute:
            wait = 60 - (now - recent[0])
            return Response.of_json({"error": "slow down"}, 429).with_header("Retry-After", str(int(wait) + 1))
        seen[address] = [*recent, now]
        return handler(request)

    return middleware
