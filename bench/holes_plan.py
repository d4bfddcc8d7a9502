"""What prompts for holes hold, without asking a model: is the definition that the missing line needs in it?

Owns that question, and the counts of a plan. *recall*: of the places, those whose prompt has the definition (or its signature)
of the hole's name, from a file that defines it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.case_log import CaseLog, Record
from bench.heart import budgeted
from bench.holes_copy import Copy
from bench.holes_index import SwitchedIndex, seen
from bench.holes_sets import Sets, by_tree, group
from bench.holes_sites import Hole
from bench.holes_tree import SourceFile, Tree
from context.text import Text
from context.types import DocumentSnapshot
from context.zones.types import ZONES, Zones
from inference.backend import Vocab
from lsp_server.config import Config, ServerConfig
from lsp_server.plans.prompting import Prompter, indexed
from lsp_server.uris import document_id

N_CTX = 8192


@dataclass(frozen=True, slots=True)
class Model:
    """What of a model planning needs. max_tokens: of a completion."""

    vocab: Vocab
    name: str
    max_tokens: int


def model_of(name: str, max_tokens: int) -> Model:
    """The vocabulary alone of a model that is on the disk. Blocking. Raises EngineError."""
    from inference.llama.vocab import load_vocab
    from inference.models import store

    return Model(load_vocab(store.resolve(name, store.models_dir(""))), name, max_tokens)


async def planned(model: Model, sets: Sets, budgets: Sequence[int], log: CaseLog, home: Path) -> dict[str, Any]:
    """{sets: {set: {budget: summary}}}. home: an empty folder."""
    made: dict[str, Any] = {}
    index = SwitchedIndex()
    for name, cases in sets.items():
        records: dict[int, list[Record]] = {budget: [] for budget in budgets}
        for n_tree, (tree, of_tree) in enumerate(by_tree(cases)):
            folder = home / name / str(n_tree)
            copy = Copy(tree, folder)
            copy.cut(of_tree[0].hole)
            async with indexed([str(copy.root)], folder / "cache") as room:
                index.room = room
                planning = Planning(model, index, copy)
                for case in of_tree:
                    text, changed = copy.cut(case.hole)
                    await seen(room, changed)
                    for budget in budgets:
                        record, prompt = await planning.plan(tree, case.hole, text, budget)
                        records[budget].append(record)
                        told = {"want": case.want, "name": case.hole.name, "origin": case.hole.origin}
                        log.add(group(name, budget), case.case, {**told, **record, "text": prompt.decode(errors="replace")})
                planning.close()
        index.room = None
        made[name] = {str(budget): summary(records[budget]) for budget in budgets}
    return {"sets": made, "n": max((len(cases) for cases in sets.values()), default=0)}


class Planning:
    """Prompts of one tree's copy. On the event loop; close it."""

    def __init__(self, model: Model, index: SwitchedIndex, copy: Copy) -> None:
        self._model = model
        self._index = index
        self._copy = copy
        self._prompters: dict[int, Prompter] = {}

    async def plan(self, tree: Tree, hole: Hole, text: bytes, budget: int) -> tuple[Record, bytes]:
        """{needed, by, prompt, tokens: {zone or part: n}, pieces} of a hole, and the prompt's bytes. text: of the file, with
        the hole. by: why the piece is there that holds what is needed, or what was cut of it."""
        if budget not in self._prompters:
            server = ServerConfig(max_tokens=self._model.max_tokens, n_candidates=1)
            config = Config(server, budgeted(budget, full=True))
            self._prompters[budget] = Prompter(
                self._model.vocab, self._model.name, N_CTX, config, self._index, [str(self._copy.root)], fill=True
            )
        doc_id = document_id(self._copy.path(hole.path).as_uri())
        snapshot = DocumentSnapshot(doc_id, 1, tree.files[hole.path].language, Text.of(text))
        made = await self._prompters[budget].prompt(snapshot, hole.start)
        zones = made.plan.zones or Zones()
        is_needed, by = needed(tree, hole, zones)
        parts = {zone: sum(piece.n_tokens for piece in zones.pieces if piece.zone == zone) for zone in ZONES}
        record: Record = {
            "needed": is_needed,
            "by": by,
            "prompt": len(made.prompt.tokens),
            "tokens": {**parts, "prefix": made.plan.n_prefix, "suffix": made.plan.n_suffix},
            "pieces": len(zones.pieces),
            "cuts": list(zones.cuts),
            "notes": list(made.plan.notes),
        }
        return record, b"".join(self._model.vocab.pieces[token] for token in made.prompt.tokens)

    def close(self) -> None:
        for prompter in self._prompters.values():
            prompter.close()


def needed(tree: Tree, hole: Hole, zones: Zones) -> tuple[bool, str]:
    """Do pieces hold the line that defines a hole's name, and why; if not, what was cut of it, "" if nobody spoke of it."""
    rows = {path: _rows(file, hole.name) for path, file in tree.files.items() if path != hole.path}
    for piece in zones.pieces:
        told = next((rows[path] for path in rows if rows[path] and piece.path.endswith(path)), frozenset())
        if any(line.strip().startswith(beginning) for line in piece.lines for beginning in told):
            return True, f"{piece.kind} {piece.name}: {piece.why}"
    return False, next((cut for cut in zones.cuts if hole.name in cut.partition(":")[0].split(".")), "")


def _rows(file: SourceFile, name: str) -> frozenset[str]:
    """How the lines of a file begin that define a name, up to its end: what follows may be shortened."""
    found = [each.name_start for each in file.symbols.definitions if each.name == name and each.name_start >= 0]
    starts = [file.text.rfind(b"\n", 0, at) + 1 for at in found]
    return frozenset(
        file.text[start : at + len(name.encode())].decode().strip() for start, at in zip(starts, found, strict=True)
    )


def summary(records: Sequence[Record]) -> dict[str, Any]:
    """recall: from 0 to 1, of all places. tokens: the mean of each zone and part."""
    n = max(len(records), 1)
    names = list(records[0]["tokens"]) if records else []
    return {
        "n": len(records),
        "recall": round(sum(record["needed"] for record in records) / n, 4),
        "prompt_tokens": round(sum(record["prompt"] for record in records) / n, 1),
        "tokens": {name: round(sum(record["tokens"][name] for record in records) / n, 1) for name in names},
        "pieces": round(sum(record["pieces"] for record in records) / n, 1),
    }


def plan_table(made: Mapping[str, Any]) -> str:
    """The report for people: a line per set and budget."""
    lines = []
    for name, budgets in made["sets"].items():
        for budget, part in budgets.items():
            tokens = "  ".join(f"{zone} {n}" for zone, n in part["tokens"].items())
            held = f"{part['recall']:>7.1%} of {part['n']:<5}{part['prompt_tokens']:>8} tokens: {tokens}"
            lines.append(f"{name + ' ' + budget:<16}{held}; {part['pieces']} pieces")
    return "\n".join(lines)
