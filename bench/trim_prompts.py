"""Prompts with one whole reference in front, as the product puts pieces of other files into its prompts.

Owns how much of the place's own file stands behind the reference, and one generation. The format is the product's.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.errors import BenchError
from bench.holes_sites import Hole
from bench.trim_sites import Reference
from context.fim import render
from context.plan import make_plan
from context.text import Text
from context.tokens import TokenTable
from context.types import DocumentSnapshot, FileName, Limits
from context.zones.types import Zones
from context.zones.wrapping import wrapping
from inference.backend import Vocab
from inference.clients.base import EngineClient
from inference.types import GenerationRequest
from lsp_server.plans.layouts import choose_layout

N_PREFIX, N_SUFFIX = 320, 64  # tokens around the place


class Prompts:
    """n_total: most tokens of a prompt."""

    def __init__(self, vocab: Vocab, model_name: str, n_total: int) -> None:
        self._vocab = vocab
        self._table = TokenTable(vocab, vocab.pre_type, vocab.pieces)
        self._layout = choose_layout("auto", vocab, model_name)
        self._limits = Limits(N_PREFIX, N_SUFFIX, n_total, fill=True)

    def count(self, text: bytes) -> int:
        return len(self._table.encode(text))

    def beginning(self, text: bytes, n_tokens: int) -> bytes:
        """As many whole lines as have no more tokens than that."""
        ends = [place + 1 for place, byte in enumerate(text) if byte == 0x0A]
        low, high = 0, len(ends)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.count(text[: ends[middle - 1]]) <= n_tokens else (low, middle - 1)
        return text[: ends[low - 1]] if low else b""

    def prompt(self, reference: Reference, form: bytes, hole: Hole) -> tuple[tuple[int, ...], bytes]:
        """Tokens and healing bytes for a hole, with the reference in this form. Raises BenchError if it does not fit."""
        file = reference.tree.files[hole.path]
        dress = wrapping(self._layout.placement, file.language)
        if dress is None:
            raise BenchError(f"{hole.path}: a file of this kind can hold no references; leave its folder out")
        text = dress.text(reference.file.path, form.decode().rstrip("\n").split("\n"))
        n_tokens = self.count(f"{reference.file.path}\n".encode() + text) + 1
        zones = Zones(files=((reference.file.path, text),), n_tokens=n_tokens)
        cut = Text.of(file.text[: hole.start] + file.text[hole.end :])
        snapshot = DocumentSnapshot(f"untitled:{hole.path}", 1, file.language, cut)
        name = FileName(hole.path, reference.tree.name)
        plan = make_plan(snapshot, hole.start, self._limits, self._table, self._layout, file=name, zones=zones)
        if plan.n_zones != n_tokens:
            raise BenchError(f"{reference.name} does not fit a prompt: {'; '.join(plan.notes)}")
        made = render(plan, snapshot, hole.start, self._table)
        return made.tokens, made.heal

    def text_of(self, tokens: Sequence[int]) -> bytes:
        return b"".join(self._vocab.pieces[token] for token in tokens)

    async def said(self, client: EngineClient, tokens: tuple[int, ...], heal: bytes, max_tokens: int) -> str:
        """What stands behind the hole's beginning, up to the line's end. Raises BenchError if the engine fails."""
        stream = client.submit(GenerationRequest(client.next_id(), tokens, heal, max_tokens, first_line=True))
        text = ""
        while True:
            event = await stream.next()
            text += event.text
            if event.error:
                raise BenchError(f"the engine failed: {event.error}")
            if event.finish is not None:
                return text
