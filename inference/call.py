"""A completion as it is asked for over the wire: OpenAI's text completion, with our own fields in an object `midfill`.

Owns which fields there are, their bounds and their defaults. Refuses in one sentence what can't be done, instead of doing
something else; fields of OpenAI that change nothing here are read over, unknown fields of our own are not.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from dataclasses import dataclass, field
from typing import Any, TypeVar

from inference.drafts.chunks import DIGEST, MAX_CHUNKS, MAX_TOKENS
from inference.plain import PlainError, flag, integer, number, table, text
from inference.types import GenerationRequest, Priority, SamplingParams
from inference.wire import WireError

MAX_HEAL = 4096  # bytes; nobody types a longer word
MAX_STOPS, MAX_STOP = 4, 256  # strings, and characters of one
MAX_CANDIDATES = 8
_NAME = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_MOST_TOKENS = 1 << 24  # of max_tokens: more than any context
_DAY_MS = 86_400_000.0
_PRIORITIES = {priority.name.lower(): priority for priority in Priority}
_OWN = frozenset({
    "name", "heal", "priority", "deadline_ms", "adopt_ms", "repeat_penalty", "repeat_last_n", "first_line", "private",
    "logprobs", "previous", "chunks",
})  # fmt: skip
# Fields of OpenAI that would change the answer, with the values that change nothing.
_UNSUPPORTED: dict[str, tuple[object, ...]] = {
    "echo": (None, False),
    "logprobs": (None, False),
    "suffix": (None, ""),
    "logit_bias": (None, {}),
    "best_of": (None, 1),
    "presence_penalty": (None, 0, 0.0),
    "frequency_penalty": (None, 0, 0.0),
}


N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True)
class Call:
    """prompt: text, or token ids that are used as they are. name: the caller's own for this request, "" = none.

    with_usage: an event with the token counts ends the stream. deadline_ms: then it ends with what it has. adopt_ms: how long
    it goes on when the caller is gone, so that a request with the same beginning finds more of it resident. n_candidates:
    OpenAI's n, of which fewer may come.
    """

    prompt: str | tuple[int, ...]
    heal: bytes = b""
    n_max: int = 16
    sampling: SamplingParams = field(default_factory=lambda: SamplingParams(temperature=1.0))
    priority: Priority = Priority.INVOKED
    stops: tuple[str, ...] = ()
    is_stream: bool = False
    with_usage: bool = False
    name: str = ""
    model: str = ""
    deadline_ms: float | None = None
    adopt_ms: float = 0.0
    n_candidates: int = 1
    first_line: bool = False
    is_private: bool = False
    previous: tuple[int, ...] = ()
    chunks: tuple[str, ...] = ()
    n_logprobs: int = 0

    def request(self, request_id: int, tokens: tuple[int, ...]) -> GenerationRequest:
        return GenerationRequest(
            request_id, tokens, self.heal, self.n_max, self.sampling, self.priority, self.n_candidates, self.first_line,
            self.is_private, self.previous, self.chunks, self.n_logprobs,
        )  # fmt: skip


def call_for(
    request: GenerationRequest,
    *,
    name: str = "",
    model: str = "",
    deadline_ms: float | None = None,
    adopt_ms: float = 0.0,
) -> Call:
    """The streamed call that asks for a request."""
    return Call(
        request.tokens, request.heal, request.n_max, request.sampling, request.priority, is_stream=True, name=name,
        model=model, deadline_ms=deadline_ms, adopt_ms=adopt_ms, n_candidates=request.n_candidates,
        first_line=request.first_line, is_private=request.is_private, previous=request.previous,
        chunks=request.chunks, n_logprobs=request.n_logprobs,
    )  # fmt: skip


def encode_call(call: Call) -> dict[str, Any]:
    """As a JSON object."""
    sampling = call.sampling
    own: dict[str, Any] = {
        "priority": call.priority.name.lower(),
        "repeat_penalty": sampling.repeat_penalty,
        "repeat_last_n": sampling.repeat_last_n,
    }
    if call.heal:
        own["heal"] = base64.b64encode(call.heal).decode()
    if call.name:
        own["name"] = call.name
    if call.deadline_ms is not None:
        own["deadline_ms"] = call.deadline_ms
    if call.adopt_ms:
        own["adopt_ms"] = call.adopt_ms
    if call.first_line:
        own["first_line"] = True
    if call.is_private:
        own["private"] = True
    if call.previous:
        own["previous"] = call.previous
    if call.chunks:
        own["chunks"] = call.chunks
    if call.n_logprobs:
        own["logprobs"] = call.n_logprobs
    body: dict[str, Any] = {
        "prompt": call.prompt,
        "max_tokens": call.n_max,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "seed": sampling.seed,
        "stream": call.is_stream,
        "midfill": own,
    }
    if call.n_candidates > 1:
        body["n"] = call.n_candidates
    if call.model:
        body["model"] = call.model
    if call.stops:
        body["stop"] = list(call.stops)
    if call.with_usage:
        body["stream_options"] = {"include_usage": True}
    return body


def decode_call(value: object) -> Call:
    """WireError: it can't be done as it is meant, in one sentence."""
    try:
        return _call(value)
    except PlainError as error:
        raise WireError(f"{error}.") from None


