"""What a skeleton is worth: a file of 300 to 500 lines as a reference, whole, trimmed, or cut off at the skeleton's size.

`python -m bench.trim [--root DIR ...] [--n N] [--seed S] [--model M] [--out FILE] [--json]`. Each file stands first in the
prompts of three places in other files that use what it defines, so that its tokens are evaluated once for all three; behind it
stand the lines around the place. The prompts are the product's own (`context.plan`, `context.fim`), the place is the rest of a
line, and right is the same rest, blanks at its end aside.

`keep` of the skeleton are the file's names that stand near one of the three places, the holes' own text aside.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file: the repository's root takes the place of this folder
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from bench.case_log import CaseLog, Record
from bench.command import answer
from bench.errors import BenchError
from bench.heart import Heart, engine_config
from bench.holes import cache_dir
from bench.holes_measure import rest_of_line
from bench.holes_sites import Hole
from bench.holes_tree import squeeze, trees_of
from bench.midline import positive
from bench.paired import sign_test
from bench.progress import Progress
from bench.revision import revision
from bench.trim_prompts import Prompts
from bench.trim_sites import N_PLACES, Reference, more_roots, references
from context.trim import skeleton

ARMS = ("skeleton", "full", "tail")
N_CTX = 10_240


def case_of(reference: Reference, hole: Hole) -> str:
    return f"{reference.name} < {hole.path}:{hole.line}:{hole.form}"


def forms_of(reference: Reference, prompts: Prompts) -> dict[str, bytes]:
    """The file as each arm has it. tail: whole lines from its beginning, as many as the skeleton's tokens have room for."""
    text, language = reference.file.text, reference.file.language
    made = skeleton(text, language, keep=reference.keep).text
    return {"skeleton": made, "full": text, "tail": prompts.beginning(text, prompts.count(made))}


async def measure(heart: Heart, found: Sequence[Reference], log: CaseLog, max_tokens: int, commit: str) -> None:
    """Measure what the log does not have yet."""
    progress = Progress("file")
    prompts = Prompts(heart.tap.vocab, heart.model_name, N_CTX - max_tokens - 64)
    for n, reference in enumerate(found, 1):
        left = [hole for hole in reference.places if log.get("places", case_of(reference, hole)) is None]
        if left:
            await heart.forget()
            for hole, record in zip(left, await measure_file(heart, reference, left, prompts, max_tokens), strict=True):
                log.add("places", case_of(reference, hole), {**record, "commit": commit})
        known = _records(found[:n], log)
        rights = ", ".join(f"{arm} {sum(record['right'][arm] for record in known)}" for arm in ARMS)
        progress.show("trim", n, len(found), f"right of {len(known)}: {rights}")
    progress.end()


async def measure_file(
    heart: Heart, reference: Reference, holes: Sequence[Hole], prompts: Prompts, max_tokens: int
) -> list[Record]:
    """{right, text, tokens, prompt: {arm: …}} of each hole; tokens: of the reference. Arm by arm: what is shared stays."""
    forms = forms_of(reference, prompts)
    counts = {arm: prompts.count(text) for arm, text in forms.items()}
    records: list[Record] = [{"right": {}, "text": {}, "prompt": {}, "tokens": counts} for _ in holes]
    for arm, text in forms.items():
        for hole, record in zip(holes, records, strict=True):
            whole = reference.tree.files[hole.path]
            want = whole.text[hole.start : hole.end].decode()
            tokens, heal = prompts.prompt(reference, text, hole)
            if squeeze(want.encode()) in squeeze(prompts.text_of(tokens)):
                raise BenchError(f"{case_of(reference, hole)}: the text of the hole is in the prompt; no count means anything")
            rest = rest_of_line(await prompts.said(heart.tap, tokens, heal, max_tokens))
            record["right"][arm], record["text"][arm], record["prompt"][arm] = rest == want, rest, len(tokens)
    return records


def _records(found: Sequence[Reference], log: CaseLog) -> list[Record]:
    cases = [case_of(reference, hole) for reference in found for hole in reference.places]
    return [record for case in cases if (record := log.get("places", case)) is not None]


def report(found: Sequence[Reference], log: CaseLog, about: Mapping[str, Any]) -> dict[str, Any]:
    """n: places. share: skeleton tokens / file tokens, the mean over all files. points: of a hundred places, so many more."""
    files = [records[0]["tokens"] for reference in found if (records := _records([reference], log))]
    records = _records(found, log)
    n = max(len(records), 1)
    shares = [tokens["skeleton"] / tokens["full"] for tokens in files]
    against = {}
    for other in ("full", "tail"):
        pairs = [(record["right"]["skeleton"], record["right"][other]) for record in records]
        only, only_other = pairs.count((True, False)), pairs.count((False, True))
        against[other] = {
            "only_skeleton": only, f"only_{other}": only_other, "points": round(100 * (only - only_other) / n, 2),
            "p": float(f"{sign_test(only, only_other):.4g}"),
        }  # fmt: skip
    return {
        "n": len(records),
        "n_files": len(files),
        "tokens": {arm: sum(tokens[arm] for tokens in files) for arm in ARMS},
        "share": round(sum(shares) / max(len(shares), 1), 4),
        "exact": {arm: sum(record["right"][arm] for record in records) for arm in ARMS},
        "against": against,
        **about,
        "commit": " ".join(sorted({record["commit"] for record in records})),
    }


def table(made: Mapping[str, Any]) -> str:
    """The report for people."""
    lines = [f"{made['n_files']} files, {made['n']} places; skeletons have {made['share']:.1%} of the tokens on the average"]
    for arm in ARMS:
        against = made["against"].get(arm)
        told = f"   skeleton {against['points']:+.1f} points, p {against['p']}" if against else ""
        lines.append(f"{arm:<10}{made['exact'][arm]:>5} right{made['tokens'][arm]:>12,} tokens{told}")
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.trim", description="What a skeleton is worth.")
    made.add_argument("--root", type=Path, nargs="+", help="folders with source files; default: many installed packages")
    made.add_argument("--n", type=positive, default=110, help=f"files; each has {N_PLACES} places")
    made.add_argument("--seed", type=int, default=7, help="of files and places")
    made.add_argument("--model", default="qwen2.5-coder-0.5b", help="id of a pulled model, or path of a GGUF file")
    made.add_argument("--max-tokens", type=positive, default=40, help="most tokens beyond the cursor")
    made.add_argument("--threads", type=int, default=0, help="CPU threads; 0 = measured")
    made.add_argument("--out", type=Path, help="keep each place's result in this file, and go on from what it holds")
    made.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    return made


async def run(options: argparse.Namespace) -> dict[str, Any]:
    trees = trees_of(options.root or more_roots(cache_dir() / "bench"))
    found = references(trees, options.n, options.seed)
    decisive = {  # of a place's result; which files there are is another matter
        "model": options.model, "seed": options.seed, "max_tokens": options.max_tokens,
        "trees": sorted(tree.name for tree in trees),
    }  # fmt: skip
    log = CaseLog(options.out, {"bench": "trim", **decisive})
    if len(_records(found, log)) < N_PLACES * len(found):
        heart = await Heart.load(replace(engine_config(options.model, options.threads), n_ctx=N_CTX), options.max_tokens)
        try:
            await measure(heart, found, log, options.max_tokens, revision())
        finally:
            await heart.aclose()
    return report(found, log, decisive)


def main(argv: list[str] | None = None) -> int:
    return answer(parser().parse_args(argv), run, table)


if __name__ == "__main__":
    sys.exit(main())
