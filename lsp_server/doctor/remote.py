"""Findings about an engine on another machine: is the address one, is the key one, does that engine answer, has it its model.

Owns this check. Refuses what that machine is like: doctor tells it there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from inference.clients.http_session import Gone, Session
from inference.config import EngineConfig
from inference.endpoint import Endpoint, at_url
from inference.types import EngineError
from inference.wire import EngineState, Hello, WireError, decode_hello
from lsp_server.doctor.findings import Finding, fault, note, ok

_TOPIC = "engine_url"


def remote(config: EngineConfig) -> Iterator[Finding]:
    """What the engine at `engine_url` says of itself, or why editors get nothing from it."""
    url = config.engine_url.rpartition("@")[2]  # a password that somebody wrote into it is not shown
    try:
        hello = asyncio.run(_greet(at_url(config.engine_url, config.api_key_file)))
    except Gone as error:
        why = str(error).partition(";")[0]
        yield fault(_TOPIC, f"{url}: {why}", f"start one there (`midfill engine --host ...`), or set {_TOPIC} = \"\"")
        return
    except (EngineError, WireError) as error:
        yield fault(_TOPIC, f"{url}: {error}", f"correct {_TOPIC} and api_key_file, or set {_TOPIC} = \"\"")
        return
    text = f"midfill {hello.version} at {url}, {hello.model_name}"
    if hello.news.state is EngineState.FAILED:
        yield fault(_TOPIC, f"{text}, which it can't load: {hello.news.why}", "run `midfill doctor` there")
    elif hello.news.state is EngineState.DRAINING:
        yield note(_TOPIC, f"{text}, is about to end", "start it again there, if nobody does")
    else:
        yield ok(_TOPIC, f"{text}, {hello.news.state}")


async def _greet(where: Endpoint) -> Hello:
    async with Session(where) as session:
        return decode_hello(await session.ask("GET", "/midfill/hello"))
