"""Does drafting pay? Steps, cost and time with drafts of each source and of all, against none.

`python -m bench.speculation [--model ID] [--draft ID|none] [--json]`. Three tasks (`bench.speculation_tasks`): new code; the
same edit repeated in several places; finishing a suggestion whose surroundings have changed. Each source is forced once,
whatever it costs; then the controller has all of them.

    steps_ratio   steps without ÷ steps with, of a forced source: larger is better
    cost_ratio    cost with ÷ cost without, by the cost table, all steps of target and draft: smaller is better
    clock_ratio   time without ÷ time with, the median of pairs that were run in turns: larger is better

`positions`: how often a token of the draft model stands if all before it do, by position; for `bench.gpu.drafting`.
Where a near tie parts two texts, both are counted by their own tokens. The bar: cost ≤ 1.02 and clock ≥ 0.95 on every task.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file: the repository's root takes the place of this folder
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from bench.command import answer
from bench.errors import BenchError
from bench.progress import Progress
from bench.results import median
from bench.revision import revision
from bench.speculation_rig import ALL, OFF, Pass, Rig, StandingTable
from bench.speculation_tasks import Place, tasks
from inference.config import EngineConfig
from inference.models import store

LEAST_PAIRS = 7


def ratios(rig: Rig, places: tuple[Place, ...], n_pairs: int, progress: Progress, name: str) -> dict[str, Any]:
    """Of one task."""
    n_total = 1 + len(rig.sources) + 2 * n_pairs
    progress.show(name, 0, n_total)
    plain = rig.run(places, OFF)
    if not plain.n_tokens:
        raise BenchError(f"The model has written nothing for {name}; take a larger one.")
    steps: dict[str, float] = {}
    acceptance: dict[str, float] = {}
    for i, source in enumerate(rig.sources, 1):
        progress.show(name, i, n_total)
        forced = rig.run(places, source)
        steps[source] = round(per_token(plain.n_steps, plain) / per_token(forced.n_steps, forced), 3)
        acceptance |= {source: forced.acceptance.get(source, 0.0)}
    pairs = []
    for i in range(n_pairs):
        progress.show(name, n_total - 2 * (n_pairs - i), n_total)
        pair = [rig.run(places, kind) for kind in ((OFF, ALL) if i % 2 else (ALL, OFF))]
        off, all_ = pair if i % 2 else reversed(pair)
        pairs.append(per_token(off.clock, off) / per_token(all_.clock, all_))
    return {
        "steps_ratio": steps,
        "cost_ratio_controller": round(per_token(all_.cost, all_) / per_token(off.cost, off), 4),
        "clock_ratio_controller": round(median(pairs) or 0.0, 3),
        "acceptance": acceptance,
    }


def per_token(value: float, of: Pass) -> float:
    return value / max(1, of.n_tokens)


def open_rig(options: argparse.Namespace) -> Rig:
    from inference.llama.draft import open_draft
    from inference.llama.model import LlamaBackend
    from inference.llama.timing import key_of, measured_for
    from lsp_server.app import cache_dir

    directory = store.models_dir()
    path = store.resolve(options.model, directory)
    config = EngineConfig(n_ctx=2048, n_sequences=2, n_threads=options.threads, prompt_cache=False)
    backend = LlamaBackend(config, path)
    measured, _ = measured_for(config, backend, key_of(config, backend, path), cache_dir())
    assert measured is not None
    backend.set_threads(options.threads or measured.n_threads)
    table = StandingTable(replace(measured.costs, on_cpu=backend.on_cpu), measured.rows)
    if options.draft == "none":
        return Rig(backend, table)
    beside = open_draft(config, store.resolve(options.draft, directory), backend, cache_dir())
    if beside.backend is None or beside.table is None:
        raise BenchError(beside.notice)
    return Rig(backend, table, beside.backend, StandingTable(beside.table.costs, beside.table.rows))


async def run(options: argparse.Namespace) -> dict[str, Any]:
    return await asyncio.to_thread(measure, options)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    progress = Progress("pass")
    rig = open_rig(options)
    try:
        made = {
            name: ratios(rig, places, options.pairs, progress, name)
            for name, places in tasks(options.tokens, options.places).items()
        }
    finally:
        progress.end()
        for backend in (rig.target, rig.draft):
            if backend is not None:
                backend.close()
    return {
        "model": options.model, "draft": options.draft, "tasks": made, "commit": revision(),
        "table": [list(row) for row in rig.table.rows], "pairs": options.pairs, "tokens": options.tokens,
        "positions": [round(right / reached, 3) for reached, right in rig.positions.values()],
    }  # fmt: skip


def table(made: dict[str, Any]) -> str:
    lines = [f"{made['model']}, draft: {made['draft']}"]
    for name, task in made["tasks"].items():
        forced = ", ".join(
            f"{source} {ratio:.2f} ({task['acceptance'][source]:.0%})" for source, ratio in task["steps_ratio"].items()
        )
        cost, clock = task["cost_ratio_controller"], task["clock_ratio_controller"]
        lines.append(f"{name:<20} steps ÷ {forced}")
        lines.append(f"{'':<20} controller: cost {cost:.3f}  <= 1.02  {'pass' if cost <= 1.02 else 'miss'}")
        lines.append(f"{'':<20} controller: clock {clock:.2f}  >= 0.95  {'pass' if clock >= 0.95 else 'miss'}")
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.speculation", description="What drafts save, and what they cost.")
    made.add_argument("--model", default="qwen2.5-coder-1.5b", help="id, name or path")
    made.add_argument("--draft", default="qwen2.5-coder-0.5b", help="the same, or none")
    made.add_argument("--json", action="store_true", help="print JSON")
    made.add_argument("--threads", type=int, default=0, help="CPU threads; 0 = as measured")
    made.add_argument("--tokens", type=int, default=96, help="most tokens written at each place")
    made.add_argument("--places", type=int, default=5, help="most places of each task")
    made.add_argument("--pairs", type=int, default=LEAST_PAIRS, help="runs with and without, in turns")
    made.set_defaults(out=None)
    return made


def main(argv: list[str] | None = None) -> int:
    return answer(parser().parse_args(argv), run, table)


if __name__ == "__main__":
    sys.exit(main())
