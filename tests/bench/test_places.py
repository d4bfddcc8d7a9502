"""Where places are, what is taken out of a document there, and which are sampled."""

from __future__ import annotations

import random
import re
import sysconfig
from pathlib import Path

import pytest

from bench import places
from bench.corpus import Source
from bench.errors import BenchError
from bench.places import KINDS, Place, sample

FILLER = "".join(f"// line {i}\n" for i in range(places.FEWEST_BEFORE))
GO = (
    FILLER
    + """package main

func total(items []int, most int) int {
\tsum := 0 // what they are together
\tfor _, item := range items {
\t\tsum += min(item, most)
\t}
\treturn sum
}
"""
)
NAMES = ("bisect", "heapq", "textwrap", "shlex", "fnmatch", "queue", "glob", "sched")


def stdlib() -> list[Source]:
    folder = Path(sysconfig.get_path("stdlib"))
    sources = [Source("python", f"{name}.py", "python", (folder / f"{name}.py").read_text()) for name in NAMES]
    return sorted(sources, key=lambda source: source.digest)


def all_places(source: Source) -> list[Place]:
    code = places._read(source)
    assert code is not None
    return [place for kind in KINDS for place in places._FINDERS[kind](code, random.Random(1))]


def test_what_was_removed_and_what_stays_are_the_file() -> None:
    """But for blanks at the line's end; and the closers behind the cursor are the remainder's own."""
    n_by_kind = dict.fromkeys(KINDS, 0)
    for source in [*stdlib()[:2], Source("go", "main.go", "go", GO)]:
        for place in all_places(source):
            n_by_kind[place.kind] += 1
            whole = place.before + place.truth + place.after
            assert re.sub(r"[ \t]+\n", "\n", whole) == re.sub(r"[ \t]+\n", "\n", source.text), place.name
            assert place.truth and place.truth == place.truth.rstrip()
            assert place.before_line.endswith("\n") or not place.before_line
            assert "\n" not in place.typed and place.after[:1] in ("", "\n")
            rest = place.truth
            for closer in place.closers:
                assert closer in rest, place.name
                rest = rest[rest.index(closer) + 1 :]
            assert bool(place.closers) <= (place.kind == "closer")
    assert all(n_by_kind.values()), n_by_kind


def only(kind: str, text: str, language: str) -> list[Place]:
    return [place for place in all_places(Source("it", "it", language, text)) if place.kind == kind]


def test_a_block_is_removed_as_a_whole_and_its_closer_stays() -> None:
    body = only("block_start", GO, "go")
    assert [(place.typed, place.truth.split("\n")[0], place.after[:3]) for place in body] == [
        ("\t", "sum := 0 // what they are together", "\n}\n"),
        ("\t\t", "sum += min(item, most)", "\n\t}"),
    ]
    assert body[0].truth.endswith("return sum") and not body[0].is_line
    (python,) = only("block_start", "def total(items):\n    items = 1\n    return items\n\n\nx = 1\n", "python")
    assert (python.typed, python.truth, python.after) == ("    ", "items = 1\n    return items", "\n\n\nx = 1\n")


def test_a_line_starts_where_a_statement_follows_another_one() -> None:
    assert [place.truth.split("\n")[0] for place in only("line_start", GO, "go")] == [
        "func total(items []int, most int) int {",
        "return sum",
    ], "what stands behind a comment goes on from that"


def test_closers_of_what_was_opened_on_the_line_stand_behind_the_cursor() -> None:
    found = {}
    code = places._read(Source("go", "main.go", "go", GO))
    assert code is not None
    for i in range(40):
        for place in places._closers(code, random.Random(i)):
            found[place.typed] = (place.closers, place.truth)
    assert found["\t\tsum += min(it"] == (")", "em, most)")
    assert {closers for closers, _ in found.values()} <= {")", "])"}


def test_inside_comments_and_strings_are_no_lines_of_code() -> None:
    text = FILLER + 'package main\n\nvar long = "a long text that goes on for a while, up to its end"\n'
    code = places._read(Source("go", "main.go", "go", text))
    assert code is not None
    for i in range(60):
        for place in places._mid_lines(code, random.Random(i)):
            assert not place.typed.startswith("//")
            assert place.typed.count('"') != 1, place.typed


def test_the_sample_is_the_same_each_time_and_even() -> None:
    sources = stdlib()
    one, two = sample(sources, 10, 7), sample(sources, 10, 7)
    assert one == two and len({place.name for place in one}) == 10
    assert {kind: sum(place.kind == kind for place in one) for kind in KINDS} == dict.fromkeys(KINDS, 2)
    assert all(place.before.count("\n") >= places.FEWEST_BEFORE for place in one)
    assert sample(sources, 10, 8) != one


def test_no_file_is_taken_twice_or_with_an_error() -> None:
    sources = stdlib()
    near = [Source("copy", "it.py", "python", source.text + "\nX_OF_COPY = 1\n") for source in sources]
    broken = [Source("bad", "it.py", "python", source.text + "\ndef (:\n") for source in sources]
    beside = [source for group in zip(broken, sources, near, strict=True) for source in group]
    assert sample(beside, 10, 7) == sample(sources, 10, 7)
    assert places._read(broken[0]) is None


def test_too_few_places_are_told() -> None:
    with pytest.raises(BenchError, match="--n"):
        sample(stdlib(), 5000, 7)
