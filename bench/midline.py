"""Completions in the middle of a line: healed anchors against plain prefix-suffix-middle, same cuts, same engine.

`python -m bench.midline --data FILE --n N --seed S --model ID_OR_PATH [--json]`. Each case goes through the product's own
completion path (`bench.heart`), once per layout: an invoked request at the line's start, with the document as it is before the
first typed character; then the typed text as one change; then an invoked request at the cut. Right: in the document with the
item accepted, the line goes on as it did in the original, blanks at its end and all further lines aside.

What is counted, of the second request alone: `evaluated` = prompt tokens put through the model + tokens chosen to heal what was
typed; tokens beyond the cursor are `generated`, up to the first whole line. The first request stops at its first token, so that
nothing that it said is in the cache. Every case begins with an empty cache, so no arm profits from another. Within a case the
anchored layout comes first; the plain prompt shares with what that leaves in the cache no more than with the line's start
(after the common prefix comes typed text in the one and the suffix's marker in the other). The bench checks that: a request
that found more resident than the first one's prompt ends the run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file: the repository's root takes the place of this folder
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from bench.case_log import CaseLog, Record
from bench.command import answer
from bench.cuts import ARMS, Cut, cut
from bench.errors import BenchError
from bench.heart import LAYOUTS, Heart, engine_config
from bench.paired import Pairs
from bench.problems import load, sample
from bench.progress import Progress
from bench.revision import revision
from inference.memory_need import KV_TYPES
from inference.sequence import n_common


@dataclass(frozen=True, slots=True)
class Arm:
    """name: its key in the report."""

    name: str
    cuts: tuple[Cut, ...]


def arms_of(data: Path, n: int, seed: int, names: Sequence[str], n_lines: int) -> tuple[Arm, ...]:
    """The same n problems for each arm, less those whose line has no such place. Raises BenchError."""
    problems = sample(load(data), n, seed)
    arms = []
    for name in names:
        cuts = tuple(made for problem in problems if (made := cut(problem, name, n_lines)) is not None)
        if not cuts:
            raise BenchError(f"no line of the {len(problems)} sampled can be cut as {name} wants; take more of them with --n")
        arms.append(Arm(name, cuts))
    return tuple(arms)


async def measure_case(heart: Heart, case: Cut) -> Record:
    """{layout: {right, kept, prompt, healing, generated, text}} of one cut. kept: the prompt at the cut goes on where the one
    at the line's start ended, so the anchor did not move."""
    await heart.forget()
    return {layout: await measure_layout(heart, layout, case) for layout in LAYOUTS}


async def measure_layout(heart: Heart, layout: str, case: Cut) -> Record:
    """One layout's part of what `measure_case` tells."""
    start = len(case.prefix.encode())
    at = start + len(case.typed.encode())
    document = heart.document(layout, case.prefix + case.suffix)
    warm = (await document.ask(start, n_most=1)).call
    await heart.quiet()
    document.insert(start, case.typed)
    answer = await document.ask(at)
    await document.close()
    call = answer.call
    n_warm = n_common(list(warm.tokens), call.tokens)
    if call.stats.n_reused > n_warm:
        raise BenchError(
            f"{case.task_id}, {layout}: {call.stats.n_reused} tokens were resident, but only {n_warm} are of the prompt at the "
            "line's start; the counts of this run would be too low"
        )
    rest = answer.accepted.encode()[at:].decode().split("\n", 1)[0].rstrip()
    return {
        "right": rest == case.want,
        "kept": n_warm == len(warm.tokens),
        "prompt": call.stats.n_evaluated,
        "healing": call.stats.n_healing,
        "generated": call.n_to_line,
        "text": rest,
    }


async def measure(heart: Heart, arms: Sequence[Arm], log: CaseLog, commit: str) -> None:
    """Measure what the log does not have yet."""
    progress = Progress("line")
    for arm in arms:
        rights: list[tuple[bool, bool]] = []
        for case in arm.cuts:
            record = log.get(arm.name, case.task_id)
            if record is None:
                record = {**await measure_case(heart, case), "commit": commit}
                log.add(arm.name, case.task_id, record)
            rights.append((record["anchored"]["right"], record["psm"]["right"]))
            pairs = Pairs.of(rights)
            progress.show(arm.name, len(rights), len(arm.cuts), f"right: anchored {pairs.anchored}, plain {pairs.psm}")
    progress.end()


