"""What pieces of other files are worth: holes in real code, with the file alone and with the whole prompt, at one budget.

`python -m bench.holes [--root DIR ...] [--n N] [--seed S] [--budget T ...] [--model M] [--out FILE] [--json] [--plan-only]`. A
hole is the rest of a line that uses a name which another file of its tree defines. The tree is copied, and the hole cut out of
the copy before anything is indexed; files that repeat five lines around it are left out of the copy. The place is then asked
for as an editor would, once with `references` off and once with them on, both within as many prompt tokens, which both use up.
A second set is the same places in the same trees under other names (`bench.rename`). The run fails if the hole's text is in a
prompt.

exact: the rest of the line is equal, blanks at its end aside. edit_similarity: mean over all cases, from 0 to 1. undefined:
names in the completions that exist nowhere in the tree. only_full, only_file: cases that one alone got right; p: exact sign
test.

--plan-only asks no model: it says at how many places the prompt holds the definition that the hole needs (`bench.holes_plan`),
and what of it are pieces of which zone. With --out every place's prompt is written to that file.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file: the repository's root takes the place of this folder
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from bench.case_log import CaseLog, Record
from bench.command import answer
from bench.errors import BenchError
from bench.heart import Heart, engine_config
from bench.holes_copy import Copy
from bench.holes_index import SwitchedIndex, seen
from bench.holes_measure import Names, rest_of_line, similarity
from bench.holes_plan import model_of, plan_table, planned
from bench.holes_sets import SETS, Case, Sets, by_tree, group, sets_of
from bench.holes_tree import default_roots, squeeze, trees_of
from bench.midline import positive
from bench.paired import sign_test
from bench.progress import Progress
from bench.revision import revision
from lsp_server.plans.prompting import indexed
from lsp_server.uris import document_id

ARMS = ("file_only", "full")


async def measure(heart: Heart, sets: Sets, budgets: Sequence[int], log: CaseLog, home: Path, commit: str) -> None:
    """Measure what the log does not have yet. home: an empty folder."""
    index, progress = SwitchedIndex(), Progress("hole")
    for name, cases in sets.items():
        for n_tree, (tree, of_tree) in enumerate(by_tree(cases)):
            left = [case for case in of_tree if any(log.get(group(name, budget), case.case) is None for budget in budgets)]
            if not left:
                continue
            folder = home / name / str(n_tree)
            copy, names = Copy(tree, folder), Names(tree)
            copy.cut(left[0].hole)
            async with indexed([str(copy.root)], folder / "cache") as room:
                index.room = room
                heart.use_workspace(index, [str(copy.root)])
                for case in left:
                    text, changed = copy.cut(case.hole)
                    await seen(room, changed)
                    await heart.forget()
                    for budget in budgets:
                        if log.get(group(name, budget), case.case) is None:
                            record = await measure_case(heart, case, text, copy, names, budget)
                            log.add(group(name, budget), case.case, {**record, "commit": commit})
                    _show(progress, name, cases, budgets, log)
            index.room = None
    progress.end()


async def measure_case(heart: Heart, case: Case, text: bytes, copy: Copy, names: Names, budget: int) -> Record:
    """{arm: {right, similarity, undefined, prompt, pieces, text}}. text: of the file, with the hole."""
    return {arm: await _measure_arm(heart, case, text, copy, names, budget, arm) for arm in ARMS}


async def _measure_arm(heart: Heart, case: Case, text: bytes, copy: Copy, names: Names, budget: int, arm: str) -> Record:
    hole = case.hole
    doc_id = document_id(copy.path(hole.path).as_uri())
    language = case.tree.files[hole.path].language
    document = heart.file(doc_id, language, text.decode(), n_budget=budget, full=arm == "full")
    try:
        reply = await document.ask(hole.start)
        told = document.explain()
    finally:
        await document.close()
    tokens = reply.call.tokens
    check(case, _text_of(heart, tokens), len(tokens), budget)
    rest = rest_of_line(reply.accepted.encode()[hole.start :].decode(errors="replace"))
    pieces = told.get("pieces")
    n_pieces = sum(piece.get("name") in ("core", "reference", "rolling") for piece in pieces) if isinstance(pieces, list) else 0
    return {
        "right": rest == case.want,
        "similarity": round(similarity(rest, case.want), 4),
        "undefined": list(names.undefined(hole.path, rest)),
        "prompt": len(tokens),
        "pieces": n_pieces,
        "text": rest,
    }


def _text_of(heart: Heart, tokens: Sequence[int]) -> bytes:
    pieces = heart.tap.vocab.pieces
    return b"".join(pieces[token] for token in tokens)


def check(case: Case, prompt: bytes, n_tokens: int, budget: int) -> None:
    """Raises BenchError if a prompt holds the hole's text, or is too long."""
    if squeeze(case.want.encode()) in squeeze(prompt):
        raise BenchError(f"{case.case}: the text of the hole is in the prompt, so no count of this run means anything")
    if n_tokens > budget:
        raise BenchError(f"{case.case}: the prompt has {n_tokens} tokens, more than the {budget} that both sides may have")


def _show(progress: Progress, name: str, cases: Sequence[Case], budgets: Sequence[int], log: CaseLog) -> None:
    for budget in budgets:
        known = [record for case in cases if (record := log.get(group(name, budget), case.case)) is not None]
        rights = {arm: sum(record[arm]["right"] for record in known) for arm in ARMS}
        so_far = f"right: file only {rights['file_only']}, full {rights['full']}"
        progress.show(group(name, budget), len(known), len(cases), so_far)


