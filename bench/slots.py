"""llama-server with several slots: the same token prompts, each in a slot of its own, streamed and greedy.

Owns the requests and their threads; the process is `llama_server`'s. Slots keep their prompts between requests, as ours do.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from bench.errors import BenchError
from bench.llama_server import Peer

_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class Generated:
    """n_prompt: prompt tokens that were evaluated for it. n: tokens generated."""

    n_prompt: int
    n: int


def ask_all(peer: Peer, prompts: Sequence[tuple[int, ...]], n_predict: int) -> list[Generated]:
    """All at once, prompt i in slot i; returns when the last one has ended."""
    with ThreadPoolExecutor(len(prompts)) as pool:
        return list(pool.map(lambda i: _ask(peer.address, i, prompts[i], n_predict), range(len(prompts))))


def _ask(address: tuple[str, int], slot: int, tokens: tuple[int, ...], n_predict: int) -> Generated:
    body = {
        "prompt": tokens, "n_predict": n_predict, "id_slot": slot, "cache_prompt": True, "stream": True,
        "temperature": 0, "top_k": 1, "samplers": ["top_k"],
    }  # fmt: skip
    connection = http.client.HTTPConnection(*address, timeout=_TIMEOUT_S)
    try:
        connection.request("POST", "/completion", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise BenchError(f"llama-server answered {response.status}: {response.read(500)!r}")
        return generated(response)
    except (OSError, http.client.HTTPException) as error:
        raise BenchError(f"llama-server broke off: {type(error).__name__}") from None
    finally:
        connection.close()


def generated(lines: Sequence[bytes] | http.client.HTTPResponse) -> Generated:
    """What the last event of a stream tells."""
    for line in lines:
        if line.startswith(b"data: {"):
            event = json.loads(line[len(b"data: ") :])
            if event.get("stop"):
                return Generated(event["timings"]["prompt_n"], event["timings"]["predicted_n"])
    raise BenchError("llama-server ended a reply in the middle")
