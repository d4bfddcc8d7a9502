"""What a model says at each place, token by token: one raw generation a place, to its end or to a limit, kept case by case.

Owns the way from a place to the engine: the product's own plan, anchor, healing and layout, with a small window, planned at
the line's start before its first character was typed. No rule of the product stops or trims anything here. The engine runs in
this process and several places are asked for at once, so that a step serves them together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.case_log import CaseLog, Record
from bench.errors import BenchError
from bench.heart import engine_config
from bench.places import Place
from bench.progress import Progress
from context.fim import render
from context.plan import make_plan
from context.text import Text
from context.tokens import TokenTable
from context.types import DocumentSnapshot, FileName, Limits, Prompt
from inference import run as run_module
from inference.backend import Vocab
from inference.clients.base import EngineClient
from inference.config import EngineConfig
from inference.healing import HealingIndex
from inference.run import Run
from inference.sampler import log_probability
from inference.types import FinishReason, GenerationRequest
from lsp_server.app import open_local
from lsp_server.dirs import cache_dir
from lsp_server.plans.layouts import choose_layout

GROUP = "places"
_RUN: Any = run_module.Run  # what is looked at there is replaced meanwhile
MOST_TOKENS = 128
WINDOW = Limits(n_prefix=230, n_suffix=64, n_total=304, fill=True)


@dataclass(frozen=True, slots=True)
class Chosen:
    """One choice of the model: the logarithmic probability of what it chose, of all tokens; is_end: it ended the text."""

    logprob: float
    is_end: bool


class Choices:
    """Looks over the engines' shoulders: what each run in this process chooses, from here to `close`."""

    def __init__(self) -> None:
        self._by_request: dict[int, list[Chosen]] = {}
        self._ended: set[int] = set()
        self._accept = _RUN.accept
        noted, accept = self._note, self._accept

        def accept_noted(run: Run, logits: NDArray[np.float32], vocab: Vocab, healing: HealingIndex, now: float) -> None:
            n, allowed = len(run.path), healing.allowed(run.rest) if run.rest else None
            accept(run, logits, vocab, healing, now)
            noted(run, n, logits, allowed)

        _RUN.accept = accept_noted

    async def take(self, request_id: int) -> list[Chosen]:
        """All that was chosen for a request that has chosen its end."""
        while request_id not in self._ended:  # its last event leaves the engine a little before the choice is noted
            await asyncio.sleep(0.001)
        self._ended.remove(request_id)
        return self._by_request.pop(request_id, [])

    def close(self) -> None:
        """Look away."""
        _RUN.accept = self._accept

    def _note(self, run: Run, n: int, logits: NDArray[np.float32], allowed: NDArray[np.int64] | None) -> None:
        """n: length of its path before it chose. allowed: ids that it chose from; None: all."""
        is_end = len(run.path) == n
        if not is_end or run.finish is FinishReason.STOP:
            # greedy: what ended the text was the likeliest of all
            token = int(np.argmax(logits)) if is_end else run.path[n]
            self._by_request.setdefault(run.request_id, []).append(Chosen(log_probability(logits, token, allowed), is_end))
        if run.finish is not None:
            self._ended.add(run.request_id)


class Recorder:
    """Use on one event loop. n_at_once: places that are asked for at the same time."""

    def __init__(self, client: EngineClient, n_at_once: int) -> None:
        vocab: Vocab = client.vocab
        self._client = client
        self._choices = Choices()
        self._n_at_once = n_at_once
        self._table = TokenTable(vocab, vocab.pre_type)
        self._layout = choose_layout("anchored", vocab, client.model_name)

    @classmethod
    async def load(cls, config: EngineConfig, n_at_once: int) -> Recorder:
        """Load the model. Raises EngineError."""
        config = replace(config, n_sequences=n_at_once, n_ctx=4096, chunk_ms=4000.0)
        return cls(await asyncio.to_thread(open_local, config, lambda share: None), n_at_once)

    async def record(self, places: Sequence[Place], log: CaseLog, commit: str) -> None:
        """Ask at every place that the log does not have yet. Raises BenchError."""
        progress = Progress("place")
        left = iter([place for place in places if log.get(GROUP, place.name) is None])
        n_done = sum(log.get(GROUP, place.name) is not None for place in places)

        async def work() -> None:
            nonlocal n_done
            for place in left:
                log.add(GROUP, place.name, {**await self._ask(place), "commit": commit})
                n_done += 1
                progress.show("recorded", n_done, len(places), place.name)

        workers = [asyncio.create_task(work()) for _ in range(self._n_at_once)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            progress.end()

    def prompt(self, place: Place) -> Prompt:
        """Planned at the start of the cursor's line, before the line was typed; rendered at the cursor."""
        head = place.before_line.encode()
        empty = DocumentSnapshot("file:///" + place.path, 1, place.language, Text.of(place.before_line + place.after))
        typed = replace(empty, version=2, text=Text.of(place.before + place.closers + place.after))
        file = FileName(place.path, place.repository)
        plan = make_plan(empty, len(head), WINDOW, self._table, self._layout, file=file)
        return render(plan, typed, len(head) + len(place.typed.encode()), self._table)

    async def _ask(self, place: Place) -> Record:
        """{pieces, ends, logprobs, end_logprob, finish, n_prompt, n_healing}. pieces: of text, as they came. ends: how many
        tokens had been chosen with each. logprobs: of all tokens chosen, those of healing included. end_logprob: of the choice
        that ended the text, or null."""
        prompt = self.prompt(place)
        request = GenerationRequest(self._client.next_id(), prompt.tokens, prompt.heal, MOST_TOKENS)
        stream = self._client.submit(request)
        pieces: list[str] = []
        ends: list[int] = []
        while True:
            event = await stream.next()
            if event.text:
                pieces.append(event.text)
                ends.append(event.stats.n_generated)
            if event.finish is not None:
                break
        if event.finish not in (FinishReason.STOP, FinishReason.LENGTH):
            raise BenchError(f"{place.name}: the engine failed: {event.error or event.finish}")
        chosen = await self._choices.take(request.request_id)
        return {
            "pieces": pieces,
            "ends": ends,
            "logprobs": [round(each.logprob, 4) for each in chosen if not each.is_end],
            "end_logprob": next((round(each.logprob, 4) for each in chosen if each.is_end), None),
            "finish": event.finish.value,
            "n_prompt": event.stats.n_prompt,
            "n_healing": event.stats.n_healing,
            "n_generated": event.stats.n_generated,
        }

    async def aclose(self) -> None:
        self._choices.close()
        await self._client.aclose()


async def record(places: Sequence[Place], log: CaseLog, model: str, n_threads: int, n_at_once: int, commit: str) -> None:
    """Have a record of every place in the log; the model is loaded only if one is missing. commit: is kept with each."""
    if all(log.get(GROUP, place.name) is not None for place in places):
        return
    recorder = await Recorder.load(engine_config(model, n_threads), n_at_once)
    try:
        await recorder.record(places, log, commit)
    finally:
        await recorder.aclose()


def default_folder() -> Path:
    """Where the wheels are kept."""
    return cache_dir() / "bench" / "wheels"
