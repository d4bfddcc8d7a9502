"""Several sessions on one engine: throughput against llama-server, keys while others are at work, keys with much known.

`python -m bench.sessions --n 8 [--json]`. The engine is a process of its own that the launcher has started, asked over its Unix
socket by the client of the language server; prompts are made of Python's own library as the server makes them. In each part all
sides take turns within a round, in changing order, so that whatever else the machine does hits all of them.

- throughput: `n` prompts are resident. One by one, all at once, and all at once in as many slots of llama-server (same GGUF,
  threads and token ids, greedy, streamed): tokens generated per second, from the first request to the last token.
- known: a keystroke step (one new token, one generated) of an engine that knows nothing but the document, and of one that
  knows `--known` prompts of `--prompt-tokens`, resident or in RAM; step by step in turn. The last of these prompts comes to be
  known as a background prefill during bursts of keys with pauses of a second: which share of its tokens is evaluated twice.
- typing: first bytes of the same keys alone; with a background prefill and a background generation; with a second window that
  types in another document as well; and with that one without the background.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file: the repository's root takes the place of this folder
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import psutil

from bench.errors import BenchError
from bench.progress import Progress
from bench.revision import revision
from bench.session_parts import Setup, known, throughput, typing
from bench.session_report import Samples, ratios, report, table
from inference.models import store
from inference.types import EngineError

PARTS = {"throughput": throughput, "known": known, "typing": typing}


async def measure(setup: Setup, parts: Sequence[str]) -> dict[str, Any]:
    samples, progress = Samples(), Progress("round")
    for name, part in PARTS.items():
        if name in parts:
            await part(setup, samples, progress)
    progress.end()
    about = {
        "n": setup.n, "model": setup.model.stem, "commit": revision(), "threads": setup.n_threads, "rounds": setup.n_rounds,
        "max_tokens": setup.n_predict, "prompt_tokens": setup.n_long, "pace_ms": setup.pace_s * 1000,
    }  # fmt: skip
    return report(samples, about)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.sessions", description="Several sessions on one engine.")
    made.add_argument("--n", type=_count, default=8, help="sessions at once, and slots of llama-server")
    made.add_argument("--model", default="qwen2.5-coder-0.5b", help="id of a pulled model, or path of a GGUF file")
    made.add_argument("--threads", type=int, default=0, help="CPU threads of both; 0 = one per core")
    made.add_argument("--rounds", type=_count, default=3, help="so often every side has its turn")
    made.add_argument("--max-tokens", type=_count, default=40, help="tokens that each session generates")
    made.add_argument("--session-tokens", type=_count, default=192, help="tokens of a session's prompt, for the throughput")
    made.add_argument("--prompt-tokens", type=_count, default=1500, help="tokens of all other prompts")
    made.add_argument("--known", type=_several, default=16, help="prompts that the engine knows, against one")
    made.add_argument("--keys", type=_count, default=20, help="keys of a round")
    made.add_argument("--pace", type=float, default=160.0, help="ms between keys")
    made.add_argument("--only", choices=tuple(PARTS), action="append", help="a part alone; may be given several times")
    made.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    return made


def _count(value: str) -> int:
    if not value.isdecimal() or not 1 <= int(value) <= 1_000_000:
        raise argparse.ArgumentTypeError("expected a whole number, 1 or more")
    return int(value)


def _several(value: str) -> int:
    if (n := _count(value)) < 2:
        raise argparse.ArgumentTypeError("expected 2 or more")
    return n


def main(argv: list[str] | None = None) -> int:
    options = parser().parse_args(argv)
    try:
        setup = Setup(
            model=store.resolve(options.model, store.models_dir()),
            n=options.n,
            n_threads=options.threads or psutil.cpu_count(logical=False) or 1,
            n_rounds=options.rounds,
            n_predict=options.max_tokens,
            n_prompt=options.session_tokens,
            n_long=options.prompt_tokens,
            n_known=options.known,
            n_keys=options.keys,
            pace_s=options.pace / 1000,
        )
        made = asyncio.run(measure(setup, options.only or tuple(PARTS)))
    except KeyboardInterrupt:
        print("\ninterrupted: nothing is reported", file=sys.stderr)
        return 130
    except (BenchError, EngineError) as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    print(json.dumps({**made, "ratios": ratios(made)}) if options.json else table(made))
    return 0


if __name__ == "__main__":
    sys.exit(main())
