"""A made-up workspace for `bench/index.py`: files of several languages that define, import and use each other's names.

Made of a seed, so that every run has the same. Sizes are spread as in real repositories: most files short, a few of thousands
of lines.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

_WORDS = (
    "account", "order", "invoice", "parcel", "route", "signal", "buffer", "packet", "socket", "frame", "cache",
    "token", "parser", "lexer", "graph", "node", "edge", "matrix", "vector", "index", "column", "row", "schema",
    "query", "result", "window", "panel", "button", "layout", "theme", "color", "event", "queue", "worker", "task",
    "job", "batch", "stream", "chunk", "header", "body",
)  # fmt: skip
_VERBS = (
    "load", "save", "find", "make", "parse", "render", "send", "receive", "open", "close", "read", "write", "merge",
    "split", "sort", "filter", "update", "remove", "count", "check",
)  # fmt: skip


class _Dice(random.Random):
    def word(self) -> str:
        return self.choice(_WORDS)

    def name(self) -> str:
        return f"{self.choice(_VERBS)}_{self.word()}_{self.randrange(400)}"

    def n_functions(self) -> int:
        return max(1, min(400, int(self.lognormvariate(2.2, 0.9))))


def make(root: Path, n_files: int, seed: int = 1) -> int:
    """Returns the bytes written. Some of the files don't count: ignored, vendored, generated, private."""
    dice = _Dice(seed)
    kinds: list[tuple[str, Callable[[_Dice, int], str]]] = [
        ("py", _python), ("py", _python), ("ts", _typescript), ("go", _go), ("java", _java), ("rs", _rust), ("c", _c),
    ]  # fmt: skip
    n_bytes = 0
    for n in range(n_files):
        ending, text_of = kinds[n % len(kinds)]
        folder = root / ("packages/" + dice.word()) / dice.word() / dice.word()
        folder.mkdir(parents=True, exist_ok=True)
        text = text_of(dice, n)
        (folder / f"{dice.word()}_{n}.{ending}").write_text(text)
        n_bytes += len(text)
    for name in ("node_modules/m", "build/out", ".git/objects"):
        (root / name).mkdir(parents=True, exist_ok=True)
        for n in range(max(1, n_files // 100)):
            (root / name / f"x{n}.js").write_text(f"function hidden{n}() {{}}\n")
    (root / ".gitignore").write_text("build/\n*.log\n")
    (root / ".env").write_text("TOKEN=zz-not-real\n")
    return n_bytes


def change(root: Path, n_files: int, seed: int = 2) -> str:
    """Rewrite so many files, as another branch would; a name that only the last of them defines."""
    dice = _Dice(seed)
    files = sorted(root.glob("packages/**/*.py"))[:n_files]
    for path in files[:-1]:
        path.write_text(_python(dice, 0))
    files[-1].write_text("def the_last_of_the_branch():\n    return 1\n")
    return "the_last_of_the_branch"


def _python(dice: _Dice, n: int) -> str:
    parts = [f"import {dice.word()}\nfrom {dice.word()} import {dice.name()}\n\n\nclass {dice.word().title()}{n}:\n"]
    for _ in range(dice.n_functions()):
        parts.append(
            f'    def {dice.name()}(self, {dice.word()}: int, *, {dice.word()}: str = "") -> str:\n'
            f'        """The {dice.word()} of a {dice.word()}."""\n'
            f"        {dice.word()} = self.{dice.name()}({dice.word()}, {dice.randrange(99)})\n"
            f"        if {dice.word()} and {dice.name()}({dice.word()}):\n"
            f"            return {dice.word()}.{dice.name()}()\n"
            f"        return str({dice.word()})\n\n"
        )
    return "".join(parts)


def _typescript(dice: _Dice, n: int) -> str:
    parts = [f"import {{ {dice.name()} }} from './{dice.word()}_{n}';\n\nexport class {dice.word().title()}{n} {{\n"]
    for _ in range(dice.n_functions()):
        parts.append(
            f"  /** The {dice.word()}. */\n  {dice.name()}({dice.word()}: number, {dice.word()}X?: string): string {{\n"
            f"    const {dice.word()} = {dice.name()}({dice.randrange(99)});\n    return `${{{dice.word()}}}`;\n  }}\n\n"
        )
    return "".join(parts) + "}\n"


def _go(dice: _Dice, n: int) -> str:
    parts = [f'package {dice.word()}\n\nimport "example.com/{dice.word()}/{dice.word()}"\n\n']
    for _ in range(dice.n_functions()):
        parts.append(
            f"// {dice.name()} does it.\nfunc {dice.name()}({dice.word()} int) string {{\n"
            f"\t{dice.word()} := {dice.word()}.{dice.name()}({dice.randrange(99)})\n\treturn {dice.word()}\n}}\n\n"
        )
    return "".join(parts)


def _java(dice: _Dice, n: int) -> str:
    parts = [f"package com.{dice.word()};\n\nimport com.{dice.word()}.{dice.word().title()};\n\npublic class C{n} {{\n"]
    for _ in range(dice.n_functions()):
        parts.append(
            f"    public String {dice.name()}(int {dice.word()}) {{\n"
            f"        var {dice.word()} = this.{dice.name()}({dice.randrange(99)});\n        return {dice.word()};\n    }}\n\n"
        )
    return "".join(parts) + "}\n"


def _rust(dice: _Dice, n: int) -> str:
    parts = [f"use crate::{dice.word()}::{dice.name()};\n\npub struct S{n};\n\nimpl S{n} {{\n"]
    for _ in range(dice.n_functions()):
        parts.append(
            f"    /// The {dice.word()}.\n    pub fn {dice.name()}(&self, {dice.word()}: u32) -> String {{\n"
            f"        let {dice.word()} = {dice.name()}({dice.randrange(99)});\n        {dice.word()}.to_string()\n    }}\n\n"
        )
    return "".join(parts) + "}\n"


def _c(dice: _Dice, n: int) -> str:
    parts = [f'#include "{dice.word()}.h"\n\nstruct s{n} {{ int {dice.word()}; }};\n\n']
    for _ in range(dice.n_functions()):
        parts.append(
            f"static int {dice.name()}(int {dice.word()})\n{{\n    int {dice.word()}_ = {dice.name()}({dice.randrange(99)});\n"
            f"    return {dice.word()}_;\n}}\n\n"
        )
    return "".join(parts)
