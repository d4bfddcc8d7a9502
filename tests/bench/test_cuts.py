"""Where lines are cut."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.cuts import ARMS, Cut, cut
from bench.errors import BenchError
from bench.problems import Problem

LINES = st.text(alphabet="ab_é9 \t=().,", max_size=40)
BODIES = st.lists(LINES, max_size=6)


def problem(line: str, *, before: str = "def f(x):\n", behind: str = "    return x\n") -> Problem:
    return Problem("SingleLineInfilling/1", "f", before, behind, line + "\n", "")


def typed(line: str, arm: str) -> str | None:
    made = cut(problem(line), arm, 1)
    return None if made is None else made.typed.rsplit("\n", 1)[-1]


@given(st.sampled_from(ARMS), LINES, BODIES, BODIES, st.integers(1, 4))
def test_every_cut_is_a_place_in_the_original(arm: str, line: str, before: list[str], behind: list[str], n_lines: int) -> None:
    prompt, suffix = "".join(f"{text}\n" for text in before), "".join(f"{text}\n" for text in behind)
    made = cut(problem(line, before=prompt, behind=suffix), arm, n_lines)
    if made is None:
        return
    rest = line[len(made.typed.rsplit("\n", 1)[-1]) :]
    assert made.prefix + made.typed + rest + made.suffix == prompt + line + "\n" + suffix
    assert made.want == rest.rstrip() != ""
    assert made.prefix == "" or made.prefix.endswith("\n")
    assert made.suffix.startswith("\n")
    assert made.typed.count("\n") == (n_lines if arm == "typed_lines" else 0)
    indent = len(line) - len(line.lstrip())
    assert len(line) - len(rest) > indent, "something was typed"


@given(LINES)
def test_third(line: str) -> None:
    made = typed(line, "third")
    at = max(len(line) - len(line.lstrip()) + 2, len(line) // 3)
    assert made == (line[:at] if line[at:].strip() else None)


@given(LINES)
def test_word_end_leaves_the_words_last_character(line: str) -> None:
    made = typed(line, "word_end")
    if made is None:
        assert not re.search(r"\w\w", line)
        return
    assert re.search(r"\w\Z", made)
    assert re.match(r"\w(?!\w)", line[len(made) :])


@given(LINES)
def test_after_space_is_between_blank_and_text(line: str) -> None:
    made = typed(line, "after_space")
    if made is None:
        assert len(line.split()) < 2
        return
    assert made[-1].isspace()
    assert made.strip()
    assert not line[len(made)].isspace()


@pytest.mark.parametrize(
    ("arm", "line", "expected"),
    [
        ("third", "    return total", "    re"),
        ("third", "total = sum(values) + offset", "total = s"),
        ("third", "x", None),
        ("word_end", "    return total", "    retur"),
        ("word_end", "ab = (1 + 2 + 3 + 4 + 5)", "a"),
        ("word_end", "abcd efgh", "abc"),
        ("word_end", "a = b", None),
        ("after_space", "    return total", "    return "),
        ("after_space", "a = bcdefghijklmnopqrstuvwxyz", "a = "),
        ("after_space", "    pass  ", None),
    ],
)
def test_examples(arm: str, line: str, expected: str | None) -> None:
    assert typed(line, arm) == expected


def test_the_place_is_the_first_one_behind_a_third() -> None:
    line = "one two three four five six seven"
    assert typed(line, "word_end") == "one two thre"
    assert typed(line, "after_space") == "one two three "


def test_typed_lines_moves_the_anchor_and_nothing_else() -> None:
    made = problem("    y = total", before="def f(x):\n    a = 1\n\n")
    third, lines = cut(made, "third", 2), cut(made, "typed_lines", 2)
    assert third is not None and lines is not None
    assert lines == Cut(third.task_id, "def f(x):\n", "    a = 1\n\n" + third.typed, third.want, third.suffix)
    assert cut(made, "typed_lines", 4) is None


def test_of_several_lines_the_last_one_is_cut() -> None:
    several = Problem("MultiLineInfilling/1", "f", "def f():\n", "    return b\n", "    a = 12\n    b = a\n\n", "")
    assert cut(several, "third", 1) == Cut(
        "MultiLineInfilling/1", "def f():\n    a = 12\n", "    b ", "= a", "\n\n    return b\n"
    )


@pytest.mark.parametrize(("prompt", "solution", "suffix"), [("def f(", "x):\n", ""), ("def f():\n", "  ret", "urn\n")])
def test_gaps_inside_lines_are_refused(prompt: str, solution: str, suffix: str) -> None:
    with pytest.raises(BenchError, match="whole lines"):
        cut(Problem("RandomSpanInfilling/1", "f", prompt, suffix, solution, ""), "third", 1)
