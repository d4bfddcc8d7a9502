"""Figures of what is offered at many places: how much, how right, and what is wrong with it.

Owns the sums and the table for people. A place's result is judged once for each different text.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.faults import Offer, control_tokens, duplicates, repetition
from bench.new_errors import breaks_code, syntax_error, undefined_names
from bench.offers import Replayed
from bench.places import Place

# silent below: what would be left, and how much of it right
THRESHOLDS = (-3.0, -2.5, -2.0, -1.75, -1.5, -1.25, -1.0, -0.8, -0.6, -0.5, -0.4, -0.3, -0.2, -0.1)


@dataclass(frozen=True, slots=True)
class Judged:
    """One place's result. Of a single-line place only the first line is compared. faults: by measure, what was found.

    length: of what is offered ÷ of the true remainder, in characters. similarity: 1 = equal.
    """

    is_offered: bool
    n_tokens: int
    is_exact: bool = False
    length: float = 0.0
    similarity: float = 0.0
    confidence: float | None = None
    faults: Mapping[str, str] = field(default_factory=dict)


FAULTS: dict[str, Callable[[Place, Offer], str]] = {
    "new_syntax_errors": syntax_error,
    "duplicates": duplicates,
    "repetition": repetition,
    "control_tokens": control_tokens,
    "undefined_names": lambda place, offer: " ".join(undefined_names(place, offer)),
    "broken_code": lambda place, offer: "has an error" if breaks_code(place, offer) else "",
}


class Judging:
    """Judges results; remembers what it has found of a text at a place."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Offer, bool], Judged] = {}

    def judge(self, place: Place, replayed: Replayed, *, is_raw: bool = False) -> Judged:
        """is_raw: a text by none of the rules; it is right also where it says the closers behind the cursor again."""
        if not replayed.is_offered:
            return Judged(False, replayed.n_tokens)
        key = (place.name, replayed.offer, is_raw)
        if key not in self._known:
            self._known[key] = self._look(place, replayed.offer, is_raw)
        found = self._known[key]
        return Judged(
            True, replayed.n_tokens, found.is_exact, found.length, found.similarity, replayed.confidence, found.faults
        )

    def _look(self, place: Place, offer: Offer, is_raw: bool) -> Judged:
        said, true = offer.line(place), place.truth
        if place.is_line:
            said, true = said.split("\n", 1)[0].rstrip(), true.split("\n", 1)[0].rstrip()
        else:
            said = offer.text.rstrip()
        first = offer.text.split("\n", 1)[0].rstrip()
        is_exact = said == true or (is_raw and place.is_line and first == true)
        faults = {name: what for name, measure in FAULTS.items() if (what := measure(place, offer))}
        own = first if place.is_line else offer.text.rstrip()
        length = len(own) / max(1, len(true) - (len(said) - len(own) if place.closers and not is_exact else 0))
        return Judged(True, 0, is_exact, 1.0 if is_exact else length, _similarity(said, true), None, faults)


def _similarity(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()


def figures(results: Sequence[Judged], raw: Sequence[Judged]) -> dict[str, Any]:
    """results, raw: of the same places; raw is the baseline. mean_length_ratio: no text counts for more than the whole
    remainder; mean_length_ratio_open: as long as it is. Counts are of places, exact and ratios are shares."""
    n = len(results)
    offered = [result for result in results if result.is_offered]
    counts = Counter(name for result in offered for name in result.faults)
    n_raw_tokens = sum(result.n_tokens for result in raw)
    return {
        "n": n,
        "offered": len(offered),
        "offered_baseline": sum(result.is_offered for result in raw),
        "mean_length_ratio": _mean([min(1.0, result.length) for result in offered]),
        "mean_length_ratio_open": _mean([result.length for result in offered]),
        "exact": _mean([float(result.is_exact) for result in results]),
        "exact_baseline": _mean([float(result.is_exact) for result in raw]),
        "edit_similarity": _mean([result.similarity for result in offered]),
        **{name: counts[name] for name in FAULTS},
        "generated_tokens_ratio": round(sum(r.n_tokens for r in results) / n_raw_tokens, 4) if n_raw_tokens else None,
    }


def thresholds(results: Sequence[Judged]) -> list[dict[str, Any]]:
    """For each confidence below which nothing would be shown: what is left, how much of it is exact, what has faults."""
    made = []
    for least in THRESHOLDS:
        left = [result for result in results if result.is_offered and (result.confidence or 0.0) >= least]
        exact = sum(result.is_exact for result in left)
        made.append({
            "least": least,
            "offered": len(left),
            "exact": exact,
            "right": round(exact / len(left), 4) if left else None,
            "edit_similarity": _mean([result.similarity for result in left]),
            "new_syntax_errors": sum("new_syntax_errors" in result.faults for result in left),
        })  # fmt: skip
    return made


def grouped(
    places: Sequence[Place], results: Sequence[Judged], raw: Sequence[Judged], name: Callable[[Place], str]
) -> dict[str, Any]:
    """The figures by a name of each place."""
    groups: dict[str, list[int]] = {}
    for i, place in enumerate(places):
        groups.setdefault(name(place), []).append(i)
    return {key: figures([results[i] for i in at], [raw[i] for i in at]) for key, at in groups.items()}


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None


COLUMNS = (
    ("offered", "offered"),
    ("length", "mean_length_ratio"),
    ("exact", "exact"),
    ("similar", "edit_similarity"),
    ("syntax", "new_syntax_errors"),
    ("twice", "duplicates"),
    ("loops", "repetition"),
    ("control", "control_tokens"),
    ("names", "undefined_names"),
    ("tokens", "generated_tokens_ratio"),
)


def table(made: Mapping[str, Any]) -> str:
    """The report for people: all places, the baseline, by kind and language, and each rule alone switched off."""
    lines = [f"{'':<20}{'n':>5}" + "".join(f"{head:>9}" for head, _ in COLUMNS)]
    lines += [_line("all rules", made), _line("none", made["no_rules"]), _line("baseline", made["baseline"])]
    for group in ("kinds", "languages"):
        lines += ["", *(_line(name, part) for name, part in made[group].items())]
    lines += ["", "without the rule"]
    lines += [_line(name, part) for name, part in made["rules"].items()]
    return "\n".join(lines)


def _line(name: str, part: Mapping[str, Any]) -> str:
    cells = (part[key] for _, key in COLUMNS)
    return f"{name:<20}{part['n']:>5}" + "".join(f"{'' if cell is None else cell:>9}" for cell in cells)
