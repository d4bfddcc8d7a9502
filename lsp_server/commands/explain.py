"""`midfill explain`: the prompt for a place, piece by piece. Needs the model's vocabulary, not its weights."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from pathlib import Path

from context.types import DocumentSnapshot
from inference.models.choice import locate
from inference.models.gguf import check
from lsp_server.config import Config
from lsp_server.index.root import is_too_wide
from lsp_server.plans.prompting import Made, Prompter, indexed
from lsp_server.uris import path_of
from lsp_server.workspace import Exclusion

INDEX_S = 20.0  # for an index of the folder that is not there yet; it goes on with what there is


def explain(snapshot: DocumentSnapshot, offset: int, config: Config, *, as_json: bool) -> str:
    """The prompt that a request at `offset` has once it is prepared in full; of a file below the current folder, with what that
    folder's index knows. Raises EngineError."""
    from lsp_server.dirs import cache_dir

    path = locate(config.engine, config.server.reply_deadline_ms, cache_dir()).path
    header = check(path, vocabulary=True)
    from inference.llama.vocab import load_vocab  # native code: only once the file is there

    vocab = load_vocab(path)
    n_ctx = min(config.engine.n_ctx, header.context_length or config.engine.n_ctx)
    name, root = header.name or path.name, str(Path.cwd())

    async def make() -> Made:
        exclusion = Exclusion(config.server.exclude, [root])
        is_inside = Path(root) in Path(path_of(snapshot.doc_id)).parents
        if not (config.server.index and config.context.references and is_inside) or is_too_wide(root):
            prompter = Prompter(vocab, name, n_ctx, config, None, [root], exclusion.reason)
            return await prompter.prompt(snapshot, offset)
        async with indexed([root], cache_dir(), config.server, wait_s=INDEX_S) as index:
            prompter = Prompter(vocab, name, n_ctx, config, index, [root], exclusion.reason)
            try:
                return await prompter.prompt(snapshot, offset)
            finally:
                prompter.close()

    made = asyncio.run(make())
    return _json(made) if as_json else _table(snapshot, made)


def _json(made: Made) -> str:
    plan, prompt = made.plan, made.prompt
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
            "plan": plan.state,
            "choice": {"why": made.why},
        }
    )


def _table(snapshot: DocumentSnapshot, made: Made) -> str:
    plan, prompt, text = made.plan, made.prompt, snapshot.text
    rows = [("piece", "tokens", "lines or file", "why")]
    for piece in prompt.pieces:
        lines = f"{text.line_of(piece.start) + 1}-{text.line_of(piece.end) + 1}" if piece.end > piece.start else ""
        rows.append((piece.name, str(piece.n_tokens), lines or piece.path, piece.why))
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    out = [f"{a:{widths[0]}}  {b:>{widths[1]}}  {c:{widths[2]}}  {d}".rstrip() for a, b, c, d in rows]
    line = text.line_of(plan.anchor)
    return "\n".join(
        [
            *out,
            "",
            f"{len(prompt.tokens)} tokens, of which {prompt.n_stable} stay while you type",
            f"anchor: line {line + 1}, byte {plan.anchor - text.line_start(line)}; healing bytes: {prompt.heal.decode()!r}",
            *([f"pieces of other places: {made.why}"] if made.why else []),
            *(f"note: {note}" for note in plan.notes),
        ]
    )
