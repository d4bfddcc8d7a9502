"""What a step takes with flash attention and without, by its rows and by what lies in front of it.

`python -m bench.attention [--model ID_OR_PATH] [--tokens N,…] [--rows N,…] [--json]`. The same model is opened twice, each way
once, and both hold the same prompt; then steps of so many rows are made behind so many tokens of it, in turn, and dropped.
`ratio`: time without flash attention ÷ with it, of medians; below 1, what the setting `auto` means on a CPU
(`inference.attention`) is right. `prefill_ms`: each prompt token in steps of 512, the first step's included.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file: the repository's root takes the place of this folder
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from bench.command import answer
from bench.errors import BenchError
from bench.progress import Progress
from bench.results import median
from bench.revision import revision
from inference.attention import OFF, ON
from inference.backend import Outcome, Row
from inference.config import EngineConfig
from inference.llama.model import LlamaBackend
from inference.measure import usable_cpus
from inference.models import store

_TEXT = b"def total(items: list[int]) -> int:\n    return sum(item for item in items if item)\n\n\n"


def measure(options: argparse.Namespace) -> dict[str, Any]:
    path, n_most = store.resolve(options.model, store.models_dir()), max(options.tokens) + max(options.rows)
    n_threads = options.threads or usable_cpus()
    progress = Progress("count of rows")
    opened: dict[str, LlamaBackend] = {}
    try:
        for way in (ON, OFF):
            config = EngineConfig(n_ctx=max(256, n_most), n_sequences=1, n_gpu_layers=0, flash_attention=way)
            opened[way] = LlamaBackend(config, path, n_threads=n_threads)
        if opened[ON].n_ctx_seq < n_most:
            raise BenchError(f"The model was trained for {opened[ON].n_ctx_seq} tokens, not for {n_most}; lower --tokens.")
        once = opened[ON].vocab.encode(_TEXT)
        tokens = (once * (n_most // len(once) + 1))[:n_most]
        prefill = {way: _prefill(backend, tokens[: max(options.tokens)]) for way, backend in opened.items()}
        steps = []
        for n_before in sorted(options.tokens, reverse=True):
            for i, n_rows in enumerate(options.rows):
                progress.show(f"behind {n_before} tokens", i, len(options.rows))
                times: dict[str, list[float]] = {ON: [], OFF: []}
                for k in range(options.rounds):
                    for way in (ON, OFF) if k % 2 else (OFF, ON):
                        times[way].append(_step(opened[way], tokens, n_before, n_rows))
                with_ms, without_ms = (median(times[way]) or 0.0 for way in (ON, OFF))
                steps.append({
                    "tokens": n_before, "rows": n_rows, "on_ms": round(with_ms, 2), "off_ms": round(without_ms, 2),
                    "ratio": round(without_ms / with_ms, 3),
                })  # fmt: skip
    finally:
        progress.end()
        for backend in opened.values():
            backend.close()
    return {
        "model": path.stem, "threads": n_threads, "commit": revision(), "rounds": options.rounds,
        "prefill_ms": {way: round(ms, 3) for way, ms in prefill.items()}, "steps": steps,
    }  # fmt: skip


def _prefill(backend: LlamaBackend, tokens: tuple[int, ...]) -> float:
    began = time.perf_counter()
    for start in range(0, len(tokens), backend.n_batch):
        chunk = tokens[start : start + backend.n_batch]
        _decode(backend, [Row(0, start + i, token) for i, token in enumerate(chunk)])
    return (time.perf_counter() - began) * 1000 / len(tokens)


def _step(backend: LlamaBackend, tokens: tuple[int, ...], n_before: int, n_rows: int) -> float:
    """In ms. What lies behind the n_before tokens is dropped first, so n_before may only fall."""
    backend.truncate(0, n_before)
    rows = [Row(0, n_before + i, tokens[n_before + i], wants_logits=i == n_rows - 1) for i in range(n_rows)]
    began = time.perf_counter()
    _decode(backend, rows)
    return (time.perf_counter() - began) * 1000


def _decode(backend: LlamaBackend, rows: list[Row]) -> None:
    outcome = backend.decode(rows)
    if outcome is not Outcome.OK:
        raise BenchError(f"The model refused a step of {len(rows)} rows: {outcome.value}.")


async def run(options: argparse.Namespace) -> dict[str, Any]:
    return await asyncio.to_thread(measure, options)


def table(made: dict[str, Any]) -> str:
    lines = [f"{made['model']}, {made['threads']} threads; a prompt token in ms: " + _both(made["prefill_ms"])]
    lines.append(f"{'tokens before':>13} {'rows':>5} {'on, ms':>9} {'off, ms':>9} {'off ÷ on':>9}")
    lines += [
        f"{step['tokens']:13} {step['rows']:5} {step['on_ms']:9.1f} {step['off_ms']:9.1f} {step['ratio']:9.2f}"
        for step in made["steps"]
    ]
    return "\n".join(lines)


def _both(by_way: dict[str, float]) -> str:
    return ", ".join(f"{way} {ms:.2f}" for way, ms in by_way.items())


def _counts(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.isdecimal() and 0 < int(part) <= 100_000 for part in parts):
        raise argparse.ArgumentTypeError("expected whole numbers, 1 or more, with commas between")
    return tuple(int(part) for part in parts)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.attention", description="Steps with and without flash attention.")
    made.add_argument("--model", default="qwen2.5-coder-0.5b", help="id of a pulled model, or path of a GGUF file")
    made.add_argument("--tokens", type=_counts, default=(200, 1500), help="in front of the steps")
    made.add_argument("--rows", type=_counts, default=(1, 2, 4, 8, 16, 32, 128), help="of a step, 512 at most")
    made.add_argument("--rounds", type=int, default=7, help="steps of each kind")
    made.add_argument("--threads", type=int, default=0, help="CPU threads; 0 = one per core")
    made.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    made.set_defaults(out=None)
    return made


def main(argv: list[str] | None = None) -> int:
    return answer(parser().parse_args(argv), run, table)


if __name__ == "__main__":
    sys.exit(main())
