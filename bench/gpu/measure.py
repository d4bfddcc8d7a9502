"""Prompt and step times of a model of random weights, its memory against the plan, and the text of a real one on both sides.

`python -m bench.gpu.measure [--shapes 0.5B,…] [--kinds Q4_K,Q8_0] [--draft 32B] [--model GGUF] [--seconds S] [--folder F]`
writes each model, measures it in a process of its own and removes it again; what is not begun when the seconds are over is left
out and named. One table for people, or `--json`. Layers go to the devices that there are: without one, this is the CPU's table.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file: the repository's root takes the place of this folder
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from bench.errors import BenchError
from bench.gpu.random_model import SHAPES, write
from inference import child
from inference.types import EngineError

ROWS = (1, 2, 4, 8, 16)
N_PROMPT = 512
DRAFT = "0.5B"
_REPEATS = 7
_LOAD_S = 300.0
_N_TEXT = 48
PROMPT = b"def total(items):\n    amount = 0\n    for item in items:\n        amount += item."


@dataclass(frozen=True, slots=True)
class Measured:
    """prompt_ms: of 512 tokens in one step. step_ms: by number of rows, behind a prompt. where: devices, "" = the CPU."""

    name: str
    where: str
    n_layers_on_device: int
    planned_bytes: int
    actual_bytes: int
    prompt_ms: float
    step_ms: dict[str, float]


@dataclass(frozen=True, slots=True)
class Text:
    """Greedy tokens of a real model on devices and on the CPU. same: of n, before they part. gap: on the CPU, between the two
    likeliest there."""

    n: int
    same: int
    gap: float | None = None


@dataclass(slots=True)
class Result:
    where: str = ""
    rows: list[Measured] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    text: Text | None = None


def measure_one(path: Path, name: str, n_ctx: int) -> Measured:
    """In this process. EngineError: it can't be loaded."""
    from inference.backend import Outcome, Row
    from inference.config import EngineConfig
    from inference.llama.model import LlamaBackend
    from inference.llama.room import plan_room
    from inference.memory_report import MemoryReport, taken

    room = plan_room(EngineConfig(n_ctx=n_ctx, n_sequences=1, n_stowed=0), path, name)
    room.require()
    backend = LlamaBackend(room.plan.applied(room.config), path)
    report = MemoryReport(room.plan, taken(backend.buffers))
    n_prompt = min(N_PROMPT, n_ctx // 2)

    def timed(n: int, start: int) -> float:
        backend.truncate(0, start)
        began = time.perf_counter()
        rows = [Row(0, start + i, 1 + i % 200, wants_logits=i == n - 1) for i in range(n)]
        if backend.decode(rows) is not Outcome.OK:
            raise EngineError(f"{name} can't be run with {n} rows.")
        backend.logits(n - 1)
        return (time.perf_counter() - began) * 1000

    timed(n_prompt, 0)  # the first step of a kind builds what later ones reuse
    prompt_ms = statistics.median(timed(n_prompt, 0) for _ in range(3))
    steps = {}
    for n in ROWS:
        timed(n, n_prompt)
        steps[str(n)] = statistics.median(timed(n, n_prompt) for _ in range(_REPEATS))
    backend.close()
    where = ", ".join(device.name for device in room.plan.free.devices)
    layers = room.plan.options.n_gpu_layers
    return Measured(name, where, layers, report.planned_bytes, report.actual_bytes, prompt_ms * N_PROMPT / n_prompt, steps)


def compare_text(path: Path, n: int = _N_TEXT) -> Text:
    """In this process: greedy tokens with as many layers on devices as fit, and with none."""
    import numpy as np

    from inference.backend import Row
    from inference.config import EngineConfig
    from inference.llama.model import LlamaBackend

    def greedy(n_gpu_layers: int) -> Iterator[tuple[int, float]]:
        backend = LlamaBackend(EngineConfig(n_ctx=1024, n_sequences=1, n_gpu_layers=n_gpu_layers), path)
        tokens = list(backend.vocab.encode(PROMPT))
        backend.decode([Row(0, i, token, i == len(tokens) - 1) for i, token in enumerate(tokens)])
        at, last = len(tokens), len(tokens) - 1
        for _ in range(n):
            logits = backend.logits(last)
            second, first = np.partition(logits, -2)[-2:]
            token, last = int(np.argmax(logits)), 0
            yield token, float(first - second)
            backend.decode([Row(0, at, token, True)])
            at += 1
        backend.close()

    with_devices, without = list(greedy(-1)), list(greedy(0))
    for i, (one, other) in enumerate(zip(with_devices, without, strict=True)):
        if one[0] != other[0]:
            return Text(n, i, other[1])
    return Text(n, n)


def in_child(what: Sequence[str], timeout_s: float) -> Any:
    """BenchError: it failed, or took too long."""
    ended = child.run((sys.executable, "-m", "bench.gpu.measure", *what), timeout_s)
    last = ended.output.decode("utf-8", "replace").splitlines()[-1:]
    if not ended.is_good or not last:
        raise BenchError(f"{what[1]}: {ended.how} ({ended.error.strip()[-300:]})")
    return json.loads(last[0])


def run(options: argparse.Namespace, say: Callable[[str], None]) -> Result:
    ends = time.monotonic() + options.seconds
    result = Result()
    todo = [(shape, kind) for shape in options.shapes for kind in options.kinds]
    todo += [(options.draft, "Q4_K")] if options.draft and (options.draft, "Q4_K") not in todo else []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        if options.model:
            try:
                result.text = Text(**in_child(("--text", str(options.model)), max(1.0, ends - time.monotonic())))
            except BenchError as error:
                result.left_out.append(f"text: {error}")
        for shape, kind in todo:
            name, left = f"{shape} {kind}", ends - time.monotonic()
            if left <= 0:
                result.left_out.append(f"{name}: no time was left")
                continue
            say(name)
            path = write(Path(folder) / f"{shape}-{kind}.gguf", SHAPES[shape], kind)
            try:
                told = in_child(("--one", str(path), name, str(options.n_ctx)), min(_LOAD_S, max(1.0, ends - time.monotonic())))
                result.rows.append(Measured(**told))
            except BenchError as error:
                result.left_out.append(str(error))
            path.unlink()
    result.where = next((row.where for row in result.rows if row.where), "the CPU")
    return result


def table(result: Result, draft: str = "") -> str:
    heads = "".join(f"{n:>8}" for n in ROWS)
    lines = [
        f"on {result.where}; ms of a step by its rows",
        f"{'model':12} {'layers':>6} {'planned':>9} {'taken':>9} {'prompt tok/s':>12} {heads}",
    ]
    for row in result.rows:
        steps = "".join(f"{row.step_ms[str(n)]:8.2f}" for n in ROWS)
        lines.append(
            f"{row.name:12} {row.n_layers_on_device:6} {row.planned_bytes / 1e6:6.0f} MB {row.actual_bytes / 1e6:6.0f} MB "
            f"{N_PROMPT / row.prompt_ms * 1000:12.0f} {steps}"
        )
    lines += _draft_lines(result, draft)
    if (text := result.text) is not None:
        parted = "" if text.gap is None else f", then the two likeliest are {text.gap:.3f} apart"
        lines.append(f"real model, devices against CPU: {text.same} of {text.n} tokens are the same{parted}")
    return "\n".join([*lines, *(f"left out: {why}" for why in result.left_out)])


def _draft_lines(result: Result, large: str) -> list[str]:
    """What a draft of k tokens costs beside a plain step, and how many of them must hold for it to pay."""
    by_name = {row.name: row for row in result.rows}
    model, small = by_name.get(f"{large} Q4_K"), by_name.get(f"{DRAFT} Q4_K")
    if model is None or small is None:
        return []
    plain = model.step_ms["1"]
    lines = [f"{large} with drafts of {DRAFT}: one step {plain:.2f} ms"]
    for k in (1, 3, 7, 15):
        cost = k * small.step_ms["1"] + model.step_ms[str(k + 1)]
        lines.append(f"  {k:2} drafted: {cost:8.2f} ms a round, pays from {max(0.0, cost / plain - 1):.2f} accepted on average")
    return lines


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.gpu.measure", description="Step times of models with random weights.")
    made.add_argument("--shapes", type=_words, default=["0.5B", "1.5B", "7B"], help=f"of {', '.join(SHAPES)}")
    made.add_argument("--kinds", type=_words, default=["Q4_K", "Q8_0"])
    made.add_argument("--draft", default="32B", help="a large shape for the table of drafts; empty = none")
    made.add_argument("--model", type=Path, help="a real model, whose text on the devices is compared with the CPU's")
    made.add_argument("--n-ctx", type=int, default=4096)
    made.add_argument("--seconds", type=float, default=400.0, help="nothing is begun when these are over")
    made.add_argument("--folder", help="where models are written; they are removed again")
    made.add_argument("--json", action="store_true")
    made.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    made.add_argument("--text", help=argparse.SUPPRESS)
    return made


def main(argv: list[str] | None = None) -> int:
    options = parser().parse_args(argv)
    try:
        if options.one:
            path, name, n_ctx = options.one
            print(json.dumps(asdict(measure_one(Path(path), name, int(n_ctx)))))
            return 0
        if options.text:
            print(json.dumps(asdict(compare_text(Path(options.text)))))
            return 0
        unknown = [name for name in (*options.shapes, options.draft) if name and name not in SHAPES]
        if unknown:
            raise BenchError(f"there is no shape {unknown[0]}; there are {', '.join(SHAPES)}")
        result = run(options, lambda name: print(name, file=sys.stderr))
    except (BenchError, EngineError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(asdict(result)) if options.json else table(result, options.draft))
    return int(not result.rows)


if __name__ == "__main__":
    sys.exit(main())
