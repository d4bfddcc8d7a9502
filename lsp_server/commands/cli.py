"""`midfill complete`, `midfill explain` and `midfill demo`: one completion, one prompt, a showing.

Owns their arguments and their output. The work goes through the same completer as the editor's requests, without a cold budget.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import stat
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from context.languages import language_of
from context.text import Text
from context.types import DocumentSnapshot
from inference.clients.base import EngineClient
from inference.types import EngineError
from lsp_server.bounds import BOUNDS
from lsp_server.commands.explain import explain
from lsp_server.completer import Completions
from lsp_server.config import Config, default_sources, load
from lsp_server.trace import PHASES
from lsp_server.types import CompletionQuery
from lsp_server.uris import document_id
from lsp_server.workspace import Exclusion


def add_parser(subparsers: Any) -> None:
    """Adds `complete`, `explain` and `demo` to the sub-commands of `midfill`."""
    place = argparse.ArgumentParser(add_help=False)
    place.add_argument("place", metavar="PATH:LINE:COLUMN", help="1-based; the column counts characters")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--json", action="store_true", help="one JSON object")
    shared.add_argument("--model", metavar="ID_OR_PATH", help="instead of the one in the settings")
    shared.add_argument("--layout", choices=BOUNDS["layout"].choices, help="how the prompt is laid out")
    shared.add_argument("--max-tokens", type=_positive, metavar="N", help="most tokens beyond the cursor")
    complete = subparsers.add_parser("complete", parents=[place, shared], help="a completion at PATH:LINE:COLUMN")
    complete.add_argument("--n-candidates", type=_candidates, metavar="N", help="up to N different ones, best first")
    subparsers.add_parser("explain", parents=[place, shared], help="the prompt for PATH:LINE:COLUMN, piece by piece")
    demo = subparsers.add_parser("demo", help="complete a few files in several languages, with timings")
    demo.add_argument("--model", metavar="ID_OR_PATH", help="instead of the one in the settings")


def run(args: argparse.Namespace) -> int:
    """Do what was asked for; the exit status. Raises EngineError with a sentence for the user."""
    config, problems = load(default_sources())
    for problem in problems:
        sys.stderr.write(f"midfill: {problem}\n")
    config = _with_options(config, args)
    if args.command == "demo":
        from lsp_server.commands.demo import show

        return show(config)
    document = read_document(args.place, config)
    if args.command == "explain":
        _write(explain(document.snapshot, document.offset, config, as_json=args.json))
        return 0
    done = asyncio.run(_complete(args.place, config))
    _write(json.dumps(done) if args.json else _shown(done))
    return 0


async def _complete(place: str, config: Config) -> dict[str, Any]:
    """On the engine at `engine_url`, if that is set; else on one in this process."""
    from lsp_server.app import open_local
    from lsp_server.dirs import cache_dir
    from lsp_server.engines.ways import Elsewhere, deaf

    client: EngineClient
    if config.engine.engine_url:
        client = (await Elsewhere(cache_dir).open(config, deaf())).client
    else:
        open_it = functools.partial(open_local, deadline_ms=config.server.reply_deadline_ms)
        client = await asyncio.to_thread(open_it, config.engine, lambda share: None)
    try:
        started = time.monotonic()  # the model is there: from here on it is what a request in an editor costs
        return await complete_once(read_document(place, config), config, client, started)
    finally:
        await client.aclose()


@dataclass(frozen=True, slots=True)
class Document:
    snapshot: DocumentSnapshot
    offset: int


def read_document(place: str, config: Config) -> Document:
    """The file and the byte offset of PATH:LINE:COLUMN."""
    path_text, line, column = _parse_place(place)
    path = Path(path_text)
    doc_id = document_id(path.absolute().as_uri())
    exclusion = Exclusion(config.server.exclude)
    exclusion.set_roots([str(Path.cwd())])
    if reason := exclusion.reason(doc_id):
        raise EngineError(f"{path} is a private file ({reason}): midfill does not read it")
    try:
        status = path.stat()
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise EngineError(f"{path} is no regular file; name a text file")
        if status.st_size > config.server.max_file_bytes:
            raise EngineError(f"{path} is larger than max_file_bytes ({config.server.max_file_bytes:,} bytes)")
        data = path.read_bytes()
    except IsADirectoryError:
        raise EngineError(f"{path} is a directory; name a file") from None
    except OSError as error:
        raise EngineError(f"{path}: {error.strerror or 'it can not be read'}") from None
    if b"\0" in data[:8192]:
        raise EngineError(f"{path} is a binary file; name a text file")
    try:
        text = Text.of(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        n = data.count(b"\n", 0, error.start) + 1
        raise EngineError(f"{path} is not UTF-8 (line {n}); save it as UTF-8, or name another file") from None
    if not 1 <= line <= text.n_lines:
        raise EngineError(f"{path} has {text.n_lines} lines; there is no line {line}")
    start, end = text.line_start(line - 1), text.line_end(line - 1)
    characters = text.slice(start, end).decode()
    if not 1 <= column <= len(characters) + 1:
        raise EngineError(f"line {line} of {path} has columns 1 to {len(characters) + 1}; there is no column {column}")
    offset = start + len(characters[: column - 1].encode())
    return Document(DocumentSnapshot(doc_id, 1, language_of(path.name, data[:256]) or path.suffix.lstrip("."), text), offset)


def _parse_place(place: str) -> tuple[str, int, int]:
    parts = place.rsplit(":", 2)
    if len(parts) != 3 or not parts[0] or not all(p.isdecimal() and len(p) < 10 for p in parts[1:]):
        raise EngineError(f"{place!r} is no place; write PATH:LINE:COLUMN, for example src/main.py:12:9")
    return parts[0], int(parts[1]), int(parts[2])


async def complete_once(document: Document, config: Config, client: EngineClient, received: float) -> dict[str, Any]:
    """One invoked completion, of as many candidates as are set. received: monotonic time from which the phases count."""
    completer = Completions(config)
    completer.roots = lambda: (str(Path.cwd()),)
    completer.attach(client)
    query = CompletionQuery(document.snapshot, document.offset, True, None, received)
    completion = await completer.complete(query)
    record = completer.explain()
    texts = [item.text.encode()[document.offset - item.start :].decode() for item in completion.items]
    keep = ("finish", "reason", "layout", "anchor", "healing", "n_prompt_tokens", "n_reused_tokens", "n_evaluated_tokens",
            "n_healing_tokens", "n_generated_tokens", "n_steps", "ms")  # fmt: skip
    text = texts[0] if texts else ""
    return {"text": text, "candidates": texts, **{name: record[name] for name in keep}, "model": client.model_name}


def _shown(done: dict[str, Any]) -> str:
    ms = done["ms"]
    phases = "  ".join(f"{name} {ms[name]:.0f}" for name in PHASES if ms[name] >= 0.5)
    counts = (
        f"{done['n_prompt_tokens']} prompt tokens ({done['n_reused_tokens']} reused), {done['n_healing_tokens']} healing, "
        f"{done['n_generated_tokens']} generated"
    )
    texts = done["candidates"] or [f"(nothing: {done['reason']})"]
    if len(texts) > 1:
        texts = [f"[{rank}] {text}" for rank, text in enumerate(texts, 1)]
    return "\n\n".join([*texts, f"{counts}; {ms['total']:.0f} ms = {phases}"])


def _with_options(config: Config, args: argparse.Namespace) -> Config:
    context = replace(config.context, cold_budget_ms=0)
    if getattr(args, "layout", None):
        context = replace(context, layout=args.layout)
    if args.model == "":
        raise EngineError("--model is empty; name a model (`midfill models list`) or a GGUF file")
    engine = replace(config.engine, model=args.model, engine_url="") if args.model else config.engine
    server = replace(config.server, enabled=True, n_candidates=getattr(args, "n_candidates", None) or 1)
    if getattr(args, "max_tokens", None):
        server = replace(server, max_tokens=args.max_tokens)
    return Config(server, context, engine)


def _positive(value: str) -> int:
    if not value.isdecimal() or not 1 <= int(value) <= 4096:
        raise argparse.ArgumentTypeError("expected a whole number from 1 to 4096")
    return int(value)


def _candidates(value: str) -> int:
    most = BOUNDS["n_candidates"].high
    if not value.isdecimal() or not 1 <= int(value) <= most:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to {most}")
    return int(value)


def _write(text: str) -> None:
    sys.stdout.write(text.rstrip("\n") + "\n")