def _call(value: object) -> Call:
    body = table(value, "the body")
    own = table(_or(body.get("midfill"), {}), "midfill")
    if unknown := sorted(own.keys() - _OWN):
        raise PlainError(f"midfill has no field {unknown[0][:40]!r}; it knows {', '.join(sorted(_OWN))}")
    for name, harmless in _UNSUPPORTED.items():
        given = body.get(name)
        if not any(type(given) is type(value) and given == value for value in harmless):
            raise PlainError(f"{name} is not supported here; leave it out")
    deadline = own.get("deadline_ms")
    options = table(_or(body.get("stream_options"), {}), "stream_options")
    return Call(
        prompt=_prompt(body.get("prompt")),
        heal=_heal(_or(own.get("heal"), "")),
        n_max=_within(integer(_or(body.get("max_tokens"), 16), "max_tokens"), 0, _MOST_TOKENS, "max_tokens"),
        sampling=_sampling(body, own),
        priority=_priority(_or(own.get("priority"), "invoked")),
        stops=_stops(body.get("stop")),
        is_stream=flag(_or(body.get("stream"), False), "stream"),
        with_usage=flag(_or(options.get("include_usage"), False), "stream_options.include_usage"),
        name=_name(_or(own.get("name"), "")),
        model=text(_or(body.get("model"), ""), "model"),
        deadline_ms=None if deadline is None else _number(deadline, 0, _DAY_MS, "midfill.deadline_ms"),
        adopt_ms=_number(_or(own.get("adopt_ms"), 0), 0, 60_000, "midfill.adopt_ms"),
        n_candidates=_within(integer(_or(body.get("n"), 1), "n"), 1, MAX_CANDIDATES, "n"),
        first_line=flag(_or(own.get("first_line"), False), "midfill.first_line"),
        is_private=flag(_or(own.get("private"), False), "midfill.private"),
        previous=_previous(_or(own.get("previous"), [])),
        chunks=_chunks(_or(own.get("chunks"), [])),
        n_logprobs=_within(integer(_or(own.get("logprobs"), 0), "midfill.logprobs"), 0, _MOST_TOKENS, "midfill.logprobs"),
    )


def _prompt(value: object) -> str | tuple[int, ...]:
    if isinstance(value, list) and value and isinstance(value[0], str | list):
        if len(value) != 1:
            raise PlainError("several prompts in one request are not supported; send one request for each")
        value = value[0]
    if isinstance(value, str):
        if not _is_encodable(value):
            raise PlainError("prompt has half a character (a lone surrogate)")
        return value
    if not isinstance(value, list):
        raise PlainError("prompt is missing" if value is None else "prompt is neither text nor a list of token ids")
    return token_ids(value, "prompt")


