"""pass@1 on the infilling benchmark through the product's own completion path: healed anchors against prefix-suffix-middle.

`python -m bench.infilling --data FILE [--n N] [--model ID_OR_PATH] [--json]`. The document is a problem's prompt and suffix,
with the cursor in the gap; one invoked request, from an empty cache, greedy, the same most tokens for both layouts. Then the
benchmark's tests are run in a limited child process (`bench.sandbox`).

Two texts of the one request are judged, each a form of the report:

- `random_span` (as the data's kind is called): the document after accepting the item, so with all that the product does to it.
  Where something stands before the cursor on its line the product offers one line, so there a gap of several lines is as good
  as lost, in either layout.
- `random_span_lines`: all that was generated for the request, fitted into the gap by the product's rules for places where it
  offers several lines (`lsp_server.rules`), at every place. This is what compares the layouts over whole gaps.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file: the repository's root takes the place of this folder
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from bench import sandbox
from bench.case_log import CaseLog, Record
from bench.command import answer
from bench.heart import LAYOUTS, Heart, engine_config
from bench.midline import positive
from bench.paired import Pairs
from bench.problems import Problem, load, sample
from bench.progress import Progress
from bench.revision import revision
from inference.types import FinishReason
from lsp_server.rules.judge import Judge
from lsp_server.rules.place import place_of

MOST_AT_ONCE = 2  # programs
ITEM, LINES = "item", "lines"
REFERENCE = ("reference", "")


async def measure_problem(heart: Heart, problem: Problem, *, alone: bool = True) -> Record:
    """alone: nothing else is asked of the engine, so that its cache can be emptied before each layout.

    {layout: {item, lines, why_item, why_lines, offered, whole, prompt, healing, generated, said}, reference, guards}.

    item, lines: did the program pass? reference: does the problem's own solution? said: what was generated; whole: to its end.
    """
    programs: dict[tuple[str, str], str] = {REFERENCE: problem.prompt + problem.solution + problem.suffix}
    record: Record = {}
    heart.tap.goes_on = True  # all that would be said is judged too
    for layout in LAYOUTS:
        if alone:
            await heart.forget()
        document = heart.document(layout, problem.prompt + problem.suffix)
        answer = await document.ask(len(problem.prompt.encode()))
        await heart.quiet()  # a one-line place is answered early: the text goes on
        await document.close()
        call = answer.call
        programs[layout, ITEM] = answer.accepted
        programs[layout, LINES] = in_lines(problem, call.text, call.finish is FinishReason.STOP)
        record[layout] = {
            "offered": answer.offered,
            "whole": call.finish is FinishReason.STOP,
            "prompt": call.stats.n_evaluated,
            "healing": call.stats.n_healing,
            "generated": call.stats.n_generated,
            "said": call.text,
        }
    verdicts = await _judge(problem.program(text) for text in programs.values())
    by_key = {key: verdicts[problem.program(text)] for key, text in programs.items()}
    for layout in LAYOUTS:
        for kind in (ITEM, LINES):
            verdict = by_key[layout, kind]
            record[layout][kind], record[layout]["why_" + kind] = verdict.passed, verdict.why
    return {**record, "reference": by_key[REFERENCE].passed, "guards": list(by_key[REFERENCE].guards)}


def in_lines(problem: Problem, said: str, is_whole: bool) -> str:
    """The document with the whole generated text in the gap, as the product offers it where it offers several lines."""
    judge = Judge(replace(place_of("python", problem.prompt, problem.suffix), single_line=False))
    judge.push(said)
    settled = judge.settle(is_whole=is_whole)
    return problem.prompt + settled.text + problem.suffix[settled.n_replaced :]


async def _judge(programs: Iterable[str]) -> dict[str, sandbox.Verdict]:
    """Each different program is run once, two at a time."""
    places = asyncio.Semaphore(MOST_AT_ONCE)

    async def one(program: str) -> tuple[str, sandbox.Verdict]:
        async with places:
            return program, await asyncio.to_thread(sandbox.run, program)

    return dict(await asyncio.gather(*(one(program) for program in dict.fromkeys(programs))))


async def measure(hearts: Sequence[Heart], problems: Sequence[Problem], log: CaseLog, commit: str) -> None:
    """Measure what the log does not have yet, with each heart another problem at the same time."""
    progress = Progress("problem")
    passed: list[tuple[bool, bool]] = []
    left = iter(problems)

    async def work(heart: Heart) -> None:
        for problem in left:
            record = log.get(problem.form, problem.task_id)
            if record is None:
                record = {**await measure_problem(heart, problem, alone=len(hearts) == 1), "commit": commit}
                log.add(problem.form, problem.task_id, record)
            passed.append((record["anchored"][LINES], record["psm"][LINES]))
            pairs = Pairs.of(passed)
            so_far = f"passed (lines): anchored {pairs.anchored}, plain {pairs.psm}"
            progress.show(problem.form, len(passed), len(problems), so_far)

    async with asyncio.TaskGroup() as group:
        for heart in hearts:
            group.create_task(work(heart))
    progress.end()


def report(problems: Sequence[Problem], log: CaseLog, about: Mapping[str, Any]) -> dict[str, Any]:
    """n: problems. reference: how many of their own solutions passed, the most that can. offered, whole, prompt, healing,
    generated: of all forms, sums over the problems."""
    records = {p: record for p in problems if (record := log.get(p.form, p.task_id)) is not None}
    forms: dict[str, Any] = {}
    for form in dict.fromkeys(problem.form for problem in problems):
        ours = [record for problem, record in records.items() if problem.form == form]
        forms[form], forms[form + "_lines"] = _of_form(ours, ITEM), _of_form(ours, LINES)
    counted = ("offered", "whole", "prompt", "healing", "generated")
    return {
        "n": len(records),
        "forms": forms,
        "reference": sum(record["reference"] for record in records.values()),
        **{layout: {name: sum(r[layout][name] for r in records.values()) for name in counted} for layout in LAYOUTS},
        "guards": sorted(set.intersection(*(set(record["guards"]) for record in records.values()))),
        **about,
        "commit": " ".join(sorted({record["commit"] for record in records.values()})),
    }


def _of_form(records: Sequence[Record], kind: str) -> dict[str, Any]:
    pairs = Pairs.of((record["anchored"][kind], record["psm"][kind]) for record in records)
    return {
        "anchored": pairs.anchored,
        "psm": pairs.psm,
        "only_anchored": pairs.only_anchored,
        "only_psm": pairs.only_psm,
        "both": pairs.both,
        "n": pairs.n,
        "p": pairs.p,
    }


def table(made: Mapping[str, Any]) -> str:
    """The report for people: a line per form."""
    lines = [f"{'passed':<20}{'n':>6}{'anchored':>10}{'psm':>8}{'only anchored':>15}{'only psm':>10}{'p':>9}"]
    for name, form in made["forms"].items():
        lines.append(
            f"{name:<20}{form['n']:>6}{form['anchored']:>10}{form['psm']:>8}{form['only_anchored']:>15}{form['only_psm']:>10}"
            f"{form['p']:>9}"
        )
    guards = ", ".join(made["guards"]) or "none"
    lines.append(f"of the problems' own solutions {made['reference']} of {made['n']} pass; guards: {guards}")
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.infilling", description="pass@1: healed anchors against PSM.")
    made.add_argument("--data", type=Path, required=True, help="problems of the infilling benchmark: .jsonl or .jsonl.gz")
    made.add_argument("--n", type=positive, help="problems sampled; without: all")
    made.add_argument("--seed", type=int, default=7, help="of the sample")
    made.add_argument("--model", default="qwen2.5-coder-0.5b", help="id of a pulled model, or path of a GGUF file")
    made.add_argument("--max-tokens", type=positive, default=128, help="most tokens of a completion, of both")
    made.add_argument(
        "--at-once", type=positive, default=1,
        help="problems that are asked for at the same time; with more than one the counts of prompt tokens say nothing",
    )  # fmt: skip
    made.add_argument("--threads", type=int, default=0, help="CPU threads; 0 = measured")
    made.add_argument("--out", type=Path, help="keep each problem's result in this file, and go on from what it holds")
    made.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    return made


async def run(options: argparse.Namespace) -> dict[str, Any]:
    problems = load(options.data)
    problems = tuple(sample(problems, options.n or len(problems), options.seed))
    # of a problem's result; which problems there are is another matter
    decisive = {"model": options.model, "data": options.data.name, "max_tokens": options.max_tokens}
    log = CaseLog(options.out, {"bench": "infilling", **decisive})
    if any(log.get(problem.form, problem.task_id) is None for problem in problems):
        config = engine_config(options.model, options.threads)
        config = replace(config, n_sequences=max(config.n_sequences, options.at_once))
        heart = await Heart.load(config, options.max_tokens)
        others = [heart.another(options.max_tokens) for _ in range(options.at_once - 1)]
        try:
            await measure([heart, *others], problems, log, revision())
        finally:
            await heart.aclose()
    return report(problems, log, {**decisive, "seed": options.seed})


def main(argv: list[str] | None = None) -> int:
    return answer(parser().parse_args(argv), run, table)


if __name__ == "__main__":
    sys.exit(main())
