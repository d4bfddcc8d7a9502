"""The parts of `bench.sessions`: how each is measured. What is measured, and why so, is told there."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from bench.errors import BenchError
from bench.llama_server import Peer
from bench.progress import Progress
from bench.prompts import Prompts
from bench.served import Served, finished, only_prompt, prefill
from bench.session_report import Samples, tokens_per_second
from bench.slots import ask_all
from bench.window import Load, Window
from inference.config import EngineConfig
from inference.types import GenerationRequest, Priority

T = TypeVar("T")

N_BATCH = 512
BURST_KEYS, PAUSE_S = 8, 1.0
_SECOND = 1  # the file that the second window types in
_LOAD = 2  # the first one of the background's


@dataclass(frozen=True, slots=True)
class Setup:
    """n_prompt: tokens of a session's prompt in the throughput part; n_long: of all others. pace_s: between keys."""

    model: Path
    n: int
    n_threads: int
    n_rounds: int
    n_predict: int
    n_prompt: int
    n_long: int
    n_known: int
    n_keys: int
    pace_s: float

    def engine(self, **more: Any) -> EngineConfig:
        """Room for all sessions at once; otherwise as usual. The engine has cells for two sequences of n_ctx."""
        n_cells = max(self.n * (self.n_prompt + self.n_predict), 4 * self.n_long)
        n_ctx = max(EngineConfig().n_ctx, -(-(n_cells // 2 + 512) // 1024) * 1024)
        return EngineConfig(n_ctx=n_ctx, n_sequences=self.n, n_threads=self.n_threads, linger_s=0.0, prompt_cache=False, **more)


async def throughput(setup: Setup, samples: Samples, progress: Progress) -> None:
    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(Served(setup.model, setup.engine()))
        client = served.client
        prompts = _prompts(served)
        starts = [prompts.at_the_end(i, setup.n_prompt) for i in range(setup.n)]
        peer = stack.enter_context(
            Peer(
                str(setup.model), n_threads=setup.n_threads, n_ctx=setup.n * max(1024, setup.n_prompt + setup.n_predict + 64),
                n_batch=N_BATCH, n_parallel=setup.n,
            )
        )  # fmt: skip
        counts = {f"{side}_tokens": 0 for side in ("sequential", "batched", "llama_server")}
        evaluated = {"prompt_tokens_evaluated": 0, "llama_server_prompt_tokens_evaluated": 0}

        async def fresh() -> None:
            for start in starts:  # without its last token, which llama-server evaluates again as well
                await only_prompt(client, start[:-1])

        async def ask(start: tuple[int, ...]) -> int:
            request = GenerationRequest(client.next_id(), start, n_max=setup.n_predict, priority=Priority.INVOKED)
            stats = (await finished(client, request)).stats
            evaluated["prompt_tokens_evaluated"] += stats.n_evaluated
            return stats.n_generated

        async def sequential() -> list[int]:
            return [await ask(start) for start in starts]

        async def batched() -> list[int]:
            return list(await asyncio.gather(*map(ask, starts)))

        async def llama_server() -> list[int]:
            done = await asyncio.to_thread(ask_all, peer, starts, setup.n_predict)
            evaluated["llama_server_prompt_tokens_evaluated"] += sum(each.n_prompt for each in done)
            return [each.n for each in done]

        progress.show("throughput, prompts", 0, 1)
        await fresh()
        await asyncio.to_thread(ask_all, peer, starts, 1)
        sides: tuple[Callable[[], Awaitable[list[int]]], ...] = (sequential, batched, llama_server)
        for k in range(setup.n_rounds):
            for side in _turned(sides, k):
                if side is not llama_server:
                    await fresh()  # or the second side would find what the first has generated
                else:
                    await asyncio.to_thread(peer.wait_until_idle)
                began = time.perf_counter()
                n_tokens = await side()
                seconds = time.perf_counter() - began
                samples.tps.setdefault(side.__name__, []).append(tokens_per_second(n_tokens, seconds))
                counts[f"{side.__name__}_tokens"] += sum(n_tokens)
            progress.show("throughput", k + 1, setup.n_rounds)
        samples.counts |= {**counts, **evaluated, "session_prompt_tokens": sum(map(len, starts))}


async def known(setup: Setup, samples: Samples, progress: Progress) -> None:
    config = setup.engine(n_stowed=max(EngineConfig().n_stowed, setup.n_known))
    async with AsyncExitStack() as stack:
        one, many = [await stack.enter_async_context(Served(setup.model, config)) for _ in range(2)]
        prompts = _prompts(one)
        typing = prompts.typing(0, setup.n_long, 8 * setup.n_keys)
        others = [prompts.in_the_middle(_LOAD + i, setup.n_long) for i in range(setup.n_known - 1)]
        for i, prompt in enumerate(others[:-1]):
            progress.show("known, prompts", i, len(others))
            await prefill(many.client, prompt)
        window = Window(many.client, replace(typing, keys=typing.keys[: setup.n_keys]), setup.pace_s)
        samples.counts |= await _bursts(many, window, others[-1])
        # what nobody has typed before: else the one engine would know its answers
        unknown = prompts.typing(_SECOND, setup.n_long, 8 * setup.n_keys * setup.n_rounds).typed
        n_keys, rows = min(setup.n_keys, len(unknown) // setup.n_rounds), {"one": 0, "many": 0}
        for k in range(setup.n_rounds):
            for served in (one, many):
                await only_prompt(served.client, typing.base)
            typed = unknown[k * n_keys : (k + 1) * n_keys]
            for n in range(1, n_keys + 1):
                for name, served in _turned((("one", one), ("many", many)), n):
                    client = served.client
                    request = GenerationRequest(client.next_id(), (*typing.base, *typed[:n]), n_max=1)
                    began = time.perf_counter()
                    event = await finished(client, request)
                    samples.step_ms.setdefault(name, []).append((time.perf_counter() - began) * 1000)
                    rows[name] += event.stats.n_rows
            progress.show("known", k + 1, setup.n_rounds)
        if len(set(rows.values())) > 1:
            raise BenchError(f"the engines evaluated {rows} rows for the same keys: their steps can't be compared")
        lengths = [len(prompt) for prompt in (*others, typing.base)]
        found = [await many.client.n_reusable(prompt) for prompt in (*others, typing.base)]
        if found != lengths:
            raise BenchError(f"the engine knows {found} tokens of prompts of {lengths}; give it more room with --n")
        samples.counts |= {
            "known_sequences": len(found),
            "known_tokens": sum(found),
            "keystroke_steps": len(samples.step_ms["one"]),
        }
        samples.counts |= {f"keystroke_rows_{name}_known": n for name, n in rows.items()}


async def typing(setup: Setup, samples: Samples, progress: Progress) -> None:
    async with Served(setup.model, setup.engine()) as served:
        prompts = _prompts(served)
        first = Window(served.client, prompts.typing(0, setup.n_long, setup.n_keys), setup.pace_s)
        second = Window(await served.connect(), prompts.typing(_SECOND, setup.n_long, setup.n_keys), setup.pace_s)
        numbers = itertools.count()
        load = [prompts.in_the_middle(_LOAD + i, setup.n_long) for i in range(4)]
        start = prompts.at_the_end(_LOAD + 4, 64)
        n_background = 0

        async def alone() -> list[float]:
            return await first.type()

        async def under_load(typed: Callable[[], Awaitable[list[float]]] = alone) -> list[float]:
            nonlocal n_background
            async with Load(served.client, load, start, numbers):
                before = await served.n_background()
                times = await typed()
                n = await served.n_background() - before
            if not n:
                raise BenchError("the background stood still while somebody typed: this shows nothing")
            n_background += n
            return times

        async def two_without_load() -> list[float]:
            done = asyncio.Event()
            beside = asyncio.create_task(second.type_until(done))
            await asyncio.sleep(setup.pace_s / 2)
            try:
                return await first.type()
            finally:
                done.set()
                await beside

        async def two_windows() -> list[float]:
            return await under_load(two_without_load)

        sides: tuple[Callable[[], Awaitable[list[float]]], ...] = (alone, under_load, two_windows, two_without_load)
        progress.show("typing, prompts", 0, 1)
        for k in range(setup.n_rounds):
            for side in _turned(sides, k):
                await second.open()
                await first.open()
                samples.first_ms.setdefault(side.__name__, []).extend(await side())
            progress.show("typing", k + 1, setup.n_rounds)
        samples.counts |= {"keys": len(samples.first_ms["alone"]), "background_tokens_under_load": n_background}


async def _bursts(served: Served, window: Window, prompt: tuple[int, ...]) -> dict[str, Any]:
    await window.open()
    done = asyncio.Event()
    typist = asyncio.create_task(window.type_until(done, burst=BURST_KEYS, pause_s=PAUSE_S))
    try:
        request = GenerationRequest(served.client.next_id(), prompt, n_max=0, priority=Priority.BACKGROUND)
        stats = (await finished(served.client, request)).stats
    finally:
        done.set()
        n_keys = await typist
    n = stats.n_evaluated
    share = round((stats.n_rows - n) / n, 4)
    return {"evaluated_twice_share": share, "burst_prefill_tokens": n, "burst_prefill_rows": stats.n_rows, "burst_keys": n_keys}


def _prompts(served: Served) -> Prompts:
    return Prompts(served.client.vocab, served.client.model_name)


def _turned(sides: Sequence[T], k: int) -> list[T]:
    """Another one first in each round."""
    k %= len(sides)
    return [*sides[k:], *sides[:k]]
