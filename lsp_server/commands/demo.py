"""`midfill demo`: complete a few files in several languages in place, then type a line key by key, and tell what each cost.

Owns the showing. The files are `docs/demo/`, the cursor in them is ‸.
"""

from __future__ import annotations

import asyncio
import functools
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from context.text import Edit, Text
from context.types import DocumentSnapshot
from inference.types import EngineError
from lsp_server.completer import Completions
from lsp_server.config import Config
from lsp_server.types import Completion, CompletionQuery

CURSOR = "‸"
FILES = Path(__file__).resolve().parent.parent.parent / "docs" / "demo"
TYPED = " and item.quantity > 0"  # typed key by key at the end of a condition
BOLD, DIM, GREEN, PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[0m"


def show(config: Config) -> int:
    files = sorted(FILES.glob("*.*"))
    if not files:
        raise EngineError(f"the demo's files are not in {FILES}; run it in a checkout of midfill, with `make demo`")
    return asyncio.run(_show(config, files))


async def _show(config: Config, files: list[Path]) -> int:
    from lsp_server.app import open_local

    started = time.monotonic()
    open_it = functools.partial(open_local, deadline_ms=config.server.reply_deadline_ms, on_note=_say)
    client = await asyncio.to_thread(open_it, config.engine, lambda share: None)
    costs = client.costs()
    _say(
        f"{BOLD}{client.model_name}{PLAIN} loaded in {time.monotonic() - started:.1f} s; on this machine a prompt token costs "
        f"{costs.prefill_ms_per_token:.1f} ms and a step {costs.step_ms:.1f} ms\n"
    )
    completer = Completions(config)
    completer.attach(client)
    try:
        for path in files:
            await _complete(path, completer)
        await _type(files, completer, replace(config, server=replace(config.server, typed_through=False)))
    finally:
        await completer.aclose()
    return 0


async def _ask(completer: Completions, snapshot: DocumentSnapshot, offset: int, *, invoked: bool) -> Completion:
    return await completer.complete(CompletionQuery(snapshot, offset, invoked, None, time.monotonic()))


async def _complete(path: Path, completer: Completions) -> None:
    before, after = path.read_text(encoding="utf-8").split(CURSOR)
    offset = len(before.encode())
    snapshot = DocumentSnapshot(path.as_uri(), 1, path.suffix[1:], Text.of(before + after))
    completion = await _ask(completer, snapshot, offset, invoked=True)
    record: dict[str, Any] = completer.explain()
    _say(f"{BOLD}{path.name}{PLAIN}  line {before.count(chr(10)) + 1}")
    head, line = before.rsplit("\n", 1)[0].splitlines()[-2:], before.rsplit("\n", 1)[-1]
    rest = after.split("\n", 1)[0]
    ghost = ""
    if completion.items:
        item = completion.items[0]
        ghost = item.text.encode()[offset - item.start :].decode()
        rest = rest[len(snapshot.text.slice(offset, item.end).decode()) :]
    for context in head:
        _say(f"  {DIM}{context}{PLAIN}")
    _say(f"  {line}{GREEN}{ghost}{PLAIN}{rest}" if ghost else f"  {line}{rest}   ({completion.reason})")
    ms = record["ms"]
    _say(
        f"  {DIM}{record['n_prompt_tokens']} prompt tokens, {record['n_healing_tokens']} healing, "
        f"{record['n_generated_tokens']} generated; prefill {ms['prefill']:.0f} ms, decode {ms['decode']:.0f} ms, "
        f"total {ms['total']:.0f} ms{PLAIN}\n"
    )


async def _type(files: list[Path], completer: Completions, config: Config) -> None:
    """The point of it all: what a keystroke costs when nothing is answered from an earlier suggestion."""
    completer.configure(config)
    path = next(p for p in files if p.suffix == ".py")
    source = path.read_text(encoding="utf-8").replace(CURSOR, "tity")
    place = "        if item.name in self.items"
    offset = source.index(place) + len(place)
    text = Text.of(source)
    snapshot = DocumentSnapshot("demo:typing.py", 1, "python", text)
    await _ask(completer, snapshot, offset, invoked=False)
    _say(f"{BOLD}typing{PLAIN} {TYPED!r} behind {place.strip()!r}, one request a key, no suggestion used twice:")
    costs = []
    for i, key in enumerate(TYPED, 2):
        edit = Edit(offset, offset, key.encode())
        text, offset = text.edit(edit.start, edit.end, edit.new), offset + len(edit.new)
        snapshot = DocumentSnapshot(snapshot.doc_id, i, "python", text)
        completer.changed(snapshot, (edit,))
        await _ask(completer, snapshot, offset, invoked=False)
        record: dict[str, Any] = completer.explain()
        costs.append((record["n_evaluated_tokens"] + record["n_healing_tokens"], record["first_byte_ms"]))
    tokens = sorted(n for n, _ in costs)
    first = sorted(ms for _, ms in costs if ms is not None)
    _say(
        f"  {len(costs)} keys: {tokens[len(tokens) // 2]} prompt and healing tokens a key (median; at most {tokens[-1]}) of "
        f"{record['n_prompt_tokens']}, first byte after {first[len(first) // 2]:.0f} ms (median)"
    )
    if n_free := tokens.count(0):
        _say(f"  {DIM}{n_free} of them cost nothing: the model had foreseen them, and its cache holds what follows{PLAIN}")


def _say(line: str) -> None:
    if not sys.stdout.isatty():
        for code in (BOLD, DIM, GREEN, PLAIN):
            line = line.replace(code, "")
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
