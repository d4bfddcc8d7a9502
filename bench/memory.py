"""What the memory plan says before a model is loaded against what llama.cpp reports afterwards.

`python -m bench.memory [--models ID_OR_PATH,…] [--contexts N,…] [--kv TYPE,…] [--sequences N,…] [--flash auto,off]` loads each
combination once, one at a time and each in a process of its own, and prints one JSON object
`{"rows": [{"model", "n_ctx", "kv_type", "n_seq", "planned_bytes", "actual_bytes"}]}` (`--table`: for people). Exit status 1 if
a plan is off by more than a tenth. Weights are mapped, so that the loads share what the page cache holds of them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file: the repository's root takes the place of this folder
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from bench.errors import BenchError
from inference import child
from inference.models import store
from inference.types import EngineError

MOST_OFF = 0.1
_LOAD_S = 600.0


@dataclass(frozen=True, slots=True)
class Row:
    """n_ctx, kv_type: as loaded. n_seq: sequences of the editor; the context has one more for the background."""

    model: str
    n_ctx: int
    kv_type: str
    n_seq: int
    planned_bytes: int
    actual_bytes: int
    flash_attention: str = "auto"

    @property
    def off(self) -> float:
        """Share by which the plan is too high (or, negative, too low)."""
        return self.planned_bytes / self.actual_bytes - 1


def load_once(model: str, n_ctx: int, kv_type: str, n_seq: int, flash: str) -> Row:
    """Load and free, in this process. EngineError."""
    from inference.config import EngineConfig
    from inference.llama.model import LlamaBackend
    from inference.llama.room import plan_room
    from inference.memory_report import MemoryReport, taken

    config = EngineConfig(n_ctx=n_ctx, n_sequences=n_seq, kv_type=kv_type, flash_attention=flash, n_threads=1, n_stowed=0)
    path = store.resolve(model, store.models_dir())
    room = plan_room(config, path, model)
    room.require()
    backend = LlamaBackend(room.plan.applied(room.config), path)
    report = MemoryReport(room.plan, taken(backend.buffers))
    backend.close()
    options = room.plan.options
    return Row(model, options.n_ctx, options.kv_type, options.n_sequences, report.planned_bytes, report.actual_bytes, flash)


def in_child(*what: str) -> Row:
    """BenchError: it could not be loaded."""
    ended = child.run((sys.executable, "-m", "bench.memory", "--one", *what), _LOAD_S)
    last = ended.output.decode("utf-8", "replace").splitlines()[-1:]
    if not ended.is_good or not last:
        raise BenchError(f"{' '.join(what)}: {ended.how} ({ended.error.strip()[-300:]})")
    return Row(**json.loads(last[0]))


def result(rows: Sequence[Row], *, several_ways: bool = False) -> dict[str, Any]:
    """As JSON; the kind of attention only where there are several."""
    told = [asdict(row) for row in rows]
    for row in () if several_ways else told:
        del row["flash_attention"]
    return {"rows": told}


def table(rows: Sequence[Row]) -> str:
    lines = [f"{'model':24} {'n_ctx':>6} {'kv':5} {'n_seq':>5} {'flash':5} {'planned':>10} {'actual':>10} {'off':>7}"]
    for row in rows:
        planned, actual = row.planned_bytes / 1e6, row.actual_bytes / 1e6
        lines.append(
            f"{row.model[-24:]:24} {row.n_ctx:6} {row.kv_type:5} {row.n_seq:5} {row.flash_attention:5} {planned:7.1f} MB "
            f"{actual:7.1f} MB {row.off:+7.2%}"
        )
    worst = max((abs(row.off) for row in rows), default=0.0)
    return "\n".join([*lines, f"largest difference: {worst:.2%} of {len(rows)} loads"])


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.memory", description="The memory plan against llama.cpp's own report.")
    made.add_argument("--models", default="qwen2.5-coder-0.5b,qwen2.5-coder-1.5b", help="ids or paths")
    made.add_argument("--contexts", default="1024,4096,16384")
    made.add_argument("--kv", default="f16,q8_0,q4_0")
    made.add_argument("--sequences", default="1,3,8")
    made.add_argument("--flash", default="auto", help="auto, on, off; off goes with f16 only")
    made.add_argument("--table", action="store_true", help="for people, instead of JSON")
    made.add_argument("--one", nargs=5, metavar="WORD", help=argparse.SUPPRESS)
    return made


def main(argv: list[str] | None = None) -> int:
    options = parser().parse_args(argv)
    try:
        if options.one:
            model, n_ctx, kv_type, n_seq, flash = options.one
            print(json.dumps(asdict(load_once(model, int(n_ctx), kv_type, int(n_seq), flash))))
            return 0
        ways = options.flash.split(",")
        lists = (options.models, options.contexts, options.kv, options.sequences, options.flash)
        grid = [
            each for each in itertools.product(*(text.split(",") for text in lists)) if each[4] != "off" or each[2] == "f16"
        ]
        rows = []
        for n_done, what in enumerate(grid):
            print(f"\r{n_done} of {len(grid)}", end="", file=sys.stderr)
            rows.append(in_child(*what))
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except (BenchError, EngineError) as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    print("\r", end="", file=sys.stderr)
    print(table(rows) if options.table else json.dumps(result(rows, several_ways=len(ways) > 1)))
    return int(any(abs(row.off) > MOST_OFF for row in rows))


if __name__ == "__main__":
    sys.exit(main())
