"""Does drafting pay? Steps, cost and time with drafts of each source and of all, against none.

`python -m bench.speculation [--model ID] [--draft ID|none] [--json] [--out FILE]`. Three tasks (`bench.speculation_tasks`): new
code; the same edit repeated in several places; finishing a suggestion whose surroundings have changed. Each source is forced
once, whatever it costs; then the controller has all of them, and begins anew with each task.

    steps_ratio   steps without ÷ steps with, of a forced source: larger is better
    cost_ratio    cost with ÷ cost without, by the cost table, all steps of target and draft: smaller is better
    clock_ratio   time without ÷ time with, the median of pairs that are run in turns: larger is better

Costs are those of all places, steps of forced sources those of the first `--forced`, times of the first `--timed`; there are
some more of them in the second task, where what drafts save has to be earned first. Where a near tie parts two texts, both
are counted by their own tokens. The tables are measured when a run begins, on an empty cache; for what is counted they
stand still. What is timed is a session in which all places of the task were written once before, drafts as the controller
decided: the tables have learnt what steps take behind so many tokens, and so much is earned as there would be. With `--out` an
interrupted run goes on; its session begins with those places once more.
`drafted_timed`: tokens that stand and that were drafted in the timed passes, by source.
`positions`: how often a token of the draft model stands if all before it do, by position; `--rates FILE`
writes them for `bench.gpu.drafting`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file: the repository's root takes the place of this folder
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from bench.case_log import CaseLog
from bench.command import answer
from bench.errors import BenchError
from bench.progress import Progress
from bench.results import median
from bench.revision import revision
from bench.speculation_rig import ALL, OFF, Pass, Rig, Session, StandingTable
from bench.speculation_tasks import NEW, REPEATED, Place, tasks
from inference.config import EngineConfig
from inference.drafts.found import LOOKUP
from inference.drafts.model import MODEL
from inference.measure import measure as measure_steps
from inference.measure import thread_candidates, usable_cpus
from inference.models import store
from inference.types import Costs

LEAST_PAIRS = 7
_MORE_TIMED = 1
_TABLE_S = 6.0
_LEAST_REACHED = 20  # drafts that a rate is told from


class Passes:
    """Of one task: run, or known from the log. n_forced, n_timed: places of a pass with one source, or for its time."""

    def __init__(
        self, rig: Rig, log: CaseLog, task: str, places: tuple[Place, ...], n_forced: int = 2, n_timed: int = 1
    ) -> None:
        self._rig, self._log, self._task = rig, log, task
        self._places, self._forced, self._timed = places, places[:n_forced], places[:n_timed]
        self._session: Session | None = None

    def counted(self, kind: str) -> Pass:
        return self._of(kind, lambda: self._rig.run(self._places if kind in (OFF, ALL) else self._forced, kind))

    def timed(self, kind: str, i: int) -> Pass:
        """The i-th of its kind."""
        return self._of(f"{kind} {i}", lambda: self._rig.run(self._timed, kind, self._in_session()))

    def _in_session(self) -> Session:
        if self._session is None:
            self._session = Session()
            self._rig.run(self._places, ALL, self._session)
        return self._session

    def _of(self, case: str, run: Callable[[], Pass]) -> Pass:
        known = self._log.get(self._task, case)
        if known is not None:
            return Pass(**known)
        made = run()
        self._log.add(self._task, case, asdict(made))
        return made


def ratios(passes: Passes, sources: tuple[str, ...], n_pairs: int, progress: Progress, name: str) -> dict[str, Any]:
    """Of one task."""
    n_total = 2 + len(sources) + n_pairs
    progress.show(name, 0, n_total)
    plain = passes.counted(OFF)
    if not plain.n_tokens:
        raise BenchError(f"The model has written nothing for {name}; take a larger one.")
    forced: dict[str, Pass] = {}
    for i, source in enumerate(sources, 1):
        progress.show(name, i, n_total)
        forced[source] = passes.counted(source)
    progress.show(name, 1 + len(sources), n_total)
    decided = passes.counted(ALL)
    pairs, with_drafts = [], []
    for i in range(n_pairs):
        progress.show(name, n_total - n_pairs + i, n_total)
        pair = {kind: passes.timed(kind, i) for kind in ((OFF, ALL) if i % 2 else (ALL, OFF))}
        pairs.append(per_token(pair[OFF].clocks, pair[OFF]) / per_token(pair[ALL].clocks, pair[ALL]))
        with_drafts.append(pair[ALL])
    positions = forced[MODEL].positions if MODEL in forced else []
    return {
        "steps_ratio": {
            source: round(per_token(plain.steps[: len(each.steps)], plain) / per_token(each.steps, each), 3)
            for source, each in forced.items()
        },
        "cost_ratio_controller": round(per_token(decided.costs, decided) / per_token(plain.costs, plain), 4),
        "clock_ratio_controller": round(median(pairs) or 0.0, 3),
        "acceptance": {source: each.acceptance.get(source, 0.0) for source, each in forced.items()},
        "n_tokens": plain.n_tokens,
        "same_texts": [sum(a == b for a, b in zip(plain.texts, decided.texts, strict=True)), len(plain.texts)],
        "controller": decided.drafted,
        "drafted_timed": {s: [sum(each.drafted[s][k] for each in with_drafts) for k in (0, 1)] for s in decided.drafted},
        "clock_ratios": [round(pair, 3) for pair in pairs],
        "positions": positions,
    }


def per_token(values: Sequence[float], of: Pass) -> float:
    """At the places that there are values of."""
    return sum(values) / max(1, sum(of.tokens[: len(values)]))


def rates_of(made: dict[str, dict[str, Any]]) -> list[float]:
    """By position, of all tasks together; as far as enough drafts have reached there."""
    reached, right = Counter[int](), Counter[int]()
    for task in made.values():
        for position, (n_reached, n_right) in enumerate(task["positions"]):
            reached[position] += n_reached
            right[position] += n_right
    return [round(right[i] / reached[i], 3) for i in sorted(reached) if reached[i] >= _LEAST_REACHED]


def open_rig(options: argparse.Namespace, log: CaseLog) -> Rig:
    from inference.drafts.compatible import why_not_compatible
    from inference.llama.draft import why_not_usable
    from inference.llama.model import LlamaBackend

    directory = store.models_dir()
    config = EngineConfig(n_ctx=2048, n_sequences=2)
    backend = LlamaBackend(config, store.resolve(options.model, directory))
    table = _table(backend, options.threads, log, "target")
    if options.draft == "none":
        return Rig(backend, table)
    draft = LlamaBackend(config, store.resolve(options.draft, directory))
    why = why_not_compatible(backend.vocab, draft.vocab) or why_not_usable(backend, draft)
    if why:
        raise BenchError(f"{options.draft} can't draft for {options.model}: {why}")
    return Rig(backend, table, draft, _table(draft, options.threads, log, "draft"))


def _table(backend: Any, n_threads: int, log: CaseLog, name: str) -> StandingTable:
    """As an earlier part of the run has measured it, or measured now; the threads are set."""
    known = log.get("tables", name)
    if known is None:
        made = measure_steps(backend, (n_threads,) if n_threads else thread_candidates(usable_cpus()), budget_s=_TABLE_S)
        known = {"n_threads": made.n_threads, "prefill": made.prefill_ms_per_token, "rows": [list(row) for row in made.rows]}
        log.add("tables", name, known)
    backend.set_threads(known["n_threads"])
    rows = tuple((n, ms) for n, ms in known["rows"])
    return StandingTable(Costs(known["prefill"], rows[0][1], on_cpu=backend.on_cpu), rows)


async def run(options: argparse.Namespace) -> dict[str, Any]:
    return await asyncio.to_thread(measure, options)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    progress = Progress("pass")
    about = {name: getattr(options, name) for name in ("model", "draft", "threads", "tokens", "places", "forced", "timed")}
    log = CaseLog(options.out, {"bench": "speculation", **about})
    rig = open_rig(options, log)
    try:
        made = {
            name: ratios(
                Passes(rig, log, name, places, options.forced, options.timed + (_MORE_TIMED if name == REPEATED else 0)),
                rig.sources,
                options.pairs,
                progress,
                name,
            )
            for name, places in tasks(options.tokens, options.places).items()
        }
    finally:
        progress.end()
        for backend in (rig.target, rig.draft):
            if backend is not None:
                backend.close()
    tables = [[list(row) for row in table.rows] for table in (rig.table, rig.draft_table) if table is not None]
    result = {
        **about,
        "commit": revision(),
        "tasks": made,
        "tables": tables,
        "pairs": options.pairs,
        "positions": rates_of(made),
    }
    if options.rates is not None:
        keep_rates(options.rates, result)
    return result


def keep_rates(file: Path, result: dict[str, Any]) -> None:
    """BenchError: there are none, or the file can't be written."""
    if not result["positions"]:
        raise BenchError("No rates were measured: give a draft model, and more tokens or places.")
    told = {name: result[name] for name in ("model", "draft", "commit", "positions")}
    try:
        file.write_text(json.dumps(told) + "\n", encoding="utf-8")
    except OSError as error:
        raise BenchError(f"--rates {file}: {error.strerror}; name a file that can be written") from None


