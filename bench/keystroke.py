"""A block typed into a file of some 300 lines, key by key: midfill's server against llama-server's `/infill`.

`python -m bench.keystroke --model ID_OR_PATH [--json]` runs, one after the other and never two at a time: midfill with the next
key waiting for the reply; midfill at single-line places without a deadline (steps to the reply); midfill at a fixed pace;
llama-server waiting, then paced; llama-server with larger batches, for its prompt tokens alone. Every run starts its system
anew with an empty cache, on the same file, keys, GGUF, thread count, context window and most tokens, all greedy.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file: the repository's root takes the place of this folder
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import psutil

from bench import material, results
from bench.errors import BenchError
from bench.llama_server import Peer
from bench.material import Material
from bench.midfill import Midfill
from bench.peer_session import run_paced, run_session
from bench.script import Pace, Step, write_script
from inference.models import store
from inference.types import EngineError

Progress = Callable[[int, int], None]
N_CTX = 4096
N_BATCH = 512
BOTH = ("midfill", "llama-server")


@dataclass(frozen=True, slots=True)
class Setup:
    """What both systems are given."""

    material: Material
    steps: tuple[Step, ...]
    model: str
    n_threads: int
    n_predict: int
    pace: Pace
    period_s: float
    n_beside: int
    peer_python: str


def progress(name: str) -> Progress:
    """Says on standard error how far a run is, twice a second at most."""
    last = [0.0]

    def show(n_done: int, n_total: int) -> None:
        if time.monotonic() - last[0] > 0.5:
            last[0] = time.monotonic()
            print(f"\r{name}: key {n_done} of {n_total}   ", end="", file=sys.stderr, flush=True)

    return show


def run_midfill(setup: Setup) -> tuple[dict[str, Any], float | None, dict[str, Any]]:
    """The report, the share shown when paced, and what is said about the run."""
    options: dict[str, Any] = {"n_threads": setup.n_threads, "n_predict": setup.n_predict}
    with Midfill(setup.model, **options) as midfill:
        midfill.open(setup.material)
        session = midfill.run_session(setup.steps, setup.pace, progress("midfill"))
    with Midfill(setup.model, deadline_ms=0, **options) as midfill:
        midfill.open(setup.material)
        undelayed = midfill.run_single_lines(setup.steps, setup.pace, progress("midfill, no deadline"))
    with Midfill(setup.model, **options) as midfill:
        midfill.open(setup.material)
        shown = midfill.run_paced(setup.steps, setup.period_s, progress("midfill, paced"))
    about = {
        "midfill_positions": results.split_of(session),
        "midfill_context_median": results.context_of(session),
        "midfill_reply_ms_latest": results.latest_of(session),
    }
    return results.midfill_report(session, undelayed), results.share(shown), about


def run_llama_server(setup: Setup) -> tuple[dict[str, Any], float | None, dict[str, Any]]:
    """The report, the share shown when paced, and what is said about the run."""

    def peer() -> Peer:
        return Peer(setup.model, n_threads=setup.n_threads, n_ctx=N_CTX, n_batch=N_BATCH, python=setup.peer_python)

    with peer() as running:
        session = run_session(running, setup.steps, setup.n_predict, setup.pace.pause_s, progress("llama-server"))
    with peer() as running:
        shown = run_paced(running, setup.steps, setup.n_predict, setup.period_s, progress("llama-server, paced"))
    about = {"llama_server_context_median": results.context_of(session)}
    return results.llama_server_report(session), results.share(shown), about


def run_beside(setup: Setup) -> dict[str, Any]:
    """llama-server with larger batches, and so with more suffix. Only its prompt tokens are of interest: it generates one."""
    n_batch = setup.n_beside
    with Peer(setup.model, n_threads=setup.n_threads, n_ctx=N_CTX, n_batch=n_batch, python=setup.peer_python) as running:
        session = run_session(running, setup.steps, 1, 0.0, progress(f"llama-server, batches of {n_batch}"))
    report = results.llama_server_report(session)
    counts = ("prompt_median", "prompt_p95", "session_prompt_tokens")
    return {"n_batch": n_batch, **{name: report[name] for name in counts}}


def measure(setup: Setup, systems: tuple[str, ...]) -> dict[str, Any]:
    """`midfill`, `llama_server` and `paced`; beside them `llama_server_beside` and, under `run`, what was run."""
    report: dict[str, Any] = {}
    paced: dict[str, float | None] = {}
    about: dict[str, Any] = {
        "material": setup.material.name,
        "n_keys": len(setup.steps),
        "n_asked": sum(step.asks for step in setup.steps),
        "n_threads": setup.n_threads,
        "n_predict": setup.n_predict,
    }
    if "llama-server" in systems:  # before anything long: is it there at all?
        Peer(setup.model, n_threads=setup.n_threads, n_ctx=N_CTX, n_batch=N_BATCH, python=setup.peer_python).close()
    if "midfill" in systems:
        report["midfill"], paced["midfill_shown"], more = run_midfill(setup)
        about |= more
    if "llama-server" in systems:
        report["llama_server"], paced["llama_server_shown"], more = run_llama_server(setup)
        about |= more
        if setup.n_beside:
            report["llama_server_beside"] = run_beside(setup)
    return {**report, "paced": paced, "run": about}


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.keystroke", description="Typing: midfill against llama-server.")
    made.add_argument("--model", default="qwen2.5-coder-0.5b", help="id of a pulled model, or path of a GGUF file")
    made.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    made.add_argument("--material", choices=material.names(), default="inventory.py", help="the file that is typed into")
    made.add_argument("--seed", type=int, default=7, help="of the typist's slips")
    made.add_argument("--keys", type=int, default=0, help="only the first so many keys; 0 = the whole block")
    made.add_argument("--threads", type=int, default=0, help="CPU threads of both; 0 = one per core")
    made.add_argument("--max-tokens", type=int, default=64, help="most tokens of a suggestion, of both")
    made.add_argument("--pause", type=float, default=0.0, help="ms between a reply and the next key")
    made.add_argument("--think", type=float, default=20.0, help="most seconds of thought after Enter; ends when all is quiet")
    made.add_argument("--pace", type=float, default=180.0, help="ms between keys in the paced runs")
    made.add_argument("--batch", type=int, default=1024, help="n_batch of the third llama-server run; 0 = leave it out")
    made.add_argument("--only", choices=BOTH, help="run one system alone")
    made.add_argument("--peer-python", default=sys.executable, help="a Python that has xllamacpp")
    return made


def main(argv: list[str] | None = None) -> int:
    options = parser().parse_args(argv)
    chosen = material.load(options.material)
    try:
        setup = Setup(
            material=chosen,
            steps=write_script(chosen, seed=options.seed, n_keys=options.keys),
            model=str(store.resolve(options.model, store.models_dir())),
            n_threads=options.threads or psutil.cpu_count(logical=False) or 1,
            n_predict=options.max_tokens,
            pace=Pace(options.pause / 1000, options.think),
            period_s=options.pace / 1000,
            n_beside=options.batch,
            peer_python=options.peer_python,
        )
        report = measure(setup, (options.only,) if options.only else BOTH)
    except KeyboardInterrupt:
        print("\ninterrupted: nothing is reported of runs that did not end", file=sys.stderr)
        return 130
    except (BenchError, EngineError) as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    print("\r", end="", file=sys.stderr)
    print(json.dumps(report) if options.json else results.table(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
