"""kv-reuse: tiny real models behind the whole server. Texts are compared by the near-tie rule (`tests.support.near_tie`): what
is reused may round otherwise, and says the same but where two tokens were as good as equal."""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import llama_cpp

from inference.config import EngineConfig
from inference.engine import Engine
from inference.llama import model as llama_model
from inference.llama.model import LlamaBackend
from inference.run import Run
from inference.types import Costs, GenerationRequest
from tests.cases.case import Case
from tests.cases.drivers.registry import driver
from tests.cases.scene import Scene
from tests.cases.scripted import RecordingClient
from tests.support.client import Json, span
from tests.support.fake_backend import FakeBackend, FakeVocab
from tests.support.feeding import TOLERANCE
from tests.support.near_tie import Comparer, Driver, Ran, Recording, Said, run_cold, watch
from tests.support.tiny_gguf import write_tiny

N_CTX = 1024
PLAIN = "plaintext"  # a language without a grammar: what the parser says of a text depends on whether a tree is there already
NO_ADOPTING: Json = {"typed_through": False, "adopt_ms": 0}  # every request is a prompt of its own
ARCHS = {"plain attention": "llama", "SWA (gemma-3 class)": "gemma2", "hybrid/recurrent": "mamba"}

A = "import name\nfrom items import value\n\ndef len(items):\n    return None\n\nclass print:\n    def range(self):\n"
B = "        value = len(self.items) + range(name) if not items else name."
C = "        return print(value, items) or self.print(len(name), items) and "
AFTER = "\n        return value\n"

# What stands before B or C, and behind it in front of the cursor; and how many places stay resident. The request takes over
# what the one before has left; each text stays resident by itself; what stood before B has left a sliding window's cells.
SHAPES = ((A, "", 1), (A[-40:], "", 3), (A * 7, "\n" + A * 4, 1))


@dataclass
class Watched:
    """A tiny real model as a scene's engine. truncated: (sequence, positions kept, done) of every cut. runs: by request."""

    path: Path
    n_sequences: int = 1
    truncated: list[tuple[int, int, bool]] = field(default_factory=list)
    runs: dict[int, Run] = field(default_factory=dict)

    def open(self, config: EngineConfig, _on_progress: Callable[[float], None]) -> RecordingClient:
        self.recording = Recording(open_backend(self.path, self.n_sequences), lent=False)
        truncate = self.recording.truncate

        def noted(seq: int, n: int) -> bool:
            had = len(self.recording.tokens(seq))
            done = truncate(seq, n)
            if had > n:
                self.truncated.append((seq, n, done))
            return done

        self.recording.truncate = noted  # type: ignore[method-assign]
        engine = Engine(self.recording, n_ctx=N_CTX, n_sequences=self.n_sequences, costs=Costs(1.0, 1.0), chunk_ms=21.0)
        self.runs = watch(engine)
        return RecordingClient(engine, self.recording.vocab)

    def scene(self, **options: Any) -> Scene:
        return Scene(options={"n_ctx": N_CTX, "max_tokens": 8, **NO_ADOPTING, **options}, open_client=self.open)

    def ran(self, requests: list[GenerationRequest]) -> Ran:
        said = {request.request_id: Said.of(self.runs[request.request_id]) for request in requests}
        return Ran(said, self.recording.rows)


def open_backend(path: Path, n_sequences: int) -> LlamaBackend:
    return LlamaBackend(EngineConfig(n_ctx=N_CTX, n_sequences=n_sequences, n_threads=1, n_gpu_layers=0), path)


@contextmanager
def models() -> Iterator[Callable[[str], Path]]:
    with tempfile.TemporaryDirectory() as folder:
        yield lambda arch: write_tiny(Path(folder) / f"{arch}.gguf", arch=arch)


def cold(path: Path, requests: list[GenerationRequest]) -> Ran:
    """Each request alone on an engine that holds nothing, its prompt in one piece."""
    backend = open_backend(path, 1)
    try:
        return run_cold(lambda rows: Driver(backend, n_chunk=512, n_ctx=N_CTX, rows=rows), requests)
    finally:
        backend.close()


def compare(vocab: Any, reference: Ran, reused: Ran) -> tuple[int, float]:
    """How many texts part, all at near ties, and the largest difference of logits that was seen."""
    comparer, n_parted, noise = Comparer(vocab), 0, 0.0
    for request_id, said in reference.said.items():
        compared = comparer.compare(said, reused.said[request_id], reference.rows, reused.rows)
        assert compared.noise < TOLERANCE, f"logits differ by {compared.noise:.2f}: the cells hold something else"
        n_parted, noise = n_parted + compared.parted, max(noise, compared.noise)
    return n_parted, noise


