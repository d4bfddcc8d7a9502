"""`midfill explain`: the prompt for a place, piece by piece. Needs the model's vocabulary, not its weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from context.tokens import TokenTable
from context.types import DocumentSnapshot, Plan, Prompt
from inference.models.choice import locate
from inference.models.gguf import check
from inference.types import Costs
from lsp_server.config import Config
from lsp_server.layouts import NO_NAME, choose_layout, file_name
from lsp_server.planning import Planner


class NothingResident:
    """An engine that was just started, as far as planning asks."""

    def __init__(self, n_ctx: int) -> None:
        self.n_ctx = n_ctx

    async def n_reusable(self, tokens: Sequence[int]) -> int:
        return 0

    def costs(self) -> Costs:
        return Costs(1.0, 1.0)


def explain(snapshot: DocumentSnapshot, offset: int, config: Config, *, as_json: bool) -> str:
    """The prompt that a request at `offset` has once it is prepared in full. Raises EngineError."""
    from lsp_server.app import cache_dir

    path = locate(config.engine, config.server.reply_deadline_ms, cache_dir()).path
    header = check(path, vocabulary=True)
    from inference.llama.vocab import load_vocab  # native code: only once the file is there

    vocab = load_vocab(path)
    layout = choose_layout(config.context.layout, vocab, header.name or path.name)
    n_ctx = min(config.engine.n_ctx, header.context_length or config.engine.n_ctx)
    table = TokenTable(vocab, vocab.pre_type)
    name = file_name(snapshot.doc_id, (str(Path.cwd()),)) if config.context.file_header else NO_NAME
    planner = Planner(NothingResident(n_ctx), table, layout, config.context, config.server.max_tokens, lambda _: name)
    plan = planner.full_plan(snapshot, offset, None)
    prompt = planner.render(plan, snapshot, offset)
    return _json(plan, prompt) if as_json else _table(snapshot, plan, prompt)


def _json(plan: Plan, prompt: Prompt) -> str:
    return json.dumps(
        {
            "layout": plan.layout.name,
            "anchor": plan.anchor,
            "window_start": plan.window_start,
            "healing": prompt.heal.decode(),
            "n_prompt_tokens": len(prompt.tokens),
            "n_stable_tokens": prompt.n_stable,
            "n_typed_tokens": prompt.n_typed,
            "pieces": [asdict(piece) for piece in prompt.pieces],
            "notes": list(plan.notes),
        }
    )


def _table(snapshot: DocumentSnapshot, plan: Plan, prompt: Prompt) -> str:
    text = snapshot.text
    rows = [("piece", "tokens", "lines", "why")]
    for piece in prompt.pieces:
        lines = f"{text.line_of(piece.start) + 1}-{text.line_of(piece.end) + 1}" if piece.end > piece.start else ""
        rows.append((piece.name, str(piece.n_tokens), lines, piece.why))
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    out = [f"{a:{widths[0]}}  {b:>{widths[1]}}  {c:{widths[2]}}  {d}".rstrip() for a, b, c, d in rows]
    line = text.line_of(plan.anchor)
    return "\n".join(
        [
            *out,
            "",
            f"{len(prompt.tokens)} tokens, of which {prompt.n_stable} stay while you type",
            f"anchor: line {line + 1}, byte {plan.anchor - text.line_start(line)}; healing bytes: {prompt.heal.decode()!r}",
            *(f"note: {note}" for note in plan.notes),
        ]
    )
