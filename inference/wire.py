"""What goes over the wire between an engine and its clients, as pure codecs over frozen values.

Owns the protocol's number, JSON in its strict form, the events of a stream (in the shape of OpenAI's text completions, with an
object `midfill` beside it), the greeting, and what a lease tells. The request itself is `inference.call`. Refuses sockets.

What comes from the other side is checked in full before it is a value of ours: WireError says in one sentence what is wrong.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NoReturn, TypeVar

from inference.plain import PlainError, from_plain, integer, shallow, table, text
from inference.types import Costs, Counters, FinishReason, GenerationStats, Ranked, TokenEvent

PROTOCOL = 1  # changes when an older side would misunderstand a newer one

T = TypeVar("T")

# What OpenAI's clients are told; ours read the exact word beside it.
_FINISH = {FinishReason.RESIDENT: "length", FinishReason.CONTEXT: "length"}


class WireError(ValueError):
    """What came over the wire can't be meant. The message is one sentence."""


class EngineState(StrEnum):
    """LOADING and UNLOADED engines take requests as well once their vocabulary is known: these wait for the weights."""

    LOADING = "loading"
    READY = "ready"
    UNLOADED = "unloaded"  # weights freed for want of requests; the next one brings them back
    FAILED = "failed"  # the model can't be loaded
    DRAINING = "draining"  # finishes what runs, takes nothing new, and ends


@dataclass(frozen=True, slots=True)
class News:
    """The state of an engine. share: of the weights loaded, 0 to 1. why: of a failure, one sentence."""

    state: EngineState
    share: float = 0.0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Hello:
    """What an engine says of itself. Digests are hexadecimal SHA-256; n_ctx is 0 and costs are None until they are known."""

    protocol: int
    version: str
    pid: int
    model_name: str
    model_path: str
    model_digest: str
    vocab_digest: str
    settings_digest: str
    settings: Mapping[str, object]
    n_ctx: int
    costs: Costs | None
    counters: Counters
    news: News
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Chunk:
    """One event of a stream. name: the request's. counters, costs: the engine's, with the last event. unknown_chunks: digests
    that the request named and the engine didn't know, with the last event."""

    name: str
    event: TokenEvent
    counters: Counters | None = None
    costs: Costs | None = None
    unknown_chunks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Envelope:
    """What is the same in all events of one stream. created: seconds since 1970."""

    name: str
    model: str
    created: int


@dataclass(frozen=True, slots=True)
class _Own:
    """The object `midfill` of an event."""

    stats: GenerationStats = field(default_factory=GenerationStats)
    finish: FinishReason | None = None
    error: str = ""
    counters: Counters | None = None
    costs: Costs | None = None
    ranking: tuple[Ranked, ...] = ()
    unknown_chunks: tuple[str, ...] = ()
    logprob: float | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """A text as OpenAI's clients read it. index: of the candidate in a stream, of the rank in a whole answer."""

    index: int
    text: str
    finish: FinishReason | None


def read_json(data: bytes) -> Any:
    """The value of a JSON text in UTF-8. WireError: it is none, is nested too deeply, or has numbers that are none."""
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise WireError("The body is not UTF-8.") from None
    except WireError:
        raise
    except RecursionError:
        raise WireError("The body is nested too deeply.") from None
    except ValueError as error:  # the message of a syntax error tells the place, never the text
        place = f" at byte {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise WireError(f"The body is not JSON{place}.") from None


def _refuse_constant(name: str) -> NoReturn:
    raise WireError(f"{name} is not a number of JSON.")


def to_json(value: Any) -> bytes:
    """Compact and in ASCII: some readers of event streams take other characters for line ends."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False, default=shallow).encode()


def decode(kind: type[T], data: bytes, what: str) -> T:
    """The JSON text as a value of that frozen class. WireError: it is none."""
    return _checked(kind, read_json(data), what)


def _checked(kind: type[T], value: object, what: str) -> T:
    try:
        return from_plain(kind, value, what)
    except PlainError as error:
        raise WireError(f"{error}.") from None


def settings_digest(settings: Mapping[str, object]) -> str:
    """Of settings in any order."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=shallow).encode()).hexdigest()


