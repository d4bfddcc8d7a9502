"""What the workspace index costs: `python -m bench.index [--files N] [--model ID]`.

Prints JSON: `seconds` to fill it, `server_rss_mb` (the server's process at its largest, without an engine), `reopen_ms` from a
new server's start of the index to its first answer, `loop_blocked_ms_max` (the longest that one callback held its loop,
while it was filled, asked, and thousands of files changed), `step_ratio` (median engine step while a request is open during
filling, over that without; null without --model).

`loop_blocked_ms_max` is the bar: 2 ms. It is a callback's time on the clock less the time for which its thread could have run
and had no processor, as the system counts it: that is other programs' doing, and tens of milliseconds on a machine with more of
them than processors. What is ours stays in: computing, collections of garbage, waiting for another thread of the process or for
the disk. Where the system does not count it, nothing is taken off. Beside it, to tell the machine's noise from ours:
`loop_wall_ms_max` (the same with nothing taken off), `loop_cpu_ms_max` (the longest callback by the processor's time),
`gc_ms_max` (the longest collection by the processor's time, in whichever thread, by generation; it holds up all of them),
`loop_late_ms_p999` and `loop_late_ms_max` (how late a timer of the loop came), and `branch_seconds` until a checkout of a fifth
of the files has ended right.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import index_tree
from bench.errors import BenchError

_POLL_S = 0.1
_HANG_S = 3600.0
_N_ASKS = 60  # requests of each half of the step measurement


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.index", description="What the workspace index costs.")
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--model", help="id or path of a model, for step_ratio")
    parser.add_argument("--part", choices=sorted(_PARTS), help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.part:
        print(json.dumps(asyncio.run(asyncio.wait_for(_PARTS[options.part](options), _HANG_S))))
        return 0
    try:
        print(json.dumps(run(options.files, options.model)))
    except BenchError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def run(n_files: int, model: str | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name).resolve()
        root = home / "ws"
        n_bytes = index_tree.make(root, n_files)
        filled = _part("fill", root, home / "cache", n_files, model)
        reopened = _part("reopen", root, home / "cache", n_files, model)
        steps = _part("steps", root, home / "cache2", n_files, model) if model else {"step_ratio": None}
    keys = ("seconds", "server_rss_mb", "reopen_ms", "loop_blocked_ms_max", "step_ratio")
    told = {**filled, **reopened, **steps, "files": n_files, "mb": round(n_bytes / 1e6, 1)}
    return {**{key: told.pop(key) for key in keys}, **told}


def _part(part: str, root: Path, cache: Path, n_files: int, model: str | None) -> dict[str, Any]:
    """In a process of its own, as a server is."""
    command = [sys.executable, "-m", "bench.index", "--part", part, "--root", str(root), "--files", str(n_files)]
    done = subprocess.run(
        [*command, *(["--model", model] if model else [])],
        env={**os.environ, "XDG_CACHE_HOME": str(cache)}, stdout=subprocess.PIPE, check=False,
    )  # fmt: skip
    if done.returncode:
        raise BenchError(f"the part {part} has failed; see above")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


# --- the server's side


class Passed:
    """Milliseconds for which this thread could have run and had no processor, so far; 0 where the system does not tell."""

    def __init__(self) -> None:
        try:
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        except OSError:
            self._file = -1

    def ms(self) -> float:
        return int(os.pread(self._file, 100, 0).split()[1]) / 1e6 if self._file >= 0 else 0.0


class Loop:
    """How long callbacks hold the loop of this process, and how late its timers are. Milliseconds."""

    def __init__(self) -> None:
        self.blocked = self.wall = self.cpu = 0.0
        self.collections: dict[int, float] = {}
        self._collecting = 0.0
        self.longest = ""
        self.late: list[float] = []
        self._beating: asyncio.Task[None] | None = None

    def __enter__(self) -> Loop:
        run_handle, passed = asyncio.Handle._run, Passed()
        gc.callbacks.append(self._collected)

        def timed(handle: asyncio.Handle) -> None:
            without, begun, cpu = passed.ms(), time.perf_counter(), time.thread_time()
            run_handle(handle)
            took, worked = 1000 * (time.perf_counter() - begun), 1000 * (time.thread_time() - cpu)
            self.wall, self.cpu = max(self.wall, took), max(self.cpu, worked)
            if took > self.blocked and (held := max(worked, took - (passed.ms() - without))) > self.blocked:
                self.blocked, self.longest = held, repr(handle)[:200]

        self._before: Callable[[asyncio.Handle], None] = run_handle
        asyncio.Handle._run = timed  # type: ignore[method-assign,assignment]
        self._beating = asyncio.get_running_loop().create_task(self._beat())
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.Handle._run = self._before  # type: ignore[method-assign,assignment]
        gc.callbacks.remove(self._collected)
        if self._beating is not None:
            self._beating.cancel()

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collecting = time.thread_time()
        else:
            took = 1000 * (time.thread_time() - self._collecting)
            self.collections[info["generation"]] = max(self.collections.get(info["generation"], 0.0), took)

    async def _beat(self) -> None:
        while True:
            due = time.perf_counter() + 0.002
            await asyncio.sleep(0.002)
            self.late.append(1000 * (time.perf_counter() - due))

    @property
    def told(self) -> dict[str, object]:
        late = sorted(self.late)
        return {
            "loop_blocked_ms_max": round(self.blocked, 3),
            "loop_wall_ms_max": round(self.wall, 3),
            "loop_cpu_ms_max": round(self.cpu, 3),
            "gc_ms_max": {str(generation): round(ms, 3) for generation, ms in sorted(self.collections.items())},
            "longest": self.longest,
            "loop_late_ms_p999": round(late[int(len(late) * 0.999)], 3) if late else 0.0,
            "loop_late_ms_max": round(late[-1], 3) if late else 0.0,
        }


def _app(options: dict[str, Any] | None = None) -> Any:
    from inference.types import EngineError
    from lsp_server.app import build, open_local
    from lsp_server.config import Sources

    def refuse(*_: Any) -> Any:
        raise EngineError("there is no engine in this part")

    return build(Sources(options=options), refuse if options is None else open_local)


def _begin(app: Any, root: Path) -> None:
    from lsp_server.config import ServerConfig
    from lsp_server.interpreter import keep_loop_free

    app.index.configure(ServerConfig(), [str(root)])
    app.index.start()
    keep_loop_free()  # as the server does


async def _filled(app: Any, at_least: int) -> None:
    while True:
        counts = list((await app.index.counts()).values())
        if counts and counts[0]["pending"] == 0 and counts[0]["parsed"] >= at_least:
            return
        await app.index.definitions_of("load_order_7")
        await app.index.uses_of("order")
        await asyncio.sleep(_POLL_S)


async def _fill(options: argparse.Namespace) -> dict[str, Any]:
    app = _app()
    with Loop() as loop:
        begun = time.perf_counter()
        _begin(app, options.root)
        await _filled(app, options.files)
        seconds = time.perf_counter() - begun
        await asyncio.sleep(3.0)  # what follows a filling: watches, and one more look
        begun = time.perf_counter()
        name = await asyncio.to_thread(index_tree.change, options.root, max(2, options.files // 5))
        while not await app.index.definitions_of(name):
            await asyncio.sleep(_POLL_S)
        await _filled(app, options.files)
        branch_seconds = time.perf_counter() - begun
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    await app.aclose()
    return {
        "seconds": round(seconds, 2), "branch_seconds": round(branch_seconds, 2),
        "server_rss_mb": round(rss / (1024 if sys.platform != "darwin" else 1024 * 1024), 1), **loop.told,
    }  # fmt: skip


async def _reopen(options: argparse.Namespace) -> dict[str, Any]:
    app = _app()
    begun = time.perf_counter()
    _begin(app, options.root)
    while not await app.index.definitions_of("the_last_of_the_branch"):
        await asyncio.sleep(0)
    reopen_ms = 1000 * (time.perf_counter() - begun)
    await app.aclose()
    return {"reopen_ms": round(reopen_ms, 1)}


async def _steps(options: argparse.Namespace) -> dict[str, Any]:
    """Requests one after the other, without and then during a filling; a step is one row through the model."""
    from inference.llama.model import LlamaBackend

    durations: list[float] = []
    decode = LlamaBackend.decode

    def timed(backend: Any, rows: Any) -> Any:
        begun = time.perf_counter()
        outcome = decode(backend, rows)
        if len(rows) == 1:
            durations.append(time.perf_counter() - begun)
        return outcome

    LlamaBackend.decode = timed  # type: ignore[method-assign,assignment]
    app = _app({"model": options.model, "reply_deadline_ms": 0, "background": "off", "typed_through": False, "adopt_ms": 0})
    app.engine.start(app.room.config)
    while app.completer.client is None:
        await asyncio.sleep(_POLL_S)
    await _type(app, 5)
    durations.clear()
    await _type(app, _N_ASKS)
    without = statistics.median(durations)
    durations.clear()
    _begin(app, options.root)
    await asyncio.sleep(1.0)
    await _type(app, _N_ASKS)
    counts = list((await app.index.counts()).values())
    is_still_filling = bool(counts) and (counts[0]["pending"] > 0 or counts[0]["parsed"] < options.files)
    ratio = statistics.median(durations) / without
    await app.aclose()
    return {"step_ratio": round(ratio, 3), "step_ms": round(1000 * without, 2), "was_filling": is_still_filling}


async def _type(app: Any, n: int) -> None:
    from context.text import Text
    from context.types import DocumentSnapshot
    from lsp_server.types import CompletionQuery

    head = "".join(f"def check_{n}(value):\n    return value + {n}\n\n" for n in range(40))
    for key in range(n):
        text = Text.of(f"{head}def total_{key}(values):\n    result = ")
        snapshot = DocumentSnapshot("untitled:bench", key, "python", text)
        app.completer.opened(snapshot)
        query = CompletionQuery(snapshot, len(text), True, None, asyncio.get_running_loop().time())
        await app.completer.complete(query)
        await asyncio.sleep(0.05)


_PARTS = {"fill": _fill, "reopen": _reopen, "steps": _steps}

if __name__ == "__main__":
    sys.exit(main())
