"""What a decoded token costs beside the model: CPU time of the engine's own thread outside of llama.cpp.

`python -m bench.overhead [--json]`. The engine runs in this process on its thread, as in its own, and is asked through the
client of the same process. Counted are the steps in which nothing but generated tokens goes through the model:

    overhead = CPU time of the engine's thread, less that inside of llama_decode and llama_synchronize
               ÷ wall time of these steps

llama.cpp's other threads count as little as waiting for them; the clocks' own cost counts as ours. `parts` says where it goes,
in µs of CPU time per step, each without the parts in it; `backend` is what is done around llama_decode before and after.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file: the repository's root takes the place of this folder
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import psutil

from bench.errors import BenchError
from bench.meter import Meter, Span
from bench.progress import Progress
from bench.prompts import Prompts
from bench.results import median
from bench.revision import revision
from inference import run as run_module
from inference.backend import Vocab
from inference.clients.local import LocalClient
from inference.config import EngineConfig
from inference.engine import Engine
from inference.models import store
from inference.types import EngineError, FinishReason, GenerationRequest, Priority

N_PROMPT = 512
_RUN: Any = run_module  # what is timed there is replaced meanwhile
STEP = "rest of the step"
_NATIVE = "llama_decode"


class Watched:
    """An engine whose steps are metered. decoding: counts of steps that held generated tokens alone, one span a part."""

    def __init__(self, engine: Engine, meter: Meter, native: Sequence[tuple[Any, str]]) -> None:
        """native: what is llama.cpp's: attributes of objects or modules. To be made before the engine's thread begins."""
        self._meter = meter
        self.parts: dict[str, Span] = {}
        self.n_steps = self.n_tokens = 0
        self.shares: list[float] = []  # overhead of each step
        self._n_rows = self._n_prefilled = 0
        for owner, attribute in native:
            meter.put(owner, attribute, _NATIVE)
        backend: Any = engine._backend
        if (backend, "decode") not in native:
            meter.put(backend, "decode", "backend")
        counted = backend.decode

        def decode(rows: Sequence[Any]) -> Any:
            self._n_rows += len(rows)
            self._n_prefilled += sum(not row.wants_logits for row in rows)
            return counted(rows)

        backend.decode = decode
        meter.put(engine._scheduler, "plan", "scheduler")
        meter.put(engine._admission, "admit", "admission")
        meter.put(engine.kv, "keep_logits", "kept logits")
        meter.put(engine.kv, "settle", "settling")
        meter.put(engine.kv, "stored", "cache's record")
        meter.put(engine.table, "observe", "cost table")
        meter.put(engine._inbox, "begin_step", "inbox")
        meter.put(engine._inbox, "end_step", "inbox")
        meter.put(_RUN, "choose", "sampler")
        meter.put(_RUN.Run, "_say", "events")
        self._step = meter.timed(STEP, engine.step)
        engine.step = self.step  # type: ignore[method-assign]

    def step(self) -> bool:
        """One step of the engine, counted if it was one of generated tokens alone."""
        self._meter.clear()
        self._n_rows = self._n_prefilled = 0
        is_busy: bool = self._step()
        # the first token of a prompt ends its prefill: only what has a single row for each request counts
        if self._n_rows and not self._n_prefilled:
            self._count(self._meter.spans)
        return is_busy

    def _count(self, spans: dict[str, Span]) -> None:
        self.n_steps += 1
        self.n_tokens += self._n_rows
        self.shares.append(overhead(spans))
        for name, span in spans.items():
            part = self.parts.setdefault(name, Span())
            part.n += span.n
            part.cpu_s += span.cpu_s
            part.wall_s += span.wall_s
            part.whole_s += span.whole_s

    def report(self) -> dict[str, Any]:
        """overhead_pct: of all steps together. BenchError: there were none."""
        if not self.n_steps:
            raise BenchError("no token was generated: choose another model")
        ours = {name: span for name, span in self.parts.items() if name != _NATIVE}
        cpu_s, step_s = sum(span.cpu_s for span in ours.values()), self.parts[STEP].whole_s
        beside_backend = cpu_s - (ours["backend"].cpu_s if "backend" in ours else 0.0)
        middle = median(self.shares)
        return {
            "overhead_pct": round(100 * cpu_s / step_s, 3),
            "overhead_pct_median_step": None if middle is None else round(100 * middle, 3),
            "overhead_pct_without_backend": round(100 * beside_backend / step_s, 3),
            "overhead_us_per_token": round(1e6 * cpu_s / self.n_tokens, 1),
            "step_ms": round(1000 * step_s / self.n_steps, 2),
            "steps": self.n_steps,
            "tokens": self.n_tokens,
            "parts": {
                name: round(1e6 * span.cpu_s / self.n_steps, 1)
                for name, span in sorted(ours.items(), key=lambda item: -item[1].cpu_s)
            },
        }


def overhead(spans: dict[str, Span]) -> float:
    """CPU time outside of the model ÷ wall time of the step."""
    return sum(span.cpu_s for name, span in spans.items() if name != _NATIVE) / spans[STEP].whole_s


async def generate(
    client: LocalClient, prompts: Callable[[int], tuple[int, ...]], n_tokens: int, n_at_once: int, progress: Progress
) -> None:
    """At least n_tokens, from one prompt after the other, n_at_once of them at a time."""
    n_done = k = 0
    n_max = max(1, min(256, -(-n_tokens // n_at_once)))

    async def one(i: int, most: int) -> int:
        request = GenerationRequest(client.next_id(), prompts(i), n_max=most, priority=Priority.INVOKED)
        stream = client.submit(request)
        while (event := await stream.next()).finish is None:
            pass
        if event.finish is FinishReason.ERROR:
            raise BenchError(f"the engine failed: {event.error}")
        return event.stats.n_generated

    while n_done < n_tokens:
        before = n_done
        for i in range(n_at_once):
            await one(k + i, 0)  # all of them resident, so that they generate in the same steps
        n_done += sum(await asyncio.gather(*(one(k + i, n_max) for i in range(n_at_once))))
        k += n_at_once
        progress.show("overhead", min(n_done, n_tokens), n_tokens)
        if n_done == before and k > 8 * n_at_once:
            raise BenchError("no token was generated: choose another model")


async def measure(
    engine: Engine,
    vocab: Vocab,
    name: str,
    native: Sequence[tuple[Any, str]],
    n_tokens: int,
    n_at_once: int,
    meter: Meter | None = None,
) -> dict[str, Any]:
    """See the module. The engine is closed at the end."""
    choose, say = _RUN.choose, _RUN.Run._say
    progress = Progress("token")
    try:
        watched = Watched(engine, meter or Meter(), native)
        client = LocalClient(engine, vocab, name)
        try:
            made = Prompts(vocab, name)
            n_prompt = min(N_PROMPT, client.n_ctx // 2)
            await generate(client, lambda i: made.at_the_end(i, n_prompt), n_tokens, n_at_once, progress)
        finally:
            await client.aclose()
    finally:
        _RUN.choose, _RUN.Run._say = choose, say
    progress.end()
    return watched.report()


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.overhead", description="CPU time per token beside the model.")
    made.add_argument("--model", default="qwen2.5-coder-0.5b", help="id of a pulled model, or path of a GGUF file")
    made.add_argument("--threads", type=int, default=0, help="CPU threads; 0 = one per core")
    made.add_argument("--tokens", type=_count, default=400, help="to be generated")
    made.add_argument("--at-once", type=_count, default=1, help="requests at once")
    made.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    return made


def _count(value: str) -> int:
    if not value.isdecimal() or not 1 <= int(value) <= 1_000_000:
        raise argparse.ArgumentTypeError("expected a whole number, 1 or more")
    return int(value)


def run(options: argparse.Namespace) -> dict[str, Any]:
    import llama_cpp

    from inference.llama.opening import open_engine
    from lsp_server.dirs import cache_dir

    path = store.resolve(options.model, store.models_dir())
    n_threads = options.threads or psutil.cpu_count(logical=False) or 1
    config = EngineConfig(n_threads=n_threads, n_sequences=max(EngineConfig().n_sequences, options.at_once), prompt_cache=False)
    engine, vocab = open_engine(config, path, cache_dir())
    native = [(llama_cpp, "llama_decode"), (llama_cpp, "llama_synchronize")]
    made = asyncio.run(measure(engine, vocab, path.stem, native, options.tokens, options.at_once))
    about = {"model": path.stem, "commit": revision(), "threads": n_threads, "at_once": options.at_once}
    return {**made, **about}


def main(argv: list[str] | None = None) -> int:
    options = parser().parse_args(argv)
    try:
        made = run(options)
    except KeyboardInterrupt:
        print("\ninterrupted: nothing is reported", file=sys.stderr)
        return 130
    except (BenchError, EngineError) as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(made))
        return 0
    parts = made.pop("parts")
    for name, value in made.items():
        print(f"{name:<32}{value if value is not None else '-':>14}")
    for name, micros in parts.items():
        print(f"  {name:<30}{micros:>14,} µs per step")
    print(f"{'overhead':<32}{made['overhead_pct']:>14} %  <= 3  {'pass' if made['overhead_pct'] <= 3 else 'miss'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
