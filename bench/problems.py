"""The infilling benchmark's problems, as its files hold them: JSON lines, gzipped or not.

Owns reading, checking and sampling. Refuses to know what a layout or a model is.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.errors import BenchError

FIELDS = {"task_id": "task_id", "entry_point": "entry_point", "prompt": "prompt", "suffix": "suffix",
          "canonical_solution": "solution", "test": "test"}  # fmt: skip
GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Problem:
    """prompt + solution + suffix is a program; with test behind it, `check(entry_point)` raises unless it is right."""

    task_id: str
    entry_point: str
    prompt: str
    suffix: str
    solution: str
    test: str

    @property
    def form(self) -> str:
        """What kind of gap it has: "single_line", "multi_line", "random_span"; as its id says."""
        name = self.task_id.split("/", 1)[0].removesuffix("Infilling")
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()

    def program(self, text: str) -> str:
        """The program to run for a file's text: the tests follow it, and are called."""
        return f"{text}\n{self.test}\n\ncheck({self.entry_point})\n"


def load(path: Path) -> tuple[Problem, ...]:
    """All problems of a file, in its order. Raises BenchError."""
    try:
        data = path.read_bytes()
        if data.startswith(GZIP):
            data = gzip.decompress(data)
        lines = data.decode().split("\n")
    except OSError as error:
        why = error.strerror or "it is damaged"
        raise BenchError(f"--data {path}: {why}; name a file of the infilling benchmark") from None
    except (EOFError, UnicodeDecodeError, ValueError):
        raise BenchError(f"--data {path} is damaged; copy it again") from None
    problems = tuple(_problem(line, f"line {i} of {path}") for i, line in enumerate(lines, 1) if line.strip())
    if not problems:
        raise BenchError(f"--data {path} holds no problems")
    if len({problem.task_id for problem in problems}) < len(problems):
        raise BenchError(f"--data {path} holds a task_id twice; its results could not be told apart")
    return problems


def _problem(line: str, where: str) -> Problem:
    try:
        row = json.loads(line)
        return Problem(**{ours: _text(row[theirs]) for theirs, ours in FIELDS.items()})
    except (ValueError, TypeError, KeyError):
        raise BenchError(f"{where} is no problem of the infilling benchmark: an object with {', '.join(FIELDS)}") from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def sample(problems: Sequence[Problem], n: int, seed: int) -> list[Problem]:
    """n of them, or all, in an order that the seed decides. The same ones for the same file, n and seed, on any machine."""
    return random.Random(seed).sample(list(problems), min(n, len(problems)))
