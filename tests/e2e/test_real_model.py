"""The whole line on the real 0.5B model: equality by the near-tie rule, adopting, costs in counted tokens, healing, a process.

Needs the model on disk (`midfill models pull qwen2.5-coder-0.5b`, or a file named by MIDFILL_TEST_MODEL). Costs per token are
set, not measured: no text and no count here depends on the machine's speed. Waiting times only end a test that hangs.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import re
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import material
from context.config import ContextConfig
from context.fim import render
from context.plan import make_plan
from context.text import Edit, Text
from context.tokens import TokenTable
from context.types import DocumentSnapshot, Limits
from inference.backend import Outcome
from inference.clients.local import LocalClient
from inference.config import EngineConfig
from inference.engine import Engine
from inference.llama.model import LlamaBackend
from inference.measure import usable_cpus
from inference.types import Costs, Counters, FinishReason, GenerationRequest, Priority
from lsp_server.completer import Completions
from lsp_server.config import Config, ServerConfig
from lsp_server.plans.layouts import choose_layout
from lsp_server.types import Completion, CompletionQuery, Superseded
from tests.support.client import frame, inline_params
from tests.support.near_tie import Comparer, Driver, Ran, Recording, Rows, Said, run_cold, share, watch

pytestmark = pytest.mark.real_model

ROOT = Path(__file__).resolve().parents[2]
HANG_S = 120.0
N_CTX = 2048
NOISE = 1.5  # largest believable difference of logits between two paths; wrong cells change them by several
COSTS = Costs(prefill_ms_per_token=10.0, step_ms=30.0)  # set, not measured


@pytest.fixture(scope="module")
def backend(real_model_path: Path) -> Iterator[LlamaBackend]:
    backend = LlamaBackend(EngineConfig(n_ctx=N_CTX, n_sequences=3, n_threads=n_threads(), n_gpu_layers=0), real_model_path)
    yield backend
    backend.close()


def n_threads() -> int:
    """One fewer than there are CPUs: with as many, threads that spin lose half of the speed to anything else that runs."""
    return max(1, min(4, usable_cpus() - 1))


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), HANG_S))

    return run


class Desk:
    """One document at a completer whose engine runs in its own thread on the real model."""

    def __init__(self, backend: LlamaBackend, text: str, cursor: int, **options: Any) -> None:
        context = {k: options.pop(k) for k in list(options) if k in ContextConfig.__dataclass_fields__}
        self.recording = Recording(backend)
        for seq in range(backend.n_seq_max):
            assert backend.truncate(seq, 0)
        self.engine = Engine(self.recording, n_ctx=N_CTX, n_sequences=3, costs=COSTS)
        self.runs = watch(self.engine)
        self.client = LocalClient(self.engine, backend.vocab, "real")
        server = ServerConfig(**{"in_comments": "on", **options})
        config = Config(server, ContextConfig(**{"cold_budget_ms": 0, **context}), EngineConfig())
        self.completer = Completions(config, asyncio.get_running_loop().time)
        self.completer.attach(self.client)
        self.text, self.version = Text.of(text), 1
        self.cursor = len(text[:cursor].encode())
        self.completer.opened(self.snapshot)

    async def __aenter__(self) -> Desk:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.completer.aclose()
        assert self.recording.is_closed

    @property
    def snapshot(self) -> DocumentSnapshot:
        return DocumentSnapshot("file:///a.py", self.version, "python", self.text)

    @property
    def session(self) -> Any:
        return self.completer._sessions["file:///a.py"]

    @property
    def record(self) -> dict[str, Any]:
        return self.completer.explain()

    def type(self, keys: str) -> None:
        edit = Edit(self.cursor, self.cursor, keys.encode())
        self.text, self.version = self.text.edit(edit.start, edit.end, edit.new), self.version + 1
        self.cursor += len(edit.new)
        self.completer.changed(self.snapshot, (edit,))

    def start(self, *, invoked: bool = False) -> asyncio.Task[Completion]:
        received = asyncio.get_running_loop().time()
        return asyncio.ensure_future(
            self.completer.complete(CompletionQuery(self.snapshot, self.cursor, invoked, None, received))
        )

    async def ask(self, *, invoked: bool = False) -> Completion:
        return await self.start(invoked=invoked)

    def accept(self, completion: Completion) -> str:
        """The document with the first item accepted; all must agree with what was typed."""
        for item in completion.items:
            assert item.start <= self.cursor <= item.end
            assert item.text.encode().startswith(self.text.slice(item.start, self.cursor))
        item = completion.items[0]
        return self.text.edit(item.start, item.end, item.text.encode()).bytes().decode()

    async def generated(self, n: int) -> str:
        """Wait until the generation has said at least n characters, or ended."""
        generation = self.session._generation

        def text() -> str:
            said = generation.remainder(generation.typed)
            return said.rest if said else ""

        while len(text()) < n and generation.is_running:
            await asyncio.sleep(0.002)
        return text()

    async def settled(self) -> None:
        """Wait until nothing is generated or prepared any more."""
        session = self.session
        while session._generation.is_running or session.ahead.is_busy:
            await asyncio.sleep(0.01)

    def typing_requests(self) -> list[int]:
        return [i for i, run in self.runs.items() if run.priority is Priority.TYPING]


# -- greedy text with reuse, chunks, copies, aborts and cancels equals text without


def places() -> list[tuple[str, int]]:
    """A dozen cursors in the middle of lines: (text, offset in characters)."""
    out = []
    for name, wanted in (("router.py", 5), ("inventory.py", 4), ("accounts.ts", 3)):
        text = material.load(name).text
        lines = [i for i, line in enumerate(text.split("\n")) if len(line.strip()) > 20]
        for k in range(wanted):
            line = lines[(k + 1) * len(lines) // (wanted + 1)]
            start = sum(len(each) + 1 for each in text.split("\n")[:line])
            content = text.split("\n")[line]
            out.append((text, start + len(content) - len(content.lstrip()) + 9 + k))
    return out


def test_texts_part_only_at_near_ties(
    backend: LlamaBackend, capsys: pytest.CaptureFixture[str], record_property: Any
) -> None:
    table, layout = TokenTable(backend.vocab, backend.vocab.pre_type), choose_layout("anchored", backend.vocab, "the model")
    driver = Driver(backend, n_chunk=24, n_ctx=N_CTX, background_rows=16, checks_logits=False)
    number = iter(range(1, 1000))
    finals: list[GenerationRequest] = []
    for text, offset in places():
        document = DocumentSnapshot("file:///a", 1, "python", Text.of(text))
        at = len(text[:offset].encode())
        plan = make_plan(document, at, Limits(64, 16, 120), table, layout)
        below = document.text.line_start(document.text.line_of(at) + 1)
        ahead = make_plan(document, below, Limits(96, 16, 160), table, layout, previous=plan)

        def request(back: int, n_max: int = 8, document=document, at=at, plan=plan) -> GenerationRequest:
            prompt = render(plan, document, document.text.floor(at - back), table)
            return GenerationRequest(next(number), prompt.tokens, prompt.heal, n_max)

        first = request(2)
        driver.submit(first)
        for _ in range(6):
            driver.step()
        # cancelled by a thread while it decodes, somewhere: what comes next must not notice
        timer = threading.Timer(0.01, driver.engine.cancel, (first.request_id,))
        timer.start()
        driver.step()
        timer.join()
        second = request(1)
        driver.submit(second)
        for _ in range(3):
            driver.step()
        driver.engine.cancel(second.request_id)
        driver.submit(GenerationRequest(next(number), ahead.tokens, n_max=0, priority=Priority.BACKGROUND))
        driver.step()
        final = request(0)
        finals.append(final)
        driver.recording.on_decode = lambda rows, r=final: r.request_id in driver.runs or driver.submit(r)
        driver.step()  # the key comes while the background decodes
        driver.recording.on_decode = lambda rows: None
        if final.request_id not in driver.runs:
            driver.submit(final)
        driver.drain()
        if len(finals) > 2:  # back to where we were, and to its kept logits
            driver.submit(GenerationRequest(next(number), finals[-3].tokens, finals[-3].heal, 8))
            driver.drain()
    reused = Ran({r.request_id: driver.said(r.request_id) for r in finals}, driver.recording.rows)
    stats = [driver.events[r.request_id][-1].stats for r in finals]
    assert sum(s.n_reused for s in stats) > 5 * sum(s.n_evaluated for s in stats)
    assert driver.recording.outcomes[Outcome.ABORTED] >= 6 and driver.recording.n_copied
    reference, cold = (
        run_cold(lambda rows, n=n: Driver(backend, n_chunk=n, n_ctx=N_CTX, rows=rows, checks_logits=False), finals)
        for n in (512, 40)
    )
    comparer = Comparer(backend.vocab)
    shared = share(comparer, reference, cold, reused)
    record_property("parted", str(shared))
    with capsys.disabled():
        sys.stdout.write(f"\n{shared}\n")
    assert shared.n == 12 and shared.noise < NOISE
    assert shared.p > 0.05
    # and everything else that ran on the way, as far as it came
    by_prompt = {(said.request.tokens, said.request.heal): said for said in reference.said.values()}
    for run in driver.runs.values():
        alone = by_prompt.get((run.request.tokens, run.request.heal))
        if alone is not None:
            comparer.compare(alone, Said.of(run), reference.rows, driver.recording.rows)


# -- adopted and typed-through text is that of the request that began it

FUNCTION = "def mean(values: list[float]) -> float:\n    if not values:\n        return 0.0\n    return "


@pytest.mark.parametrize("way", ["superseded", "cancelled", "typed through"])
def test_an_adopted_text_is_that_of_the_request_that_began_it(backend: LlamaBackend, way: str) -> None:
    rows: Rows = {}
    said: list[Said] = []

    async def scenario() -> None:
        options = {"reply_deadline_ms": 0, "adopt_ms": 60_000, "max_tokens": 16}
        async with Desk(backend, FUNCTION + "\n\n\nprint(mean([1.0]))\n", len(FUNCTION), **options) as desk:
            task = desk.start()
            if way == "typed through":
                await task
            for n_typed in range(1, 5):
                while desk.completer._sessions.get("file:///a.py") is None or desk.session._generation is None:
                    await asyncio.sleep(0.001)
                text = await desk.generated(n_typed)
                if way == "cancelled":
                    task.cancel()
                desk.type(text[n_typed - 1])
                before, task = task, desk.start()
                with contextlib.suppress(asyncio.CancelledError, Superseded):
                    await before
            after = desk.accept(await task)
            await desk.settled()
            (began,) = desk.typing_requests()
            run = desk.runs[began]
            while run.finish is None:  # its line is said: the rest is not waited for
                await asyncio.sleep(0.001)
            assert desk.record["source"] in ("adopted", "typed through")
            whole = b"".join(backend.vocab.pieces[t] for t in run.path[run.n_prompt :])
            assert whole.startswith(run.request.heal)
            line = whole[len(run.request.heal) :].decode("utf-8", "ignore").split("\n", 1)[0].rstrip()
            assert len(line) > 5 and after.startswith(FUNCTION + line + "\n")
            said.append(Said.of(run))
            rows.update(desk.recording.rows)

    in_loop(scenario)()
    (adopted,) = said
    reference = run_cold(
        lambda r: Driver(backend, n_chunk=512, n_ctx=N_CTX, rows=r, checks_logits=False), [adopted.request]
    )
    (alone,) = reference.said.values()
    assert Comparer(backend.vocab).compare(alone, adopted, reference.rows, rows).noise < NOISE
    assert adopted.finish in (FinishReason.STOP, FinishReason.LENGTH, FinishReason.CANCELLED)


# -- what a key costs


@in_loop
async def test_a_key_costs_few_tokens(backend: LlamaBackend, capsys: pytest.CaptureFixture[str]) -> None:
    source = material.load("inventory.py")
    there = next(m.start() for m in re.finditer("\n", source.block) if source.block[m.start() :][:60].count("\n") >= 3)
    text = source.text[: source.offset] + source.block[:there] + source.text[source.offset :]
    keys = re.findall(r"\n *|.", source.block[there:])[:60]  # Enter indents
    options = {
        "typed_through": False, "adopt_ms": 0, "reply_deadline_ms": 0, "max_tokens": 4,
        "prefix_tokens": 200, "suffix_tokens": 48, "typed_tokens": 12,
    }  # fmt: skip
    async with Desk(backend, text, source.offset + there, **options) as desk:
        await desk.ask()
        await desk.settled()
        costs, n_replanned, anchors = [], 0, set()
        before = desk.client.counters()
        for key in keys:
            desk.type(key)
            await desk.ask()
            if key[0] == "\n":
                await desk.settled()  # somebody thinks: the next anchor is prepared
            after = desk.client.counters()
            costs.append(after.prompt + after.healing - before.prompt - before.healing)
            n_replanned += any(note.startswith("new plan") for note in desk.record["notes"])
            anchors.add(desk.record["anchor"])
            before = after
        assert desk.client.counters().background > 0 and len(anchors) > 1, "the anchor's move is prepared, and made"
    p95 = sorted(costs)[int(len(costs) * 0.95)]
    with capsys.disabled():
        sys.stdout.write(f"\nprompt + healing tokens per key: median {statistics.median(costs)}, p95 {p95}, {costs}\n")
    assert n_replanned == 0
    assert statistics.median(costs) <= 4 and p95 <= 12
    assert max(costs) <= 24, "the prepared prompt did not take the place of the one in use"


@in_loop
async def test_a_cold_prompt_fits_the_budget_and_the_full_one_is_used_once_resident(backend: LlamaBackend) -> None:
    text = material.load("router.py").text + material.load("inventory.py").text
    lines = text.split("\n")
    assert len(lines) >= 400
    full, allowed = 400, int(900 / COSTS.prefill_ms_per_token)
    options = {"reply_deadline_ms": 0, "max_tokens": 4, "cold_budget_ms": 900, "prefix_tokens": full, "suffix_tokens": 96}
    async with Desk(backend, text, 0, **options) as desk:
        for near in (340, 140):  # open and ask at once; then jump 200 lines and ask at once
            line = next(i for i in range(near, len(lines)) if len(lines[i].strip()) > 12)
            desk.cursor = desk.text.line_end(line)
            before = desk.client.counters()
            await desk.ask()
            after = desk.client.counters()
            assert 0 < after.prompt - before.prompt <= allowed
            n_small = sum(p["n_tokens"] for p in desk.record["pieces"])
            await desk.settled()
            prepared = desk.client.counters()
            assert prepared.background > after.background and prepared.prompt == after.prompt
            desk.type("  # f")
            await desk.ask()
            pieces = {p["name"]: p["n_tokens"] for p in desk.record["pieces"] if p["name"] != "marker"}
            assert n_small <= allowed < full * 0.4 - 1 <= pieces["prefix"]
            # what stood on the line already was prepared with the rest
            assert 0 < desk.record["n_evaluated_tokens"] == _prompt(prepared, desk.client.counters()) < pieces["typed"]


def _prompt(before: Counters, after: Counters) -> int:
    return after.prompt - before.prompt


# -- healing on the real vocabulary

CUTS = (
    "def calc", "    return self._na", "x = naïv", "s = 'héllo wörl", "名前 = 日", "# 🦊 fo", "        ", "\t\tif", "foo(",
    "if a =", "import num", 'print("caf', "self.", "for i in ran",
)  # fmt: skip


@in_loop
async def test_healed_text_continues_the_document_exactly(backend: LlamaBackend) -> None:
    head, tail = "import os\n\n\n", "\n\n\nprint(1)\n"
    options = {"reply_deadline_ms": 0, "max_tokens": 4, "typed_through": False, "n_candidates": 1}
    async with Desk(backend, head + tail, len(head), **options) as desk:
        n_healing = n_offered = 0
        for cut in CUTS:
            text = head + cut + tail
            desk.text, desk.version, desk.cursor = Text.of(text), desk.version + 1, len((head + cut).encode())
            desk.completer.opened(desk.snapshot)
            completion = await desk.ask(invoked=True)
            run = desk.runs[max(desk.typing_requests())]
            heal = run.request.heal
            made = b"".join(backend.vocab.pieces[t] for t in run.path[run.n_prompt :])
            assert cut.encode().endswith(heal) and heal, cut
            assert made.startswith(heal) or heal.startswith(made), (cut, made)
            assert made.startswith(heal), (cut, made)
            n_healing += desk.record["n_healing_tokens"]
            said = made[len(heal) :].decode("utf-8", "ignore")
            if completion.items:
                n_offered += 1
                after = desk.accept(completion)
                assert after.startswith(head + cut), cut
                offered = after[len(head + cut) : len(after) - len(tail)]
                assert offered and said.startswith(offered), (cut, said, offered)
        assert n_offered >= len(CUTS) - 3 and n_healing >= len(CUTS)


# -- the process


def test_a_process_completes_over_stdio(real_model_path: Path) -> None:
    options = {
        "model": str(real_model_path), "n_threads": n_threads(), "n_gpu_layers": 0, "n_ctx": 1024,
        "prefill_ms_per_token": 10, "step_ms": 30, "reply_deadline_ms": 0, "max_tokens": 24, "linger_s": 0,
    }  # fmt: skip
    text = "def fibonacci(n):\n    if n < 2:\n        return n\n    return fibonacci(n - 1) + fib\n"
    uri = "file:///w/app/main.py"
    environment = {**os.environ, "MIDFILL_CONFIG": os.devnull}
    process = subprocess.Popen(
        [sys.executable, "-m", "lsp_server", "lsp"], cwd=ROOT, env=environment,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    limit = threading.Timer(HANG_S, process.kill)
    limit.start()
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    stderr = process.stderr
    errors: list[bytes] = []
    listener = threading.Thread(target=lambda: errors.append(stderr.read()), daemon=True)
    listener.start()

    def send(message: dict[str, Any]) -> None:
        assert process.stdin is not None
        process.stdin.write(frame({"jsonrpc": "2.0", **message}))
        process.stdin.flush()

    def read() -> dict[str, Any] | None:
        """The next message; fails on anything that is not a frame."""
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            return None
        assert line.startswith(b"Content-Length: "), line
        assert process.stdout.readline() == b"\r\n"
        message: dict[str, Any] = json.loads(process.stdout.read(int(line.split()[1])))
        return message

    def until(wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while (message := read()) is not None:
            if wanted(message):
                return message
        raise AssertionError("the process ended early")

    try:
        params = {"processId": os.getpid(), "rootUri": None, "capabilities": {}, "initializationOptions": options}
        send({"id": 1, "method": "initialize", "params": params})
        assert "inlineCompletionProvider" in until(lambda m: m.get("id") == 1)["result"]["capabilities"]
        send({"method": "initialized", "params": {}})
        document = {"uri": uri, "languageId": "python", "version": 1, "text": text}
        send({"method": "textDocument/didOpen", "params": {"textDocument": document}})
        status = until(lambda m: m.get("method") == "midfill/status" and m["params"]["state"] in ("ready", "error"))
        assert status["params"]["state"] == "ready", status
        send({"id": 2, "method": "textDocument/inlineCompletion", "params": inline_params(uri, 3, 33)})
        (item,) = until(lambda m: m.get("id") == 2)["result"]["items"]
        assert item["insertText"].startswith("return fibonacci(n - 1) + fibonacci(n - 2)")
        send({"id": 3, "method": "shutdown"})
        assert until(lambda m: m.get("id") == 3)["result"] is None
        send({"method": "exit"})
        assert read() is None
        assert process.wait() == 0
        listener.join(HANG_S)
        assert b"Traceback" not in errors[0]
    finally:
        limit.cancel()
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