def report(arms: Sequence[Arm], log: CaseLog, about: Mapping[str, Any]) -> dict[str, Any]:
    """n: cases of the first arm. evaluated, prompt, healing and generated are sums over the arm's cases."""
    reports: dict[str, Any] = {}
    commits: set[str] = set()
    for arm in arms:
        records = [record for case in arm.cuts if (record := log.get(arm.name, case.task_id)) is not None]
        commits |= {record["commit"] for record in records}
        pairs = Pairs.of((record["anchored"]["right"], record["psm"]["right"]) for record in records)
        reports[arm.name] = {
            "n": pairs.n,
            **{layout: _of_layout([record[layout] for record in records]) for layout in LAYOUTS},
            "only_anchored": pairs.only_anchored,
            "only_psm": pairs.only_psm,
            "both": pairs.both,
            "p": pairs.p,
        }
    return {"n": reports[arms[0].name]["n"], "arms": reports, **about, "commit": " ".join(sorted(commits))}


def _of_layout(records: Sequence[Record]) -> dict[str, int]:
    sums = {name: sum(record[name] for record in records) for name in ("prompt", "healing", "generated", "kept")}
    exact = sum(record["right"] for record in records)
    return {"exact": exact, "evaluated": sums["prompt"] + sums["healing"], **sums}


def table(made: Mapping[str, Any]) -> str:
    """The report for people: two lines per arm."""
    lines = [f"{'':<14}{'':<10}{'right':>12}{'prompt':>9}{'healing':>9}{'generated':>11}{'alone right':>13}{'p':>9}"]
    for name, arm in made["arms"].items():
        for layout in LAYOUTS:
            part = arm[layout]
            is_first = layout == LAYOUTS[0]
            lines.append(
                f"{name if is_first else '':<14}{layout:<10}{part['exact']:>6} of {arm['n']:<3}{part['prompt']:>8,}"
                f"{part['healing']:>9,}{part['generated']:>11,}{arm['only_' + layout]:>13}{arm['p'] if is_first else '':>9}"
            )
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.midline", description="Mid-line: healed anchors against PSM.")
    made.add_argument("--data", type=Path, required=True, help="lines of the infilling benchmark: .jsonl or .jsonl.gz")
    made.add_argument("--n", type=positive, default=150, help="problems sampled; some lines have no place to cut")
    made.add_argument("--seed", type=int, default=7, help="of the sample")
    made.add_argument("--model", default="qwen2.5-coder-0.5b", help="id of a pulled model, or path of a GGUF file")
    made.add_argument("--arms", type=_arms, default=ARMS, help=f"some of {','.join(ARMS)}")
    made.add_argument("--typed-lines", type=positive, default=4, help="lines typed since the anchor, of the arm typed_lines")
    made.add_argument("--kv-type", choices=KV_TYPES, default="f16", help="type of the cache's cells")
    made.add_argument("--max-tokens", type=positive, default=40, help="most tokens beyond the cursor")
    made.add_argument("--threads", type=int, default=0, help="CPU threads; 0 = measured; no count depends on it")
    made.add_argument("--out", type=Path, help="keep each case's result in this file, and go on from what it holds")
    made.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    return made


def positive(value: str) -> int:
    if not value.isdecimal() or not 1 <= int(value) <= 1_000_000:
        raise argparse.ArgumentTypeError("expected a whole number, 1 or more")
    return int(value)


def _arms(value: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in value.split(","))
    if unknown := [name for name in names if name not in ARMS]:
        raise argparse.ArgumentTypeError(f"there is no arm {unknown[0]!r}; choose from {','.join(ARMS)}")
    return tuple(dict.fromkeys(names))


async def run(options: argparse.Namespace) -> dict[str, Any]:
    arms = arms_of(options.data, options.n, options.seed, options.arms, options.typed_lines)
    decisive = {  # of a case's result; which cases there are is another matter
        "model": options.model,
        "data": options.data.name,
        "typed_lines": options.typed_lines,
        "max_tokens": options.max_tokens,
        "kv_type": options.kv_type,
    }
    log = CaseLog(options.out, {"bench": "midline", **decisive})
    if any(log.get(arm.name, case.task_id) is None for arm in arms for case in arm.cuts):
        config = engine_config(options.model, options.threads, options.kv_type)
        heart = await Heart.load(config, options.max_tokens)
        try:
            await measure(heart, arms, log, revision())
        finally:
            await heart.aclose()
    return report(arms, log, {**decisive, "n_sampled": options.n, "seed": options.seed})


def main(argv: list[str] | None = None) -> int:
    return answer(parser().parse_args(argv), run, table)


if __name__ == "__main__":
    sys.exit(main())
