"""Prompts of real source files, put together as the server does it: the layout of the model, a window, an anchor, healing.

Owns which files. They are modules of Python's own library, so that they are there wherever the bench runs, and long enough for
any prompt. `i` chooses the file: another one for each up to `n_files`, and then another place in it.
"""

from __future__ import annotations

import re
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from bench.errors import BenchError
from context.fim import render
from context.plan import make_plan
from context.text import Text
from context.tokens import TokenTable
from context.types import DocumentSnapshot, FileName, Layout, Limits, Plan
from inference.backend import Vocab
from lsp_server.plans.layouts import choose_layout

FILES = (
    "argparse", "ast", "configparser", "dataclasses", "difflib", "doctest", "enum", "inspect", "ipaddress", "locale", "mailbox",
    "optparse", "pdb", "pickle", "pickletools", "pydoc", "shutil", "smtplib", "ssl", "statistics", "subprocess", "tarfile",
    "threading", "turtle", "typing",
)  # fmt: skip
_LEAST_BYTES = 30_000
_KEY = re.compile(r"\n[ \t]*|.", re.DOTALL)  # an editor indents the new line by itself


@dataclass(frozen=True, slots=True)
class Key:
    """What is asked for after a key."""

    tokens: tuple[int, ...]
    heal: bytes


@dataclass(frozen=True, slots=True)
class Typing:
    """base: the prompt's stable part. typed: tokens of all that is typed behind it. keys: one after the other."""

    base: tuple[int, ...]
    typed: tuple[int, ...]
    keys: tuple[Key, ...]


class Prompts:
    def __init__(self, vocab: Vocab, model_name: str) -> None:
        self._table = TokenTable(vocab, vocab.pre_type)
        self._layout: Layout = choose_layout("auto", vocab, model_name)
        folder = Path(sysconfig.get_path("stdlib"))
        paths = [path for name in FILES if (path := folder / f"{name}.py").is_file()]
        self._texts = [text for path in paths if len(text := path.read_bytes().replace(b"\r", b"")) >= _LEAST_BYTES]
        self._names = [path.name for path in paths if path.stat().st_size >= _LEAST_BYTES]
        if not self._texts:
            raise BenchError(f"{folder} holds no sources of Python's library; use a Python that comes with them")

    @property
    def n_files(self) -> int:
        return len(self._texts)

    def in_the_middle(self, i: int, n_tokens: int) -> tuple[int, ...]:
        """With the cursor at a line's start somewhere in the file; at most n_tokens, and few less."""
        text = self._texts[i % self.n_files]
        return self._plan(i, text, self._place(i), n_tokens).tokens

    def at_the_end(self, i: int, n_tokens: int) -> tuple[int, ...]:
        """Nothing stands behind the cursor: what is generated goes on for long."""
        place = self._place(i)
        return self._plan(i, self._texts[i % self.n_files][:place], place, n_tokens).tokens

    def typing(self, i: int, n_tokens: int, n_keys: int) -> Typing:
        """Lines that stood in the file are typed again, behind a prompt of at most n_tokens."""
        text, place = self._texts[i % self.n_files], self._place(i)
        chars = text[place:].decode("utf-8", "replace")
        keys = [match.group() for _, match in zip(range(n_keys), _KEY.finditer(chars), strict=False)]
        block = "".join(keys).encode()
        end = text.find(b"\n", place + len(block)) + 1 or len(text)
        plan = self._plan(i, text[:place] + text[end:], place, n_tokens)
        made, typed = [], ""
        for key in keys:
            typed += key
            there = text[:place] + typed.encode()
            snapshot = DocumentSnapshot(plan.doc_id, 1, "python", Text.of(there + text[end:]))
            prompt = render(plan, snapshot, len(there), self._table)
            made.append(Key(prompt.tokens, prompt.heal))
        return Typing(plan.tokens, self._table.encode(block), tuple(made))

    def _place(self, i: int) -> int:
        """A line's start. Those of one file are far from each other: no prompt begins like another."""
        text = self._texts[i % self.n_files]
        share = 0.5 + 0.4 * ((i // self.n_files) % 8) / 8
        return text.rfind(b"\n", 0, int(share * len(text))) + 1

    def _plan(self, i: int, text: bytes, place: int, n_tokens: int) -> Plan:
        n_suffix = n_tokens // 6 if place < len(text) else 0
        limits = Limits(n_tokens - n_suffix, n_suffix, n_tokens, fill=True)
        name = self._names[i % self.n_files]
        snapshot = DocumentSnapshot(f"file:///project/{name}", 1, "python", Text.of(text))
        return make_plan(snapshot, place, limits, self._table, self._layout, file=FileName(name, "project"))