def report(sets: Sets, budgets: Sequence[int], log: CaseLog, about: Mapping[str, Any]) -> dict[str, Any]:
    """n: cases of each set."""
    made: dict[str, Any] = {}
    commits: set[str] = set()
    for name, cases in sets.items():
        made[name] = {}
        for budget in budgets:
            records = [record for case in cases if (record := log.get(group(name, budget), case.case)) is not None]
            commits |= {record["commit"] for record in records}
            made[name][str(budget)] = _compared(records)
    return {
        "sets": made,
        "n": max((len(cases) for cases in sets.values()), default=0),
        **about,
        "commit": " ".join(sorted(commits)),
    }


def _compared(records: Sequence[Record]) -> dict[str, Any]:
    rights = [(record["full"]["right"], record["file_only"]["right"]) for record in records]
    only_full, only_file = rights.count((True, False)), rights.count((False, True))
    sides = {arm: _of_arm([record[arm] for record in records]) for arm in ARMS}
    p = float(f"{sign_test(only_full, only_file):.4g}")
    return {**sides, "only_full": only_full, "only_file": only_file, "p": p, "n": len(records)}


def _of_arm(records: Sequence[Record]) -> dict[str, Any]:
    n = max(len(records), 1)
    return {
        "exact": sum(record["right"] for record in records),
        "edit_similarity": round(sum(record["similarity"] for record in records) / n, 4),
        "undefined": sum(len(record["undefined"]) for record in records),
        "prompt_tokens": round(sum(record["prompt"] for record in records) / n, 1),
        "pieces": round(sum(record["pieces"] for record in records) / n, 1),
    }


def table(made: Mapping[str, Any]) -> str:
    """The report for people: two lines per set and budget."""
    lines = [f"{'':<18}{'':<11}{'exact':>12}{'similarity':>12}{'undefined':>11}{'prompt':>9}{'pieces':>8}{'alone':>7}{'p':>9}"]
    for name, budgets in made["sets"].items():
        for budget, part in budgets.items():
            for arm in ARMS:
                is_first, side = arm == ARMS[0], part[arm]
                alone = part["only_file" if is_first else "only_full"]
                lines.append(
                    f"{name + ' ' + budget if is_first else '':<18}{arm:<11}{side['exact']:>6} of {part['n']:<3}"
                    f"{side['edit_similarity']:>11}{side['undefined']:>11}{side['prompt_tokens']:>9}{side['pieces']:>8}{alone:>7}"
                    f"{part['p'] if is_first else '':>9}"
                )
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.holes", description="What pieces of other files are worth.")
    made.add_argument("--root", type=Path, nargs="+", help="folders with source files; default: some installed packages")
    made.add_argument("--n", type=positive, default=200, help="places, the same in each set")
    made.add_argument("--seed", type=int, default=7, help="of the places and of the other names")
    made.add_argument("--budget", type=positive, nargs="+", default=[1024], help="tokens of a whole prompt")
    made.add_argument("--model", default="qwen2.5-coder-0.5b", help="id of a pulled model, or path of a GGUF file")
    made.add_argument("--sets", nargs="+", choices=SETS, default=SETS, help="which sets")
    made.add_argument("--max-tokens", type=positive, default=40, help="most tokens beyond the cursor")
    made.add_argument("--threads", type=int, default=0, help="CPU threads; 0 = measured")
    made.add_argument("--out", type=Path, help="keep each case's result in this file, and go on from what it holds")
    made.add_argument("--plan-only", action="store_true", help="look at the prompts, and ask no model")
    made.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    return made


async def run(options: argparse.Namespace) -> dict[str, Any]:
    names = tuple(name for name in SETS if name in options.sets)
    with tempfile.TemporaryDirectory(prefix="holes-") as home:
        roots = options.root or default_roots(cache_dir() / "bench")
        trees = trees_of(roots)
        sets = sets_of(trees, options.n, options.seed, names)
        decisive = {  # of a case's result; which cases there are is another matter
            "model": options.model, "seed": options.seed, "max_tokens": options.max_tokens,
            "trees": sorted(tree.name for tree in trees),
        }  # fmt: skip
        budgets = tuple(dict.fromkeys(options.budget))
        if options.plan_only:
            log = CaseLog(options.out, {"bench": "holes_plan", **decisive, "commit": revision()})
            model = await asyncio.to_thread(model_of, options.model, options.max_tokens)
            return {**await planned(model, sets, budgets, log, Path(home).resolve()), **decisive}
        log = CaseLog(options.out, {"bench": "holes", **decisive})
        is_done = all(
            log.get(group(name, budget), case.case) is not None for name in names for case in sets[name] for budget in budgets
        )
        if not is_done:
            heart = await Heart.load(engine_config(options.model, options.threads), options.max_tokens)
            try:
                await measure(heart, sets, budgets, log, Path(home).resolve(), revision())
            finally:
                await heart.aclose()
        return report(sets, budgets, log, decisive)


def cache_dir() -> Path:
    import lsp_server.dirs

    return lsp_server.dirs.cache_dir()


def main(argv: list[str] | None = None) -> int:
    options = parser().parse_args(argv)
    return answer(options, run, plan_table if options.plan_only else table)


if __name__ == "__main__":
    sys.exit(main())
