"""What a quantized cache costs in quality: the same cuts in the middle of a line, each type of cells against f16.

`python -m bench.kv_types --data FILE [--types f16,q8_0,q4_0] [--n N] [--seed S] [--model ID_OR_PATH] [--out FILE]
[--json]`. Each type has an engine of its own, one after the other; every case goes the way that `bench.midline` describes,
in the anchored layout. The first type is the one that the others are compared with, by the exact two-sided sign test on the
same cases.

JSON: `{"n", "types": {TYPE: {"exact", "evaluated", "generated", "same_text", "only_first", "only_this", "p"}}}`;
same_text: cases in which the line reads as it does with the first type, right or wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file: the repository's root takes the place of this folder
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from bench.case_log import CaseLog, Record
from bench.command import answer
from bench.cuts import ARMS, Cut
from bench.heart import Heart, engine_config
from bench.midline import arms_of, measure_layout, positive
from bench.paired import sign_test
from bench.progress import Progress
from bench.revision import revision
from inference.memory_need import KV_TYPES

_ARM = "third"


async def measure(heart: Heart, kv_type: str, cases: Sequence[Cut], log: CaseLog, commit: str) -> None:
    """Measure what the log does not have yet of one type."""
    progress = Progress("line")
    n_right = 0
    for i, case in enumerate(cases, 1):
        record = log.get(kv_type, case.task_id)
        if record is None:
            await heart.forget()
            record = {**await measure_layout(heart, "anchored", case), "commit": commit}
            log.add(kv_type, case.task_id, record)
        n_right += record["right"]
        progress.show(kv_type, i, len(cases), f"right: {n_right}")
    progress.end()


def report(types: Sequence[str], cases: Sequence[Cut], log: CaseLog, about: Mapping[str, Any]) -> dict[str, Any]:
    """Cases that not all types have are left out."""
    rows = [[record for kv_type in types if (record := log.get(kv_type, case.task_id)) is not None] for case in cases]
    rows = [row for row in rows if len(row) == len(types)]
    columns = {kv_type: [row[i] for row in rows] for i, kv_type in enumerate(types)}
    first = columns[types[0]]
    commits = sorted({record["commit"] for row in rows for record in row})
    return {
        "n": len(rows),
        "types": {kv_type: _against(first, column) for kv_type, column in columns.items()},
        **about,
        "commit": " ".join(commits),
    }


def _against(first: Sequence[Record], these: Sequence[Record]) -> dict[str, Any]:
    pairs = [(a["right"], b["right"]) for a, b in zip(first, these, strict=True)]
    only_first, only_this = pairs.count((True, False)), pairs.count((False, True))
    return {
        "exact": sum(record["right"] for record in these),
        "evaluated": sum(record["prompt"] + record["healing"] for record in these),
        "generated": sum(record["generated"] for record in these),
        "same_text": sum(a["text"] == b["text"] for a, b in zip(first, these, strict=True)),
        "only_first": only_first,
        "only_this": only_this,
        "p": float(f"{sign_test(only_first, only_this):.4g}"),
    }


def table(made: Mapping[str, Any]) -> str:
    """The report for people."""
    names = ("exact", "evaluated", "generated", "same_text", "only_first", "only_this", "p")
    lines = [f"{made['n']} lines, {made['model']}", f"{'cells':<8}" + "".join(f"{name:>12}" for name in names)]
    return "\n".join(lines + [f"{t:<8}" + "".join(f"{row[name]:>12}" for name in names) for t, row in made["types"].items()])


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.kv_types", description="Quality with a quantized cache.")
    made.add_argument("--data", type=Path, required=True, help="lines of the infilling benchmark: .jsonl or .jsonl.gz")
    made.add_argument("--types", type=_types, default=KV_TYPES, help=f"some of {','.join(KV_TYPES)}; others against the first")
    made.add_argument("--n", type=positive, default=310, help="problems sampled; some lines have no place to cut")
    made.add_argument("--seed", type=int, default=7, help="of the sample")
    made.add_argument("--model", default="qwen2.5-coder-0.5b", help="id of a pulled model, or path of a GGUF file")
    made.add_argument("--max-tokens", type=positive, default=40, help="most tokens beyond the cursor")
    made.add_argument("--threads", type=int, default=0, help="CPU threads; 0 = measured; no count depends on it")
    made.add_argument("--out", type=Path, help="keep each case's result in this file, and go on from what it holds")
    made.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    return made


def _types(value: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
    if unknown := [name for name in names if name not in KV_TYPES]:
        raise argparse.ArgumentTypeError(f"there is no type {unknown[0]!r}; choose from {','.join(KV_TYPES)}")
    return names


async def run(options: argparse.Namespace) -> dict[str, Any]:
    [arm] = arms_of(options.data, options.n, options.seed, (_ARM,), ARMS.index(_ARM) + 1)
    decisive = {"model": options.model, "data": options.data.name, "max_tokens": options.max_tokens}
    log = CaseLog(options.out, {"bench": "kv_types", **decisive})
    for kv_type in options.types:
        if all(log.get(kv_type, case.task_id) is not None for case in arm.cuts):
            continue
        heart = await Heart.load(engine_config(options.model, options.threads, kv_type), options.max_tokens)
        try:
            await measure(heart, kv_type, arm.cuts, log, revision())
        finally:
            await heart.aclose()
    return report(options.types, arm.cuts, log, {**decisive, "n_sampled": options.n, "seed": options.seed})


def main(argv: list[str] | None = None) -> int:
    return answer(parser().parse_args(argv), run, table)


if __name__ == "__main__":
    sys.exit(main())
