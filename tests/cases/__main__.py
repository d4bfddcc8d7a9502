"""`python -m tests.cases [--file F] [--report OUT.jsonl] [--kind K] [--id ID]`: one outcome for each case; 1 if any failed."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

from tests.cases.case import BUNDLED, Outcome, load
from tests.cases.runner import Result, run_all


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cases", description="Run cases made from public bug reports.")
    parser.add_argument("--file", type=Path, default=BUNDLED, help="cases as JSON")
    parser.add_argument("--report", type=Path, help="write one JSON object per case, one a line")
    parser.add_argument("--kind", help="only cases of this kind")
    parser.add_argument("--id", help="only this case")
    args = parser.parse_args(argv)
    try:
        cases = load(args.file)
    except ValueError as error:
        parser.exit(2, f"{error}\n")
    cases = [case for case in cases if args.kind in (None, case.kind) and args.id in (None, case.id)]
    if not cases:
        parser.exit(2, "no case is chosen by that\n")
    results = []
    for result in run_all(cases):
        results.append(result)
        sys.stdout.write(_line(result))
        sys.stdout.flush()
    if args.report is not None:
        _write(args.report, results)
    # once more where everybody looks
    sys.stdout.writelines(_line(result) for result in results if result.outcome is Outcome.FAILED)
    counts = Counter(result.outcome for result in results)
    sys.stdout.write(", ".join(f"{counts[outcome]} {outcome}" for outcome in Outcome) + "\n")
    return int(counts[Outcome.FAILED] > 0)


def _line(result: Result) -> str:
    return f"{result.outcome:10} {result.id:26} {result.ms:6} ms  {result.detail}\n"


def _write(report: Path, results: list[Result]) -> None:
    lines = (json.dumps(result.as_dict(), ensure_ascii=False) for result in results)
    report.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
