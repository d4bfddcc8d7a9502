"""The part of `midfill doctor` that loads native code, in a process of its own, so that its crash is a finding.

Owns the two questions: what does the build have (`build`), and does a completion work and how long does it take
(`completion`). Says what it is doing, as one JSON object a line on the descriptor that was standard output; native code's
output goes to standard error. Refuses to judge: see `lsp_server.doctor.engine` and `lsp_server.doctor.trial`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from inference.types import EngineError
from lsp_server.config import Config, default_sources, load

Say = Callable[[dict[str, Any]], None]

KEYS = "price * item.qua"  # typed one by one behind the sample's cursor
CURSOR = "‸"
SAMPLE = '''"""Orders of a small shop: what was ordered, at which price, and what is due."""

from dataclasses import dataclass, field


@dataclass
class Item:
    name: str
    price: float
    quantity: int = 1


@dataclass
class Order:
    customer: str
    items: list[Item] = field(default_factory=list)
    discount: float = 0.0

    def add(self, name: str, price: float, quantity: int = 1) -> None:
        self.items.append(Item(name, price, quantity))

    def total(self) -> float:
        amount = 0.0
        for item in self.items:
            amount += item.‸
        return amount * (1 - self.discount)


def largest(orders: list[Order]) -> Order:
    return max(orders, key=lambda order: order.total())
'''


def main(arguments: Sequence[str]) -> int:
    """arguments: the question, then the model ("" = as the settings say)."""
    say = _claim_output()
    question, model = arguments
    config, _ = load(default_sources())
    if model:
        config = replace(config, engine=replace(config.engine, model=model))
    try:
        if question == "build":
            say({"result": _build(config, say)})
        else:
            say({"result": asyncio.run(_completion(config, say))})
    except EngineError as error:
        say({"error": str(error)})
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        # llama-cpp-python raises any of these where a library of its own is missing or another than it was made for
        say({"error": f"{type(error).__name__}: {error}", "is_broken": question == "build" or _is_the_engine(error)})
    return 0


def _is_the_engine(error: Exception) -> bool:
    return isinstance(error, ImportError) and (error.name or "").partition(".")[0] == "llama_cpp"


def _claim_output() -> Say:
    """Keep standard output for ourselves; whatever else writes to it writes to standard error."""
    sys.stdout.flush()
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(message: dict[str, Any]) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    return say


def _build(config: Config, say: Say) -> dict[str, Any]:
    """`build`, where the model is, and then `layout` and `family` or why it is `refused`."""
    say({"doing": "loading llama-cpp-python"})
    from inference.llama.devices import look_at_build
    from inference.llama.load import open_model
    from inference.llama.vocab import LlamaVocab
    from lsp_server.plans.layouts import choose_layout

    build = look_at_build()
    say({"build": {**asdict(build), "cpu_features": sorted(build.cpu_features)}})
    path = _locate(config, say)
    if path is None:
        return {}
    say({"doing": "reading the model's vocabulary"})
    try:
        handle = open_model(path, vocab_only=True)
    except EngineError as error:
        return {"refused": str(error)}
    vocab = LlamaVocab(handle)
    try:
        layout = choose_layout(config.context.layout, vocab, path.stem)
    except EngineError as error:
        return {"refused": str(error)}
    return {"layout": layout.name, "family": vocab.fim.family if vocab.fim else ""}


def _locate(config: Config, say: Say) -> Path | None:
    """Says where the model is (`located`), or why it isn't there (`absent`) and which one should be (`wanted`)."""
    from inference.models.choice import AUTO, choose, locate
    from inference.models.machine import look_at_machine
    from inference.models.registry import MODELS
    from lsp_server.dirs import cache_dir

    say({"doing": "choosing the model" if config.engine.model == AUTO else "looking for the model"})
    deadline_ms = config.server.reply_deadline_ms
    try:
        located = locate(config.engine, deadline_ms, cache_dir())
    except EngineError as error:
        wanted = config.engine.model
        if wanted == AUTO:
            wanted = choose(MODELS, look_at_machine(config.engine.n_gpu_layers, cache_dir()), deadline_ms).chosen.id
        say({"absent": str(error), "wanted": wanted})
        return None
    say({"located": {"path": str(located.path), "name": located.name, "note": located.note}})
    return located.path


async def _completion(config: Config, say: Say) -> dict[str, Any]:
    """One completion asked for by hand with a cold prompt, then one for each key of a word, as an editor asks."""
    say({"doing": "loading llama-cpp-python"})
    from lsp_server.app import open_local

    say({"doing": "loading the model"})
    started = time.monotonic()
    client = await asyncio.to_thread(
        open_local, config.engine, lambda share: None, deadline_ms=config.server.reply_deadline_ms
    )
    load_ms = (time.monotonic() - started) * 1000
    from lsp_server.completer import Completions

    # Nothing may be answered from an earlier suggestion, or the keys would tell nothing of the model.
    server = replace(config.server, enabled=True, n_candidates=1, typed_through=False, adopt_ms=0)
    completer = Completions(replace(config, server=server))
    try:
        completer.attach(client)
        costs = client.costs()
        say({"doing": "completing"})
        return {
            "model": client.model_name,
            "load_ms": round(load_ms, 1),
            "prefill_ms_per_token": round(costs.prefill_ms_per_token, 3),
            "step_ms": round(costs.step_ms, 3),
            **await _type(completer),
        }
    finally:
        await completer.aclose()


async def _type(completer: Any) -> dict[str, Any]:
    """`cold`: the record of the first request, `warm`: those of the keys. Times in ms."""
    from context.text import Edit, Text
    from context.types import DocumentSnapshot
    from lsp_server.types import CompletionQuery

    before, after = SAMPLE.split(CURSOR)
    text, offset = Text.of(before + after), len(before.encode())

    async def ask(version: int, *, invoked: bool) -> dict[str, Any]:
        snapshot = DocumentSnapshot("midfill:doctor.py", version, "python", text)
        await completer.complete(CompletionQuery(snapshot, offset, invoked, None, time.monotonic()))
        return _told(completer.explain())

    completer.opened(DocumentSnapshot("midfill:doctor.py", 1, "python", text))
    cold = await ask(1, invoked=True)
    warm = []
    for version, key in enumerate(KEYS, 2):
        edit = Edit(offset, offset, key.encode())
        text, offset = text.edit(edit.start, edit.end, edit.new), offset + len(edit.new)
        completer.changed(DocumentSnapshot("midfill:doctor.py", version, "python", text), (edit,))
        warm.append(await ask(version, invoked=False))
    return {"cold": cold, "warm": warm}


def _told(record: dict[str, Any]) -> dict[str, Any]:
    """What counts of a record. text_ms: from the request to the first text beyond the cursor, None if none came."""
    ms, first = record["ms"], record["first_byte_ms"]
    text_ms = None if first is None else round(ms["read"] + ms["assemble"] + ms["tokenize"] + first, 1)
    return {
        "n_prompt_tokens": record["n_prompt_tokens"],
        "n_evaluated_tokens": record["n_evaluated_tokens"] + record["n_healing_tokens"],
        "n_generated_tokens": record["n_generated_tokens"],
        "n_offered_characters": record["n_offered_characters"],
        "total_ms": round(ms["total"], 1),
        "text_ms": text_ms,
        "finish": record["finish"],
        "reason": record["reason"],
    }