@driver("kv-reuse-01")
async def three_kinds_of_memory(case: Case) -> str:
    texts = {"A+B": B, "A+C": C}
    told = []
    with models() as model:
        for name in case.input["setup"]["models"]:
            arch = ARCHS[name]
            path = model(arch)
            for head, tail, n_sequences in SHAPES:
                watched = Watched(path, n_sequences)
                async with AsyncExitStack() as stack:
                    if tail:
                        stack.enter_context(cells_of_the_window_only())
                    scene = await stack.enter_async_context(watched.scene())
                    answers, requests = [], []
                    for message in case.input["messages"]:
                        typed = texts[message.removeprefix("complete ")]
                        before = head + typed + tail
                        if not requests:
                            scene.open(before + AFTER, language=PLAIN)
                        else:
                            scene.change({"text": before + AFTER})
                        watched.truncated.clear()
                        items = await scene.ask(before.count("\n"), len(before) - before.rfind("\n") - 1, invoked=True)
                        answers.append([item["insertText"] for item in items])
                        await scene.idle()
                        assert scene.engine is not None
                        requests.append(scene.engine.typing[-1])
                        if len(requests) > 1 and n_sequences == 1:
                            _check_taken_over(watched, requests, arch == "llama" or (arch == "gemma2" and not tail))
                    first, second, third = requests
                    assert (first.tokens, first.heal) == (third.tokens, third.heal) != (second.tokens, second.heal)
                    ran = watched.ran(requests)
                    n_parted, noise = compare(scene.engine.vocab, cold(path, requests), ran)
                    again = Ran({third.request_id: ran.said[first.request_id]}, ran.rows)
                    n_again, _ = compare(scene.engine.vocab, again, ran)
                    assert n_again or answers[0] == answers[2], f"{name}: {answers[0]} and then {answers[2]}"
                    assert not scene.logs.above(20), f"{scene.logs.above(20)}"
                    told.append(f"{arch} {n_parted} near ties, noise {noise:.3f}")
    return "; ".join(told)


@contextmanager
def cells_of_the_window_only() -> Iterator[None]:
    """By default llama.cpp keeps the cells that a sliding window has passed; it can be told to keep few more than the window
    has. (They are few indeed only with small batches.)"""
    defaults = llama_cpp.llama_context_default_params

    def without_full_window() -> Any:
        params = defaults()
        params.swa_full = False
        return params

    with (
        mock.patch.object(llama_cpp, "llama_context_default_params", without_full_window),
        mock.patch.object(llama_model, "N_BATCH", 64),
    ):
        yield


def _check_taken_over(watched: Watched, requests: list[GenerationRequest], can_drop: bool) -> None:
    """The last request went into the sequence that the one before has left. can_drop: the model can give up what differs."""
    (before, last) = requests[-2:]
    effort, n_prompt = watched.runs[last.request_id].effort, len(last.tokens)
    n_common = next(i for i, (a, b) in enumerate(zip(before.tokens, last.tokens, strict=False)) if a != b)
    cuts = watched.truncated
    n_reused, n_evaluated = effort.n_reused, effort.n_evaluated
    assert n_reused + n_evaluated == n_prompt, f"{n_reused} reused, {n_evaluated} evaluated of {n_prompt}"
    # what is idle may be emptied in between, at a time of its own: that sequence is another
    cut = next((each for each in cuts if each[1] >= n_common), None)
    assert cut is not None, f"nothing was cut at the common beginning: {cuts}"
    assert cut[2] is can_drop, f"a part was removed, or not: {cuts}"
    if can_drop:
        assert n_reused >= n_common > n_prompt // 2, f"{n_reused} of {n_common} common tokens reused"
    else:  # a part can't be removed: then all of it is, and evaluated anew
        assert (cut[0], 0, True) in cuts[cuts.index(cut) + 1 :], f"no full clear: {cuts}"
        assert (n_reused, n_evaluated) == (0, n_prompt), f"{n_reused} reused behind a full clear"


def places(rng: random.Random, n: int) -> Iterator[tuple[str, int, int]]:
    """n texts with a cursor, most of them a little different from the one before: typed on, edited before or behind the cursor,
    another document."""
    heads = [A, "const name = function() {\n    let items = Straße;\n", A.replace("items", "value")]
    words = ["value", " = ", "len(", "self.", "items", ")", " in ", "name", "é", "日", "_"]
    head, typed, after = heads[0], "", AFTER
    for _ in range(n):
        kind = rng.random()
        if kind < 0.6:
            typed += rng.choice(words)
        elif kind < 0.7:
            typed = typed[: -rng.randint(1, 4)]
        elif kind < 0.8:
            after = f"\n        return {rng.choice(words)}\n"
        elif kind < 0.9:
            head, typed = rng.choice(heads), ""
        else:
            head = f"import {rng.choice(words)}\n" + rng.choice(heads)
        typed = typed[:60]
        yield head + "    " + typed + after, head.count("\n"), len("    " + typed)


