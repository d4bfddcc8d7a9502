"""What a restart costs: the same prompt on an engine that has nothing, and on one that has what was saved to disk.

`python -m bench.restart --model ID_OR_PATH [--json]` starts each engine as a process of its own, one after the other, on one
cache directory: the first one evaluates the prompt and saves it at its end, the second one puts it back. Measured is from the
request to the first byte beyond the cursor, with the model loaded and an empty cache. Then `midfill lsp` is started, twice:
the first time its prompt is saved, the second time the whole way is measured, by part. Files are read once before, so that no
disk is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file: the repository's root takes the place of this folder
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import psutil

from bench import command, material
from bench.errors import BenchError
from bench.lsp_client import LspClient
from bench.revision import revision
from inference.config import EngineConfig
from inference.models import store
from inference.types import GenerationRequest, TokenEvent

ROOT = Path(__file__).resolve().parent.parent
N_PROMPT = 1500
TIMEOUT_S = 300.0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.restart", description="What a restart of the engine costs.")
    made.add_argument("--model", default="qwen2.5-coder-0.5b", help="id of a pulled model, or path of a GGUF file")
    made.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    made.add_argument("--tokens", type=int, default=N_PROMPT, help="length of the prompt")
    made.add_argument("--threads", type=int, default=0, help="0 = measured, as the product does")
    made.add_argument("--material", choices=material.names(), default="inventory.py", help="the file that is completed in")
    made.add_argument("--engine-in", metavar="DIRECTORY", help=argparse.SUPPRESS)  # one engine, as a process of its own
    return made


def main(argv: list[str] | None = None) -> int:
    options = parser().parse_args(argv)
    options.out = None
    if options.engine_in:
        print(json.dumps(run_engine(options, Path(options.engine_in))))
        return 0
    return command.answer(options, measure, table)


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """See the module. spawn_parts: `initialize` answered, the engine ready, and the request itself, each in ms of its own."""
    path = store.resolve(options.model, store.models_dir())
    read_once(path)
    with tempfile.TemporaryDirectory(prefix="midfill-bench-") as home:
        cold = engine_process(options, path, home)
        restored = engine_process(options, path, home)
        complete(options, path, home)
        complete_saved = complete(options, path, home)
    if restored["n_hits"] != 1:
        raise BenchError(f"nothing was put back: {restored['misses'] or 'the engine did not say why'}; was the disk full?")
    return {
        "cold_ms": cold["first_byte_ms"],
        "restored_ms": restored["first_byte_ms"],
        "spawn_to_first_byte_ms": complete_saved["total_ms"],
        "reused_tokens": restored["n_reused"],
        "prompt_tokens": restored["n_prompt"],
        "state_bytes": restored["state_bytes"],
        "spawn_parts": complete_saved["parts"],
        "spawn_reused_tokens": complete_saved["n_reused"],
        "spawn_prompt_tokens": complete_saved["n_prompt"],
        "model": path.name,
        "revision": revision(),
    }


def read_once(path: Path) -> None:
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 24):
            pass


# -- an engine


def engine_process(options: argparse.Namespace, path: Path, home: str) -> dict[str, Any]:
    run = [sys.executable, "-m", "bench.restart", "--engine-in", home, "--model", str(path)]
    run += ["--tokens", str(options.tokens), "--threads", str(options.threads), "--material", options.material]
    done = subprocess.run(run, cwd=ROOT, stdout=subprocess.PIPE, timeout=TIMEOUT_S, check=False)
    if done.returncode:
        raise BenchError("an engine could not be run; what it said stands above")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def run_engine(options: argparse.Namespace, home: Path) -> dict[str, Any]:
    """Load it, ask once, end it in order."""
    from inference.llama.opening import open_engine

    config = EngineConfig(n_threads=options.threads, n_gpu_layers=0, stow_bytes=0, n_stowed=0)
    engine, vocab = open_engine(config, Path(options.model), home / "midfill")
    thread = threading.Thread(target=engine.run_forever)
    thread.start()
    text = material.load(options.material).text.encode()
    tokens = vocab.encode(text * (1 + options.tokens // max(1, len(text) // 5)))[: options.tokens]
    if len(tokens) < options.tokens:
        raise BenchError(f"the file has {len(tokens)} tokens only; ask for less")
    said: list[TokenEvent] = []
    has_ended = threading.Event()

    def hear(event: TokenEvent) -> None:
        said.append(event)
        if event.finish is not None:
            has_ended.set()

    time.sleep(1.0)  # the saved prompts are listed while the model is loaded; here nothing else is done meanwhile
    engine.submit(GenerationRequest(1, tokens, n_max=2), hear)
    if not has_ended.wait(TIMEOUT_S):
        raise BenchError("no answer came in time")
    stats, kept = said[-1].stats, engine.stats()
    engine.close()
    thread.join(TIMEOUT_S)
    return {
        "first_byte_ms": round(stats.first_byte_ms or 0.0, 1),
        "n_reused": stats.n_reused,
        "n_prompt": stats.n_prompt,
        "state_bytes": kept.saved_bytes,
        "n_hits": kept.n_disk_hits,
        "misses": dict(kept.disk_misses),
    }


# -- the whole way


def complete(options: argparse.Namespace, path: Path, home: str) -> dict[str, Any]:
    """Start a server with an engine of its own, ask once behind the file's block, end both in order."""
    places = {f"XDG_{name}_HOME": home for name in ("CACHE", "DATA", "CONFIG")}
    environment = {**os.environ, **places, "MIDFILL_CONFIG": "", "MIDFILL_RUNTIME_DIR": f"{home}/run"}
    of = material.load(options.material)
    laps: list[tuple[str, float]] = []
    began = time.perf_counter()

    def lap(name: str) -> None:
        laps.append((name, time.perf_counter() - began))

    news: list[tuple[str, str]] = []
    has_come = threading.Condition()

    def hear(method: str, params: Any) -> None:
        if method == "midfill/status":
            with has_come:
                news.append((params["state"], params["message"]))
                has_come.notify_all()

    server = subprocess.Popen(
        [sys.executable, "-m", "lsp_server", "lsp"], cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert server.stdin is not None and server.stdout is not None
    client = LspClient(server.stdin, server.stdout, hear)
    settings = {"model": str(path), "n_threads": options.threads, "n_gpu_layers": 0, "linger_s": 0, "reply_deadline_ms": 0}
    settings |= {"max_tokens": 2, "cold_budget_ms": 0, "background": "off"}
    params = {
        "processId": os.getpid(), "rootUri": None, "initializationOptions": settings,
        "capabilities": {"textDocument": {"inlineCompletion": {}, "synchronization": {}}},
    }  # fmt: skip
    client.request("initialize", params).wait(TIMEOUT_S)
    lap("initialized")
    client.notify("initialized", {})
    uri = (Path(home) / of.name).as_uri()
    opened = {"uri": uri, "languageId": of.language, "version": 1, "text": of.text}
    client.notify("textDocument/didOpen", {"textDocument": opened})
    wait_for(has_come, lambda: any(state in ("ready", "error") for state, _ in news))
    if failed := [message for state, message in news if state == "error"]:
        raise BenchError(failed[0])
    lap("engine")
    line = of.text.encode()[: of.offset].decode().count("\n")
    character = len(of.text.encode()[: of.offset].decode().rsplit("\n", 1)[-1])
    at = {"textDocument": {"uri": uri}, "position": {"line": line, "character": character}, "context": {"triggerKind": 1}}
    client.request("textDocument/inlineCompletion", at).wait(TIMEOUT_S)
    lap("request")
    told = client.request("workspace/executeCommand", {"command": "midfill.explain"}).wait(TIMEOUT_S)["result"]
    engine = json.loads(next((Path(home) / "run").glob("*.json")).read_text())["pid"]
    client.close()
    server.wait(TIMEOUT_S)
    until_ended(engine)
    answered = laps[-1][1] - laps[-2][1]
    first_byte = (told["first_byte_ms"] or answered * 1000) / 1000
    parts = {
        name: round((at_s - before) * 1000, 1) for (name, at_s), (_, before) in zip(laps, [("", 0.0), *laps], strict=False)
    }
    return {
        # the second token and the way back are not part of it
        "total_ms": round((laps[-2][1] + min(first_byte, answered)) * 1000, 1),
        "parts": {**parts, "first_byte": round(first_byte * 1000, 1)},
        "n_reused": told["n_reused_tokens"],
        "n_prompt": told["n_prompt_tokens"],
    }


def wait_for(has_come: threading.Condition, is_so: Callable[[], bool]) -> None:
    with has_come:
        if not has_come.wait_for(is_so, TIMEOUT_S):
            raise BenchError("midfill was not ready in time; look for its reason on standard error")


def until_ended(pid: int) -> None:
    """The engine goes with its only window, and saves what is worth it before."""
    until = time.monotonic() + TIMEOUT_S
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > until:
            raise BenchError("the engine did not end")
        time.sleep(0.05)


def table(result: dict[str, Any]) -> str:
    share = result["restored_ms"] / result["cold_ms"] * 100
    parts = ", ".join(f"{name} {ms:,.0f}" for name, ms in result["spawn_parts"].items())
    return "\n".join([
        f"{result['model']}, a prompt of {result['prompt_tokens']:,} tokens, {result['state_bytes']:,} bytes on disk",
        f"cold      {result['cold_ms']:>10,.0f} ms",
        f"restored  {result['restored_ms']:>10,.0f} ms ({share:.1f} %), {result['reused_tokens']:,} tokens reused",
        f"from `midfill lsp` to the first byte {result['spawn_to_first_byte_ms']:,.0f} ms ({parts})",
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
