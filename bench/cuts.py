"""Where a line of the benchmark is cut: what stood in the document, what was typed since, what should come.

Pure. Positions are in characters. Four rules, the bench's arms:

- third: behind max(indent + 2, a third of the line) characters.
- word_end: one character before a word's end; the first word of two or more characters that ends so at or behind the place of
  `third`, else the last one before it.
- after_space: just behind white space inside the line; chosen alike.
- typed_lines: at the place of `third`, but K lines earlier was the anchor: the K lines in front of the line were typed as well.
  They are those of the document itself (the file's own lines, blank ones included), so that document, cut and what should come
  are those of `third`, and only the anchor differs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from bench.errors import BenchError
from bench.problems import Problem

ARMS = ("third", "word_end", "after_space", "typed_lines")


@dataclass(frozen=True, slots=True)
class Cut:
    """prefix + suffix is the document before the first typed character, with the cursor between them at a line's start.

    typed: what is typed there in one go; want: the rest of its last line, without blanks at the end.
    """

    task_id: str
    prefix: str
    typed: str
    want: str
    suffix: str


def cut(problem: Problem, arm: str, n_lines: int) -> Cut | None:
    """The problem's line (the last one of its gap) cut by one arm's rule; None if it has no such place.

    n_lines: lines typed before it, of typed_lines. Raises BenchError if the gap is not made of whole lines.
    """
    prefix, line, suffix = _line(problem)
    at = _place(line, arm)
    if at is None:
        return None
    typed, want = line[:at], line[at:].rstrip()
    if arm == "typed_lines":
        lines = prefix.split("\n")[:-1]
        if len(lines) < n_lines:
            return None
        n_kept = len(lines) - n_lines
        prefix = "".join(text + "\n" for text in lines[:n_kept])
        typed = "".join(text + "\n" for text in lines[n_kept:]) + typed
    return Cut(problem.task_id, prefix, typed, want, suffix)


def _line(problem: Problem) -> tuple[str, str, str]:
    """(all before it, the line, all behind it, beginning with its line end)."""
    solution = problem.solution.rstrip("\n")
    end = problem.solution[len(solution) :]
    is_whole = (not problem.prompt or problem.prompt.endswith("\n")) and (end or not problem.suffix)
    if not is_whole:
        raise BenchError(f"the gap of {problem.task_id} is not made of whole lines; use the single-line or multi-line file")
    before, _, line = solution.rpartition("\n")
    head = before + "\n" if len(line) < len(solution) else ""
    return problem.prompt + head, line, (end or "\n") + problem.suffix


def _place(line: str, arm: str) -> int | None:
    indent = len(line) - len(line.lstrip())
    third = max(indent + 2, len(line) // 3)
    if arm in ("third", "typed_lines"):
        return third if line[third:].strip() else None
    if arm == "word_end":
        return _nearest((match.end() - 1 for match in re.finditer(r"\w{2,}", line)), third)
    if arm == "after_space":
        end = len(line.rstrip())
        return _nearest((m.end() for m in re.finditer(r"\s+", line) if indent < m.start() and m.end() < end), third)
    raise ValueError(f"there is no arm {arm!r}")


def _nearest(places: Iterable[int], third: int) -> int | None:
    """The first place at or behind `third`, else the last one."""
    last = None
    for last in places:
        if last >= third:
            return last
    return last
