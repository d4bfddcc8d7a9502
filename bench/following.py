"""What follows a suggestion: typed through, does it cost anything; accepted, is the next one there already?

`python -m bench.following [--n N] [--model ID_OR_PATH] [--json]`. Places of real code (`bench.places`), and the whole path of
the product in this process, with its own settings. Asked automatically at a place, what is shown is looked at, and typed key by
key, with a request after each. Then the same place is asked in a document of its own, the suggestion is accepted when all is
quiet, and asked at its end; where the line is complete there, behind Enter as an editor has it.

model_calls: of the typed keys' requests; the bar is none. answer_ms: from request to answer of those keys, in this process; the
bar is 5. accepts: those after which something was suggested, or the model asked; from_prefetch: those of them that it took no
call of the model for; the bar is four in five. Each place has a server of its own, so that one does not spend what another's
background may do.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file: the repository's root takes the place of this folder
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from bench import corpus, places, recording
from bench.command import answer
from bench.midline import positive
from bench.places import Place
from bench.progress import Progress
from bench.results import median, quantile
from bench.revision import revision
from bench.tap import Tap
from context.config import ContextConfig
from context.text import Edit, Text
from context.types import DocumentSnapshot
from inference.clients.base import EngineClient, Stream
from inference.config import EngineConfig
from inference.types import GenerationRequest
from lsp_server.app import open_local
from lsp_server.completer import Completions
from lsp_server.config import Config, ServerConfig
from lsp_server.rules.place import unit_of
from lsp_server.types import Completion, CompletionQuery
from lsp_server.warm.prefetch import SHOWN_S

KEY_S = 0.02  # between keys: the answer of the one before is read, and no more
QUIET_S = 0.2  # so long nothing is submitted, and nothing runs
MOST_QUIET_S = 30.0
MOST_KEYS = 60  # of one suggestion


@dataclass(slots=True)
class Seen:
    """So far. n_ended: accepted ones after which there was nothing to suggest. sources: where what came next was from.
    misses: keys and accepts for which the model was asked."""

    n_shown: int = 0
    n_ended: int = 0
    n_calls: int = 0
    n_accepts: int = 0
    n_prefetched: int = 0
    answer_ms: list[float] = field(default_factory=list)
    sources: Counter[str] = field(default_factory=Counter)
    misses: list[str] = field(default_factory=list)


class _CountingTap(Tap):
    n_submitted = 0

    def submit(self, request: GenerationRequest) -> Stream:
        self.n_submitted += 1
        return super().submit(request)


class Editor:
    """One document with a cursor, in a server of its own, asked about as an editor asks."""

    def __init__(self, client: EngineClient, place: Place) -> None:
        self.tap = _CountingTap(client)
        self._completer = Completions(Config(ServerConfig(), ContextConfig()))
        self._completer.attach(self.tap)
        self._doc_id = f"file:///bench/{place.path}"
        self._language = place.language
        self.text = Text.of(place.before + place.closers + place.after)
        self.cursor = len(place.before.encode())
        self._version = 1
        self._completer.opened(self._snapshot)

    @property
    def _snapshot(self) -> DocumentSnapshot:
        return DocumentSnapshot(self._doc_id, self._version, self._language, self.text)

    @property
    def n_calls(self) -> int:
        """Of the model, that a request has waited for."""
        return len(self.tap.calls)

    def edit(self, start: int, end: int, new: bytes) -> None:
        """The cursor stands behind it then."""
        self.text, self._version = self.text.edit(start, end, new), self._version + 1
        self.cursor = start + len(new)
        self._completer.changed(self._snapshot, (Edit(start, end, new),))

    async def ask(self) -> Completion:
        return await self._completer.complete(CompletionQuery(self._snapshot, self.cursor, False, None, time.monotonic()))

    async def first(self) -> Completion:
        """What is shown there; asked again after a moment if the answer came too late."""
        await self.quiet()
        shown = await self.ask()
        if not shown.items:
            await self.quiet()
            shown = await self.ask()
        return shown

    def told(self) -> str:
        """Of the last request, for people."""
        record = self._completer.explain()
        note = self._completer._session(self._doc_id).prefetch.note
        return f"{record['source'] or 'nothing'}; {record['reason'] or 'offered'}; {note}"

    @property
    def source(self) -> str:
        return str(self._completer.explain()["source"])

    async def quiet(self) -> None:
        """Until nothing runs and nothing is begun any more, or it takes too long."""
        ends, n = time.monotonic() + MOST_QUIET_S, -1
        await asyncio.sleep(SHOWN_S)
        while n != self.tap.n_submitted and time.monotonic() < ends:
            n = self.tap.n_submitted
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.tap.quiet(), max(0.0, ends - time.monotonic()))
            await asyncio.sleep(QUIET_S)

    def enter(self) -> None:
        """A new line, as deep as this one, a level deeper behind what opens a block."""
        line = self.text.line_of(self.cursor)
        before = self.text.slice(self.text.line_start(line), self.cursor).decode()
        indent = before[: len(before) - len(before.lstrip())]
        unit = unit_of(self.text.bytes().decode()) or "    "
        more = unit if before.rstrip().endswith((":", "{", "(", "[")) else ""
        self.edit(self.cursor, self.cursor, ("\n" + indent + more).encode())

    async def close(self) -> None:
        self._completer.closed(self._doc_id)
        await self.quiet()
        await self._completer.aclose(engine=False)


async def type_through(editor: Editor, seen: Seen) -> None:
    """What is shown, key by key, asking after each but the last one, behind which something else follows."""
    shown = await editor.first()
    if not shown.items:
        return
    item = shown.items[0]
    rest = item.text.encode()[editor.cursor - item.start :].decode()
    seen.n_shown += 1
    await editor.quiet()
    for n, key in enumerate(rest[: min(len(rest) - 1, MOST_KEYS)], 1):
        editor.edit(editor.cursor, editor.cursor, key.encode())
        await asyncio.sleep(KEY_S)
        n_calls, began = editor.n_calls, time.perf_counter()
        await editor.ask()
        seen.answer_ms.append((time.perf_counter() - began) * 1000)
        if editor.n_calls > n_calls:
            seen.n_calls += editor.n_calls - n_calls
            seen.misses.append(f"typed {rest[:n]!r} of {rest!r}: {editor.told()}")


async def accept(editor: Editor, seen: Seen) -> None:
    """Look at it, take it, and ask what comes next: at its end, and if nothing does, behind Enter."""
    shown = await editor.first()
    if not shown.items:
        return
    await editor.quiet()
    item, n_calls = shown.items[0], editor.n_calls
    editor.edit(item.start, item.end, item.text.encode())
    following = await editor.ask()
    if not following.items and editor.n_calls == n_calls:
        editor.enter()
        following = await editor.ask()
    is_asked = editor.n_calls > n_calls
    if not (following.items or is_asked):
        seen.n_ended += 1
        return
    seen.n_accepts += 1
    seen.sources[editor.source] += 1
    seen.n_prefetched += not is_asked
    if is_asked:
        seen.misses.append(f"accepted {item.text[-40:]!r}: {editor.told()}")


async def measure(client: EngineClient, sampled: Sequence[Place]) -> Seen:
    seen, progress = Seen(), Progress("place")
    for i, place in enumerate(sampled, 1):
        for do in (type_through, accept):
            editor = Editor(client, place)
            await do(editor, seen)
            await editor.close()
        progress.show("followed", i, len(sampled), place.name)
    progress.end()
    return seen


def report(seen: Seen, n: int) -> dict[str, Any]:
    times = {"median": median(seen.answer_ms), "p95": quantile(seen.answer_ms, 0.95), "max": max(seen.answer_ms, default=None)}
    return {
        "n": n,
        "shown": seen.n_shown,
        "typed_keys": len(seen.answer_ms),
        "model_calls": seen.n_calls,
        "answer_ms": {name: None if value is None else round(value, 2) for name, value in times.items()},
        "accepts": seen.n_accepts,
        "from_prefetch": seen.n_prefetched,
        "share": round(seen.n_prefetched / seen.n_accepts, 4) if seen.n_accepts else None,
        "nothing_follows": seen.n_ended,
        "sources": dict(seen.sources),
        "misses": seen.misses,
    }


def table(made: dict[str, Any]) -> str:
    """The report for people."""
    times = made["answer_ms"]
    lines = [
        f"{made['shown']} suggestions at {made['n']} places",
        f"typed: {made['typed_keys']} keys, {made['model_calls']} calls of the model (none is the bar)",
        f"answers: median {times['median']} ms, p95 {times['p95']}, max {times['max']} (5 is the bar)",
        f"accepted: {made['from_prefetch']} of {made['accepts']} next ones were there (4 of 5 is the bar)",
    ]
    return "\n".join([*lines, *made["misses"]])


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.following", description="Typing a suggestion through, and taking it.")
    made.add_argument("--n", type=positive, default=60, help="places")
    made.add_argument("--seed", type=int, default=7, help="of the sample")
    made.add_argument("--model", default="qwen2.5-coder-0.5b", help="id of a pulled model, or path of a GGUF file")
    made.add_argument("--wheels", type=Path, help="folder for the wheels that the places are taken from; what it lacks is got")
    made.add_argument("--root", type=Path, nargs="+", help="folders of source code instead of the wheels")
    made.add_argument("--threads", type=int, default=0, help="CPU threads; 0 = measured")
    made.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    made.set_defaults(out=None)
    return made


async def run(options: argparse.Namespace) -> dict[str, Any]:
    folder = options.wheels or recording.default_folder()
    sources = corpus.of_folders(options.root) if options.root else corpus.of_wheels(folder)
    # nothing is suggested unasked in comments; of five kinds of places they are one
    sampled = [place for place in places.sample(sources, 2 * options.n + 5, options.seed) if place.kind != "comment"]
    config = EngineConfig(model=options.model, n_threads=options.threads, prompt_cache=False)
    client = await asyncio.to_thread(open_local, config, lambda share: None)
    try:
        seen = await measure(client, sampled[: options.n])
    finally:
        await client.aclose()
    return {**report(seen, min(options.n, len(sampled))), "model": options.model, "seed": options.seed, "commit": revision()}


def main(argv: list[str] | None = None) -> int:
    return answer(parser().parse_args(argv), run, table)


if __name__ == "__main__":
    sys.exit(main())
