"""Beside other programs: what a request costs on a quiet machine, beside programs that compute, and beside another model.

`python -m bench.busy [--others N] [--rounds N] [--json]`. Two sides, each a process of its own with a thread for each core: the
engine as a language server starts it, and llama-server. Each evaluates a prompt of `--prompt-tokens` that it has not seen and
generates `--tokens`, in turns: first quiet, then beside `--others` processes that do nothing but compute (a build, say), then
beside another llama-server that generates without end on as many threads. Milliseconds of the whole request, median and most.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file: the repository's root takes the place of this folder
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import psutil

from bench.command import answer
from bench.llama_server import Peer
from bench.midline import positive
from bench.progress import Progress
from bench.prompts import Prompts
from bench.revision import revision
from bench.served import Served, finished
from bench.slots import ask_all
from inference.config import EngineConfig
from inference.models import store
from inference.types import GenerationRequest, Priority

SIDES = ("midfill", "llama_server")
STATES = ("quiet", "computing", "another_model")


async def run(options: argparse.Namespace) -> dict[str, Any]:
    model, n_threads = store.resolve(options.model, store.models_dir()), psutil.cpu_count(logical=False) or 1
    samples: dict[tuple[str, str], list[float]] = {}
    progress = Progress("round")
    async with contextlib.AsyncExitStack() as stack:
        config = EngineConfig(n_threads=n_threads, linger_s=0.0, prompt_cache=False)
        served = await stack.enter_async_context(Served(model, config))
        peer = stack.enter_context(Peer(str(model), n_threads=n_threads, n_ctx=4096, n_batch=512))
        prompts = Prompts(served.client.vocab, served.client.model_name)

        async def ask(side: str, tokens: tuple[int, ...]) -> float:
            began = time.perf_counter()
            if side == "llama_server":
                await asyncio.to_thread(ask_all, peer, [tokens], options.tokens)
            else:
                client = served.client
                request = GenerationRequest(client.next_id(), tokens, n_max=options.tokens, priority=Priority.INVOKED)
                await finished(client, request)
            return (time.perf_counter() - began) * 1000

        n = 0
        for state in STATES:
            with _others(state, options.others, lambda: Peer(str(model), n_threads=n_threads, n_ctx=4096, n_batch=512)):
                for k in range(options.rounds + (state == "quiet")):
                    tokens, n = prompts.at_the_end(n, options.prompt_tokens), n + 1
                    for side in SIDES[k % 2 :] + SIDES[: k % 2]:
                        ms = await ask(side, tokens)
                        if k or state != "quiet":  # the first one of all warms up
                            samples.setdefault((state, side), []).append(ms)
                    progress.show(state, k, options.rounds)
        progress.end()
    ms = {state: {side: _summary(samples[state, side]) for side in SIDES} for state in STATES}
    about = {"model": model.stem, "threads": n_threads, "others": options.others, "rounds": options.rounds}
    return {"ms": ms, "prompt_tokens": options.prompt_tokens, "generated": options.tokens, **about, "commit": revision()}


def _summary(samples: list[float]) -> dict[str, float]:
    return {"median": round(statistics.median(samples), 1), "most": round(max(samples), 1)}


@contextlib.contextmanager
def _others(state: str, n: int, open_peer: Callable[[], Peer]) -> Iterator[None]:
    """The neighbours of this state, until it is left."""
    if state == "quiet":
        yield
    elif state == "computing":
        hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
        try:
            yield
        finally:
            for hog in hogs:
                hog.kill()
                hog.wait()
    else:
        with open_peer() as peer:
            is_over = threading.Event()

            def generate() -> None:
                while not is_over.is_set():
                    ask_all(peer, [tuple(range(1000, 1032))], 64)

            with ThreadPoolExecutor(1) as pool:
                generating = pool.submit(generate)
                try:
                    yield
                finally:
                    is_over.set()
                    generating.result()


def table(made: Mapping[str, Any]) -> str:
    """The report for people."""
    lines = [f"{'ms: median (most)':<20}" + "".join(f"{side:>20}" for side in SIDES)]
    for state, row in made["ms"].items():
        cells = (f"{row[side]['median']:,.0f} ({row[side]['most']:,.0f})" for side in SIDES)
        lines.append(f"{state:<20}" + "".join(f"{cell:>20}" for cell in cells))
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.busy", description="A request beside other programs.")
    made.add_argument("--model", default="qwen2.5-coder-0.5b", help="id of a pulled model, or path of a GGUF file")
    made.add_argument("--others", type=positive, default=psutil.cpu_count() or 1, help="processes that compute")
    made.add_argument("--rounds", type=positive, default=7, help="requests of each side in each state")
    made.add_argument("--prompt-tokens", type=positive, default=64, help="tokens of each prompt")
    made.add_argument("--tokens", type=positive, default=8, help="tokens generated")
    made.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    made.set_defaults(out=None)
    return made


def main(argv: list[str] | None = None) -> int:
    return answer(parser().parse_args(argv), run, table)


if __name__ == "__main__":
    sys.exit(main())
