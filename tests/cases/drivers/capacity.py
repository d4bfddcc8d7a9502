"""memory-and-capacity at load: a long context times a large vocabulary is never one array.

In a process of its own, whose memory then is that of this model alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.cases.case import HANG_S, Case
from tests.cases.drivers.registry import driver
from tests.support.tiny_gguf import NORMAL, bpe_vocabulary, write_tiny

ROOT = Path(__file__).resolve().parents[3]
GB = 1 << 30
N_PROMPT, N_NEW = 700, 4

CHILD = """
import json, sys, psutil
from pathlib import Path
from inference.config import EngineConfig
from inference.llama.model import LlamaBackend
from inference.llama.opening import open_engine
from inference.types import GenerationRequest
path, n_ctx, n_prompt, n_new, draft = sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5]
asked = []
decode = LlamaBackend.decode

def counting(backend, rows):
    if backend is engine._backend:
        asked.append((len(rows), sum(row.wants_logits for row in rows)))
    return decode(backend, rows)

process, told, events = psutil.Process(), [], []
before = process.memory_info().rss
config = EngineConfig(n_ctx=n_ctx, n_threads=1, n_gpu_layers=0, prefill_ms_per_token=0.2, step_ms=1.0, draft_model=draft)
engine, vocab = open_engine(config, Path(path), Path(path).parent, on_memory=told.append)
loaded = process.memory_info().rss
engine.drafting._sources, engine.drafting._forced = (), 3  # the draft model's alone, whatever they cost
LlamaBackend.decode = counting
engine.submit(GenerationRequest(1, tuple(5 + i % 200 for i in range(n_prompt)), n_max=n_new), events.append)
while not events or events[-1].finish is None:
    engine.step()
cache = next(part.host for part in told[-1].plan.need.parts if part.name == "cache")  # of both models
print(json.dumps({
    "n_ctx": engine.n_ctx, "n_vocab": vocab.n_tokens, "grown": loaded - before, "after": process.memory_info().rss - before,
    "cache": cache, "buffers": [list(each) for each in told[-1].actual], "asked": asked,
    "n_new": events[-1].stats.n_generated + events[-1].stats.n_healing, "n_drafted": events[-1].stats.n_drafted,
    "why_no_draft": engine.stats().why_no_draft_model,
}))
"""


def wide_model(folder: Path, n_vocab: int, n_ctx: int) -> Path:
    """A model of two layers with so many tokens, most of which no text has."""
    usual = bpe_vocabulary()
    n_more = n_vocab - len(usual.tokens)
    more = tuple(f"unused{i}" for i in range(n_more))
    vocabulary = replace(usual, tokens=(*usual.tokens, *more), types=(*usual.types, *[NORMAL] * n_more))
    return write_tiny(folder / "wide.gguf", vocabulary=vocabulary, n_ctx=n_ctx)


@driver("memory-and-capacity-02")
async def no_array_of_all_logits(case: Case) -> str:
    """Nothing but the last row of a prompt, each new token and each drafted one asks for logits. The model is its own draft."""
    setup = case.input["setup"]
    n_ctx, n_vocab = int(setup["n_ctx"]), int(setup["n_vocab"])
    assert setup["draft_model"] is True and setup["logits_all"] == "as the engine needs"
    with tempfile.TemporaryDirectory() as folder:
        path = wide_model(Path(folder), n_vocab, n_ctx)
        draft = Path(folder) / "draft.gguf"
        draft.write_bytes(path.read_bytes())
        n_bytes = 2 * path.stat().st_size
        command = [sys.executable, "-c", CHILD, str(path), *map(str, (n_ctx, N_PROMPT, N_NEW, draft))]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr[-600:]
    seen: dict[str, Any] = json.loads(done.stdout)
    return check(seen, n_ctx, n_vocab, n_bytes)


def check(seen: dict[str, Any], n_ctx: int, n_vocab: int, n_bytes: int) -> str:
    """AssertionError: it took more than the model, its cache and a gigabyte, or logits that nobody needs."""
    assert (seen["n_ctx"], seen["n_vocab"]) == (n_ctx, n_vocab), f"{seen['n_ctx']}, {seen['n_vocab']}"
    limit = n_bytes + seen["cache"] + GB
    assert max(seen["grown"], seen["after"]) <= limit, f"{seen['grown']} and {seen['after']} bytes, of {limit}"
    all_logits = n_ctx * seen["n_vocab"] * 4
    largest = max(seen["buffers"], key=lambda buffer: buffer[2])
    assert largest[2] < all_logits / 10, f"{largest}"
    n_rows, n_logits = (sum(column) for column in zip(*seen["asked"], strict=True))
    assert seen["n_drafted"] and not seen["why_no_draft"], f"nothing was drafted: {seen['why_no_draft']}"
    most = 1 + seen["n_new"] + seen["n_drafted"]
    assert n_rows >= N_PROMPT and n_logits <= most, f"{n_logits} rows of {n_rows} asked for logits, {seen['n_drafted']} drafted"
    asked = f"{n_logits} of {n_rows} rows asked for logits, {seen['n_drafted']} of them drafted"
    return f"{seen['grown'] / 1e6:.0f} MB of {limit / 1e6:.0f}; {asked}"