def token_ids(value: object, place: str) -> tuple[int, ...]:
    """Not yet compared with a vocabulary. PlainError: something else is among them."""
    if not isinstance(value, list) or set(map(type, value)) - {int}:  # one pass in C: this is a keystroke's path
        raise PlainError(f"{place} is not a list of token ids")
    if value and (min(value) < 0 or max(value) >= 1 << 31):
        raise PlainError(f"{place} has a token id that no vocabulary has")
    return tuple(value)


def _previous(value: object) -> tuple[int, ...]:
    tokens = token_ids(value, "midfill.previous")
    if len(tokens) > MAX_TOKENS:
        raise PlainError(f"midfill.previous has more than {MAX_TOKENS:,} tokens")
    return tokens


def _chunks(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(digest, str) and DIGEST.fullmatch(digest) for digest in value):
        raise PlainError("midfill.chunks is not a list of digests of 32 hexadecimal digits")
    if len(value) > MAX_CHUNKS:
        raise PlainError(f"midfill.chunks has more than {MAX_CHUNKS} digests")
    return tuple(value)


def _sampling(body: dict[str, Any], own: dict[str, Any]) -> SamplingParams:
    seed = integer(_or(body.get("seed"), -1), "seed")
    if seed < -1:
        raise PlainError("seed is negative")
    return SamplingParams(
        temperature=_number(_or(body.get("temperature"), 1.0), 0, 10, "temperature"),
        top_p=_number(_or(body.get("top_p"), 1.0), 0, 1, "top_p"),
        min_p=_number(_or(body.get("min_p"), 0.0), 0, 1, "min_p"),
        repeat_penalty=_number(_or(own.get("repeat_penalty"), 1.0), 0.01, 10, "midfill.repeat_penalty"),
        repeat_last_n=_within(
            integer(_or(own.get("repeat_last_n"), 64), "midfill.repeat_last_n"), 0, _MOST_TOKENS, "midfill.repeat_last_n"
        ),
        seed=secrets.randbits(62) if seed == -1 else seed,
    )


def _heal(value: object) -> bytes:
    try:
        heal = base64.b64decode(text(value, "midfill.heal").encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise PlainError("midfill.heal is not base64") from None
    if len(heal) > MAX_HEAL:
        raise PlainError(f"midfill.heal is longer than {MAX_HEAL:,} bytes")
    return heal


def _stops(value: object) -> tuple[str, ...]:
    stops = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or not all(isinstance(stop, str) and 0 < len(stop) <= MAX_STOP for stop in stops):
        raise PlainError(f"stop is neither a text nor a list of texts, of 1 to {MAX_STOP} characters each")
    if len(stops) > MAX_STOPS:
        raise PlainError(f"stop has more than {MAX_STOPS} texts")
    return tuple(stops)


def _priority(value: object) -> Priority:
    if not isinstance(value, str) or value not in _PRIORITIES:
        raise PlainError(f"midfill.priority is none of {', '.join(_PRIORITIES)}")
    return _PRIORITIES[value]


def _name(value: object) -> str:
    if value != "" and not (isinstance(value, str) and _NAME.fullmatch(value)):
        raise PlainError("midfill.name is not 1 to 64 letters, digits or any of .:_-")
    return str(value)


def _is_encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _or(value: Any, default: Any) -> Any:
    """null means the default, as for OpenAI."""
    return default if value is None else value


def _number(value: object, low: float, high: float, place: str) -> float:
    return _within(number(value, place), low, high, place)


def _within(value: N, low: float, high: float, place: str) -> N:
    if not low <= value <= high:
        raise PlainError(f"{place} is not between {low:g} and {high:g}")
    return value