@driver("kv-reuse-02")
async def two_hundred(case: Case) -> str:
    """The prompts are those that the server makes while somebody edits; run cold, each is evaluated alone. Then a server that
    may adopt whatever agrees is asked, and must say what one says that never may."""
    counts = [int(found[1]) for m in case.input["messages"] if (found := re.search(r"(\d+)", m))]
    n = counts[0]
    assert set(counts) == {n} and case.input["setup"]["temp"] == 0
    told = []
    with models() as model:
        for arch in ("llama", "gemma2"):
            path = model(arch)
            watched = Watched(path, 3)
            async with watched.scene() as scene:
                scene.open("")
                for text, line, column in places(random.Random(case.input["setup"]["seed"]), n):
                    scene.change({"text": text})
                    await scene.ask(line, column, invoked=True)
                await scene.idle()
                assert scene.engine is not None
                requests = list(scene.engine.typing)
                assert len(requests) == n, f"{len(requests)} prompts"
                runs = [watched.runs[request.request_id] for request in requests]
                n_reused, n_evaluated = sum(run.effort.n_reused for run in runs), sum(run.effort.n_evaluated for run in runs)
                assert n_reused > (n_evaluated if arch == "llama" else 0), f"{n_reused} reused, {n_evaluated} evaluated"
                n_parted, noise = compare(scene.engine.vocab, cold(path, requests), watched.ran(requests))
                told.append(f"{arch}: {n_reused} reused, {n_evaluated} evaluated, {n_parted} near ties, noise {noise:.3f}")
    n_offered = await _never_anothers(n, case.input["setup"]["seed"])
    return "; ".join([*told, f"{n_offered} of {n} offered, none of them another prompt's"])


def hashing(config: EngineConfig, _on_progress: Callable[[float], None]) -> RecordingClient:
    """A model whose every token depends on all the tokens before it: the least mix-up is another text."""
    n_seq = config.n_sequences + 1
    backend = FakeBackend(FakeVocab(), n_ctx=N_CTX * n_seq, n_seq_max=n_seq)
    return RecordingClient(Engine(backend, n_ctx=N_CTX, n_sequences=config.n_sequences, costs=Costs(1.0, 1.0)), backend.vocab)


async def _never_anothers(n: int, seed: int) -> int:
    """Each text that was asked about is asked about again later, when others were in between. How many got an item."""
    options = {"n_ctx": N_CTX, "max_tokens": 8}
    reusing = Scene(options={**options, "typed_through": True, "adopt_ms": 600_000}, open_client=hashing)
    plain = Scene(options={**options, **NO_ADOPTING}, open_client=hashing)
    n_offered = 0
    async with reusing, plain:
        reusing.open("", language=PLAIN)
        for i, (text, line, column) in enumerate(_variants(random.Random(seed), n)):
            reusing.change({"range": span(0, 0, 2**31 - 1, 0), "text": text})
            got = await reusing.ask(line, column)
            uri = f"file:///w/app/m{i}.py"
            plain.open(text, uri, PLAIN)
            want = await plain.ask(line, column, uri=uri)
            assert plain.engine is not None and reusing.engine is not None
            assert [item["insertText"] for item in got] == [item["insertText"] for item in want], (
                f"text {i}: {got} where a server that adopts nothing says {want}"
            )
            n_offered += len(got)
        assert len(reusing.engine.typing) < n == len(plain.engine.typing), "nothing was ever adopted: this shows nothing"
    assert n_offered > n // 2, f"only {n_offered} of {n} offered anything"
    return n_offered


def _variants(rng: random.Random, n: int) -> Iterator[tuple[str, int, int]]:
    """Texts that differ only before the cursor's line, only behind the cursor, only in what is typed, or not at all."""
    before, typed, after = "a = 1", "total = ", "b = 2"
    for _ in range(n):
        match rng.randrange(5):
            case 0:
                before = f"a{rng.randrange(9)} = {rng.randrange(9)}"
            case 1:
                after = f"b{rng.randrange(9)} = {rng.randrange(9)}"
            case 2:
                typed = rng.choice(["total = ", "count = ", "total = item.", "value, "])
            case 3:
                before, after = after, before
        yield f"{before}\n{typed}\n{after}\n", 1, len(typed)
