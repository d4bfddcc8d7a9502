"""How good what is offered is: raw generations at places of real code, recorded once, and every rule replayed on the record.

`python -m bench.quality [--n N] [--model ID_OR_PATH] [--out FILE] [--json]`. Places are sampled from source files of several
languages (`bench.corpus`, `bench.places`). At each the model speaks once, to its end or 128 tokens (`bench.recording`). Then
the product's rules are replayed on that (`bench.offers`): all of them, and all but one, for each. What they offer is measured
by detectors of the bench's own (`bench.faults`, `bench.new_errors`) and against what truly stood there.

The baseline is the text to the end of generation or 128 tokens.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file: the repository's root takes the place of this folder
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from bench import corpus, places, recording
from bench.case_log import CaseLog
from bench.command import answer
from bench.errors import BenchError
from bench.midline import positive
from bench.offers import RULES, Replay, Replayed, baseline
from bench.places import Place
from bench.progress import Progress
from bench.quality_report import Judged, Judging, figures, grouped, table, thresholds
from bench.revision import revision

ALL, NONE = "all", "none"  # of the rules count


def report(sampled: Sequence[Place], log: CaseLog) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The result, and a record of every fault in what is offered with all rules."""
    known = [(place, record) for place in sampled if (record := log.get(recording.GROUP, place.name)) is not None]
    if not known:
        raise BenchError("there is no record of any place as yet; leave out --replay")
    judging, progress = Judging(), Progress("place")
    variants = {ALL: frozenset[str](), **{rule: frozenset({rule}) for rule in RULES}, NONE: frozenset(RULES)}
    raw: list[Judged] = []
    results: dict[str, list[Judged]] = {name: [] for name in variants}
    offers: list[tuple[Place, Replayed, Judged]] = []
    for i, (place, record) in enumerate(known, 1):
        replay = Replay(place, record)
        raw.append(judging.judge(place, baseline(record), is_raw=True))
        for name, off in variants.items():
            replayed = replay.by_rules(off)
            results[name].append(judging.judge(place, replayed))
            if name == ALL:
                offers.append((place, replayed, results[name][-1]))
        progress.show("replayed", i, len(known))
    progress.end()
    measured = [place for place, _ in known]
    everything, nothing = results.pop(ALL), results.pop(NONE)
    made = {
        **figures(everything, raw),
        "baseline": figures(raw, raw),
        "no_rules": figures(nothing, raw),
        "kinds": grouped(measured, everything, raw, lambda place: place.kind),
        "languages": grouped(measured, everything, raw, lambda place: place.language),
        "rules": {name: figures(result, raw) for name, result in results.items()},
        "thresholds": thresholds(results["confidence"]),
        "commit": revision(),
        "recorded": " ".join(sorted({record["commit"] for _, record in known})),
    }
    return made, [_told(*offer) for offer in offers]


def _told(place: Place, replayed: Replayed, judged: Judged) -> dict[str, Any]:
    """One place, for people."""
    return {
        "place": place.name,
        "file": place.path,
        "faults": dict(judged.faults),
        "exact": judged.is_exact,
        "rules": list(replayed.rules),
        "reason": replayed.reason,
        "confidence": replayed.confidence,
        "before": "\n".join(place.before.split("\n")[-4:]),
        "behind": "\n".join((place.closers + place.after).split("\n")[:4]),
        "offered": replayed.offer.text,
        "n_replaced": replayed.offer.n_replaced,
        "truth": place.truth,
    }


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.quality", description="What is offered, rule by rule.")
    made.add_argument("--n", type=positive, default=560, help="places sampled")
    made.add_argument("--seed", type=int, default=7, help="of the sample")
    made.add_argument("--model", default="qwen2.5-coder-0.5b", help="id of a pulled model, or path of a GGUF file")
    made.add_argument("--wheels", type=Path, help="folder for the wheels that the places are taken from; what it lacks is got")
    made.add_argument("--root", type=Path, nargs="+", help="folders of source code instead of the wheels")
    made.add_argument("--at-once", type=positive, default=6, help="places that are asked for at the same time")
    made.add_argument("--threads", type=int, default=0, help="CPU threads; 0 = measured")
    made.add_argument("--out", type=Path, help="keep each place's record in this file, and go on from what it holds")
    made.add_argument("--replay", action="store_true", help="ask nothing; only what --out holds already")
    made.add_argument("--offers", type=Path, help="write every place, what was offered and what is wrong with it: JSON lines")
    made.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    return made


async def run(options: argparse.Namespace) -> dict[str, Any]:
    folder = options.wheels or recording.default_folder()
    sources = corpus.of_folders(options.root) if options.root else corpus.of_wheels(folder)
    sampled = places.sample(sources, options.n, options.seed)
    # of a place's record; which places there are is another matter
    decisive = {"model": options.model, "max_tokens": recording.MOST_TOKENS, "window": recording.WINDOW.n_total}
    log = CaseLog(options.out, {"bench": "quality", **decisive})
    if not options.replay:
        commit = revision()
        await recording.record(sampled, log, options.model, options.threads, options.at_once, commit)
    made, offers = report(sampled, log)
    if options.offers is not None:
        try:
            options.offers.write_text("".join(json.dumps(offer) + "\n" for offer in offers))
        except OSError as error:
            raise BenchError(f"--offers {options.offers}: {error.strerror}; name a file that can be written") from None
    return {**made, **decisive, "seed": options.seed}


def main(argv: list[str] | None = None) -> int:
    return answer(parser().parse_args(argv), run, table)


if __name__ == "__main__":
    sys.exit(main())
