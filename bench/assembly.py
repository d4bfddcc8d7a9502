"""What a keystroke costs before any model is asked: text, tree, plan and tokens after one edit, against the file's length.

`python -m bench.assembly [--model MODEL] [--edits N] [--lines N …]` prints JSON:
  p95_ms           of an edit: the text's new version, the tree moved along, the scopes around the cursor, the plan checked or
                   made anew, the prompt rendered
  bytes_tokenized  the most that one edit gave to the tokenizer
  nodes_visited    the most nodes of the tree that one edit looked at
each by the number of lines; and of the parse that follows in a thread, which nobody waits for: parse_p95_ms, and
parse_read_bytes, the median of the bytes that it looked at. Of the model only the vocabulary is loaded. One edit in forty is
somewhere else in the file, so that everything is planned anew.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

if __package__ in (None, ""):  # run as a file: the repository's root takes the place of this folder
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from bench.errors import BenchError
from context.config import ContextConfig
from context.fim import render
from context.plan import Fit, check, make_plan, shift
from context.syntax import NoTree, SyntaxTree, parse
from context.text import Edit, Text
from context.tokens import TokenTable
from context.types import DocumentSnapshot, Layout, Limits, Plan
from inference.types import EngineError

LINES = (500, 1000, 10_000, 50_000)
EDITS_PER_PLACE = 40
TYPED = "    wert = zähle(quelle, {n})\n    if wert > {n}:\n        return wert\n"
LIMITS = Limits(ContextConfig().prefix_tokens, ContextConfig().suffix_tokens, 4096)


class Vocabulary(Protocol):
    @property
    def pre_type(self) -> str: ...
    @property
    def pieces(self) -> Sequence[bytes]: ...
    def encode(self, text: bytes) -> tuple[int, ...]: ...


@dataclass(slots=True)
class Measured:
    """Of each edit, in order. parse_ms, parse_read_bytes: of the parse after it."""

    edit_ms: list[float] = field(default_factory=list)
    bytes_tokenized: list[int] = field(default_factory=list)
    nodes_visited: list[int] = field(default_factory=list)
    parse_ms: list[float] = field(default_factory=list)
    parse_read_bytes: list[int] = field(default_factory=list)


def source(n_lines: int) -> str:
    """Python of that many lines, hardly two of them equal."""
    parts: list[str] = []
    n = i = 0
    while n < n_lines:
        i += 1
        head = f"class Haus{i}(Basis):\n    # Größe {i} – 漢字\n    höhe_{i} = {i}\n\n" if i % 12 == 1 else ""
        part = (
            f"{head}    def messe_{i}(self, quelle, *, ab={i}):\n"
            f'        """Mißt {i}-mal."""\n'
            f"        summe = self.höhe + ab * {i}\n"
            f"        for wert in quelle.werte(ab, {i}):\n"
            f"            if wert.ist_offen and summe < {i * 7}:\n"
            f"                summe += wert.länge_{i % 5}\n"
            f"        return zähle(summe, 'é{i}')\n\n"
        )
        parts.append(part)
        n += part.count("\n")
    return "".join(parts)


class Desk:
    """One document being edited, as the server would keep it."""

    def __init__(self, n_lines: int, vocabulary: Vocabulary, layout: Layout, clock: Callable[[], float]) -> None:
        self._table = TokenTable(vocabulary, vocabulary.pre_type, vocabulary.pieces)
        self._layout = layout
        self._clock = clock
        self._text = Text.of(source(n_lines))
        tree = parse("python", self._text)
        if isinstance(tree, NoTree):
            raise BenchError(f"the file has no tree: {tree.reason}")
        self._tree: SyntaxTree = tree
        self._plan: Plan | None = None
        self._version = 1
        self.measured = Measured()

    def line_end(self, share: float) -> int:
        return self._text.line_end(int(share * (self._text.n_lines - 1)))

    def type(self, at: int, typed: str) -> None:
        edit = Edit(at, at, typed.encode())
        n_tokenized = self._table.n_encoded_bytes
        started = self._clock()
        text = self._text.edit(edit.start, edit.end, edit.new)
        moved = self._tree.edited((edit,), text)
        self._version += 1
        cursor = at + len(edit.new)
        snapshot = DocumentSnapshot("untitled:bench", self._version, "python", text)
        around = moved.path(cursor - 1)
        plan = shift(self._plan, edit) if self._plan is not None else None
        if plan is None or check(plan, snapshot, cursor, self._table)[0] is Fit.REPLAN:
            plan = make_plan(snapshot, cursor, LIMITS, self._table, self._layout, previous=plan)
        render(plan, snapshot, cursor, self._table)
        edited = self._clock()
        parsed = moved.parsed()
        if isinstance(parsed, NoTree):
            raise BenchError(f"the file has no tree any more: {parsed.reason}")
        self._text, self._tree, self._plan = text, parsed, plan
        measured = self.measured
        measured.edit_ms.append((edited - started) * 1000)
        measured.parse_ms.append((self._clock() - edited) * 1000)
        measured.bytes_tokenized.append(self._table.n_encoded_bytes - n_tokenized)
        measured.nodes_visited.append(len(around))
        measured.parse_read_bytes.append(parsed.n_read_bytes)


def measure(
    n_lines: int, n_edits: int, vocabulary: Vocabulary, layout: Layout, clock: Callable[[], float] = time.perf_counter
) -> Measured:
    """Type into a file of n_lines, n_edits keys. Raises BenchError."""
    rng = random.Random(n_lines)
    desk = Desk(n_lines, vocabulary, layout, clock)
    while len(desk.measured.edit_ms) < n_edits:
        at = desk.line_end(rng.random())
        for key in "\n" + TYPED.format(n=rng.randrange(10_000))[: EDITS_PER_PLACE - 1]:
            desk.type(at, key)
            at += len(key.encode())
    return desk.measured


def report(measured: dict[int, Measured]) -> dict[str, dict[str, float]]:
    return {
        "p95_ms": {str(n): round(_p95(each.edit_ms), 3) for n, each in measured.items()},
        "bytes_tokenized": {str(n): max(each.bytes_tokenized) for n, each in measured.items()},
        "nodes_visited": {str(n): max(each.nodes_visited) for n, each in measured.items()},
        "parse_p95_ms": {str(n): round(_p95(each.parse_ms), 3) for n, each in measured.items()},
        "parse_read_bytes": {str(n): statistics.median(each.parse_read_bytes) for n, each in measured.items()},
    }


def _p95(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=20, method="inclusive")[-1]


def main(argv: list[str] | None = None) -> int:
    options = parser().parse_args(argv)
    try:
        vocabulary, layout = _vocabulary(options.model)
        measured = {n: measure(n, options.edits, vocabulary, layout) for n in options.lines}
    except (BenchError, EngineError) as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(report(measured)))
    return 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser("python -m bench.assembly", description="What a keystroke costs before any model is asked.")
    made.add_argument("--model", default="qwen2.5-coder-0.5b", help="a known model's name, or the path of a GGUF")
    made.add_argument("--edits", type=int, default=400, help="keys typed into each file (%(default)s)")
    made.add_argument("--lines", type=int, nargs="+", default=list(LINES), help="lengths of the files")
    made.add_argument("--json", action="store_true", help="accepted for uniformity: JSON is all that is printed")
    return made


def _vocabulary(model: str) -> tuple[Vocabulary, Layout]:
    from inference.llama.vocab import load_vocab
    from inference.models.store import models_dir, resolve
    from lsp_server.plans.layouts import choose_layout

    path = resolve(model, models_dir())
    vocabulary = load_vocab(path)
    return vocabulary, choose_layout("auto", vocabulary, path.name)


if __name__ == "__main__":
    sys.exit(main())