def bars(made: dict[str, Any], name: str) -> list[tuple[str, float, bool, float]]:
    """What is asked of a task: a word, the figure, whether it has to be at most the bar, the bar."""
    task = made["tasks"][name]
    most = 1.02 if name != REPEATED else 1 / 1.5 if "0.5b" in str(made["model"]).lower() else 1 / 1.25
    asked = [
        ("cost", task["cost_ratio_controller"], True, most),
        ("clock", task["clock_ratio_controller"], False, 0.95),
    ]
    wanted = {REPEATED: (LOOKUP, 2.0), NEW: (MODEL, 1.5)}.get(name)
    if wanted is not None and wanted[0] in task["steps_ratio"]:
        asked.append((f"steps, {wanted[0]} forced", task["steps_ratio"][wanted[0]], False, wanted[1]))
    return asked


def table(made: dict[str, Any]) -> str:
    lines = [f"{made['model']}, draft: {made['draft']}"]
    for name, task in made["tasks"].items():
        forced = ", ".join(
            f"{source} {ratio:.2f} ({task['acceptance'][source]:.0%})" for source, ratio in task["steps_ratio"].items()
        )
        lines.append(f"{name:<20} steps ÷ {forced}; {task['n_tokens']} tokens")
        for word, figure, is_most, bar in bars(made, name):
            holds = figure <= bar if is_most else figure >= bar
            lines.append(f"{'':<20} {word} {figure:.3f}  {'<=' if is_most else '>='} {bar:.3f}  {'pass' if holds else 'miss'}")
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.speculation", description="What drafts save, and what they cost.")
    made.add_argument("--model", default="qwen2.5-coder-1.5b", help="id, name or path")
    made.add_argument("--draft", default="qwen2.5-coder-0.5b", help="the same, or none")
    made.add_argument("--json", action="store_true", help="print JSON")
    made.add_argument("--out", type=Path, help="results pass by pass, so that an interrupted run goes on")
    made.add_argument("--rates", type=Path, help="write here how often the draft model is right, by position")
    made.add_argument("--threads", type=int, default=0, help="CPU threads; 0 = as measured")
    made.add_argument("--tokens", type=int, default=64, help="most tokens written at each place")
    made.add_argument("--places", type=int, default=4, help="most places of each task")
    made.add_argument("--forced", type=int, default=2, help="of these, where sources are forced")
    made.add_argument("--timed", type=int, default=1, help="of these, for the clock")
    made.add_argument("--pairs", type=int, default=LEAST_PAIRS, help="runs with and without, in turns")
    return made


def main(argv: list[str] | None = None) -> int:
    return answer(parser().parse_args(argv), run, table)


if __name__ == "__main__":
    sys.exit(main())