def decode_hello(data: bytes) -> Hello:
    """WireError: it is none, or of another protocol; `decode_protocol` reads those as well."""
    value = read_json(data)
    protocol = _protocol(value)[0]
    if protocol != PROTOCOL:
        raise WireError(f"The engine speaks protocol {protocol}, this midfill {PROTOCOL}; restart the older of the two.")
    return _checked(Hello, value, "hello")


def decode_protocol(data: bytes) -> tuple[int, str, int]:
    """Protocol, version and process of an engine, whatever protocol it speaks. These three keep their places for ever."""
    return _protocol(read_json(data))


def _protocol(value: object) -> tuple[int, str, int]:
    try:
        hello = table(value, "hello")
        return (
            integer(hello.get("protocol"), "hello.protocol"),
            text(hello.get("version"), "hello.version"),
            integer(hello.get("pid"), "hello.pid"),
        )
    except PlainError as error:
        raise WireError(f"{error}.") from None


def usage(stats: GenerationStats) -> dict[str, Any]:
    """Token counts as OpenAI's clients read them. Healing tokens count as generated."""
    completion = stats.n_generated + stats.n_healing
    return {
        "prompt_tokens": stats.n_prompt,
        "completion_tokens": completion,
        "total_tokens": stats.n_prompt + completion,
        "prompt_tokens_details": {"cached_tokens": stats.n_reused},
    }


def error_object(sentence: str, kind: str, code: str | None = None) -> dict[str, Any]:
    return {"message": sentence, "type": kind, "param": None, "code": code}


def encode_completion(
    envelope: Envelope,
    event: TokenEvent,
    counters: Counters | None = None,
    costs: Costs | None = None,
    *,
    choices: Sequence[Choice] = (),
    with_usage: bool = False,
    unknown_chunks: tuple[str, ...] = (),
) -> bytes:
    """One event's data, or with usage and the whole text in it the answer to a request that wants no stream. choices: what
    stands in it instead of the event's own text and finish."""
    choices = choices or (Choice(event.candidate, event.text, event.finish),)
    body: dict[str, Any] = {
        "id": envelope.name,
        "object": "text_completion",
        "created": envelope.created,
        "model": envelope.model,
        "choices": [
            {"index": c.index, "text": c.text, "logprobs": None, "finish_reason": c.finish and _FINISH.get(c.finish, c.finish)}
            for c in choices
        ],
        "midfill": _Own(event.stats, event.finish, event.error, counters, costs, event.ranking, unknown_chunks, event.logprob),
    }
    if event.finish is FinishReason.ERROR:
        body["error"] = error_object(event.error, "server_error", "engine_error")
    if with_usage:
        body["usage"] = usage(event.stats)
    return to_json(body)


def encode_usage(envelope: Envelope, stats: GenerationStats) -> bytes:
    """The event that OpenAI's streams have before their end for clients that ask for usage."""
    return to_json({
        "id": envelope.name, "object": "text_completion", "created": envelope.created, "model": envelope.model,
        "choices": [], "usage": usage(stats),
    })  # fmt: skip


def decode_completion(data: bytes, request_id: int) -> Chunk:
    """An event of `encode_completion`; request_id: what the receiver calls the request. WireError: it is none."""
    try:
        body = table(read_json(data), "the event")
        own = from_plain(_Own, body.get("midfill"), "midfill")
        choices = body.get("choices")
        if not isinstance(choices, list) or len(choices) != 1:
            raise PlainError("the event does not have one choice")
        choice = table(choices[0], "the choice")
        said, candidate = text(choice.get("text"), "the choice's text"), integer(choice.get("index"), "the choice's index")
        name = text(body.get("id"), "the event's id")
    except PlainError as error:
        raise WireError(f"{error}.") from None
    event = TokenEvent(request_id, said, own.stats, own.finish, own.error, candidate, own.ranking, own.logprob)
    return Chunk(name, event, own.counters, own.costs, own.unknown_chunks)
