"""Weights that come and go, on the strict fake: every request ends once, whatever the host is doing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from inference.backend import Outcome
from inference.config import EngineConfig
from inference.engine import Engine
from inference.engine_host import ModelHost
from inference.memory_free import Free
from inference.memory_plan import make_plan
from inference.memory_report import MemoryBoard, MemoryReport
from inference.models.gguf_sizes import ModelSizes
from inference.serve.limits import Limits
from inference.serve.metrics import Metrics
from inference.serve.running import Running
from inference.types import EngineError, FinishReason, GenerationRequest, TokenEvent
from inference.wire import EngineState, News
from tests.support.fake_backend import FakeBackend
from tests.support.served import COSTS, MODEL, VOCAB, run, until

S = EngineState
TOKEN = VOCAB.encode(b"x")[0]  # all that the model says


class Loader:
    """Opens engines on the fake. why: a load fails with it. gate: loads wait for it."""

    def __init__(self) -> None:
        self.backends: list[FakeBackend] = []
        self.n_vocabs = 0
        self.why = ""
        self.gate = threading.Event()
        self.gate.set()

    def open(self, on_progress: Callable[[float], None]) -> Any:
        on_progress(0.25)
        on_progress(0.255)  # too little to tell
        assert self.gate.wait(30)
        if self.why == "crash":
            raise RuntimeError("of the loader")
        if self.why:
            raise EngineError(self.why)
        self.backends.append(FakeBackend(VOCAB, n_ctx=4096, n_seq_max=8))
        self.backends[-1].script_always = lambda tokens: TOKEN
        return Engine(self.backends[-1], n_ctx=512, n_sequences=6, costs=COSTS), VOCAB

    def vocab(self) -> Any:
        self.n_vocabs += 1
        return VOCAB


class Asked:
    """Requests and their events."""

    def __init__(self, host: ModelHost) -> None:
        self.host = host
        self.events: dict[int, list[TokenEvent]] = {}

    def ask(self, request_id: int, n_max: int = 4) -> None:
        mine = self.events[request_id] = []
        tokens = VOCAB.encode(b"def foo():\n    return " + bytes(str(request_id), "ascii"))
        self.host.submit(GenerationRequest(request_id, tokens, n_max=n_max), mine.append)

    def finish(self, request_id: int) -> FinishReason | None:
        """None: it runs. Never more than one."""
        finishes = [event.finish for event in self.events[request_id] if event.finish is not None]
        assert len(finishes) <= 1
        return finishes[0] if finishes else None

    async def ended(self, request_id: int) -> TokenEvent:
        await until(lambda: self.finish(request_id))
        return self.events[request_id][-1]


def hosted(loader: Loader, **options: Any) -> tuple[ModelHost, Asked, list[News]]:
    host = ModelHost(MODEL, "fake", {}, loader.open, loader.vocab, **options)
    told: list[News] = []
    host.watch(told.append)
    return host, Asked(host), told


def test_it_loads_tells_how_far_it_is_and_answers() -> None:
    async def main() -> None:
        loader = Loader()
        host, asked, told = hosted(loader)
        assert host.vocab is None and host.n_ctx == 0 and host.costs() is None and host.stats() is None
        host.start()
        host.start()
        await until(lambda: host.news().state is S.READY)
        assert told == [News(S.LOADING, 0.25), News(S.READY, 1.0)]
        assert host.vocab is VOCAB and host.n_ctx == 512 and host.costs() == COSTS
        asked.ask(1)
        assert (await asked.ended(1)).finish is FinishReason.LENGTH
        assert host.counters().generated == 3 and len(loader.backends) == 1
        await host.aclose()
        assert loader.backends[0].closed

    run(main)


def test_the_weights_go_when_nobody_asks_and_come_back_with_the_next_request() -> None:
    async def main() -> None:
        loader = Loader()
        host, asked, told = hosted(loader, unload_s=0.05)
        host.start()
        await until(lambda: host.news().state is S.UNLOADED)
        for n in (1, 2):
            await until(lambda: loader.backends[-1].closed)
            assert host.stats() is None and host.n_reusable((1, 2)) == 0
            assert host.vocab is VOCAB and host.n_ctx == 512 and loader.n_vocabs == n
            asked.ask(n)
            assert (await asked.ended(n)).finish is FinishReason.LENGTH
            await until(lambda: host.news().state is S.UNLOADED)
            assert host.counters().generated == 3 * n, "what freed engines have done is forgotten"
        states = [news.state for news in told if news.share in (0.0, 1.0)]
        assert states == [S.READY, S.UNLOADED, *[S.LOADING, S.READY, S.UNLOADED] * 2]
        await host.aclose()

    run(main)


def test_a_request_keeps_the_weights_and_one_that_comes_while_they_go_is_answered() -> None:
    async def main() -> None:
        loader = Loader()
        host, asked, _ = hosted(loader, unload_s=0.02)
        host.start()
        await until(lambda: host.news().state is S.READY)
        gate = threading.Event()
        loader.backends[0].on_decode = lambda rows: gate.wait(30) and None
        asked.ask(1)
        await asyncio.sleep(0.1)
        assert host.news().state is S.READY and loader.n_vocabs == 0
        gate.set()
        await asked.ended(1)
        for n in range(2, 40):  # at every moment of the going
            await asyncio.sleep(0.001 * n)
            asked.ask(n)
            assert (await asked.ended(n)).finish is FinishReason.LENGTH
        assert sum(not backend.closed for backend in loader.backends) <= 1
        await host.aclose()
        assert all(backend.closed for backend in loader.backends)

    run(main)


def test_the_weights_are_never_in_memory_twice() -> None:
    async def main() -> None:
        loader = Loader()
        host, asked, _ = hosted(loader, unload_s=0.02)
        host.start()
        await until(lambda: loader.backends)
        backend, gate = loader.backends[0], threading.Event()
        close = backend.close

        def slowly() -> None:
            assert gate.wait(30)
            close()

        backend.close = slowly  # type: ignore[method-assign]
        await until(lambda: host.news().state is S.UNLOADED)
        asked.ask(1)
        await asyncio.sleep(0.05)
        assert len(loader.backends) == 1, "the next ones come while the old ones are there"
        gate.set()
        assert (await asked.ended(1)).finish is FinishReason.LENGTH
        await host.aclose()

    run(main)


def test_a_model_that_can_not_be_loaded_at_first_has_failed() -> None:
    async def main() -> None:
        loader = Loader()
        loader.gate.clear()
        host, asked, told = hosted(loader)
        host.start()
        asked.ask(1)
        loader.why = "It is no model."
        loader.gate.set()
        event = await asked.ended(1)
        assert (event.finish, event.error) == (FinishReason.ERROR, "It is no model.")
        assert told[-1] == News(S.FAILED, why="It is no model.")
        asked.ask(2)
        assert (await asked.ended(2)).error == "It is no model."
        await host.aclose()

    run(main)


@pytest.mark.parametrize("why", ["There is no memory.", "crash"])
def test_a_model_that_can_not_be_loaded_again_is_tried_again_later(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    async def main() -> None:
        monkeypatch.setattr("inference.engine_host._AGAIN_S", 0.2)
        loader = Loader()
        host, asked, told = hosted(loader, unload_s=0.05)
        host.start()
        await until(lambda: host.news().state is S.UNLOADED)
        loader.why = why
        asked.ask(1)
        sentence = (await asked.ended(1)).error
        assert sentence == (why if why != "crash" else "The model can't be loaded (RuntimeError); the engine's log says more.")
        assert told[-1] == News(S.UNLOADED, why=sentence)
        loader.why = ""
        asked.ask(2)
        assert asked.events[2][-1].error == sentence, "it is tried at every key"
        await asyncio.sleep(0.25)
        asked.ask(3)
        assert (await asked.ended(3)).finish is FinishReason.LENGTH
        assert told[-1].why == ""
        await host.aclose()

    run(main)


def test_a_context_that_failed_is_loaded_anew() -> None:
    async def main() -> None:
        loader = Loader()
        host, asked, told = hosted(loader)
        host.start()
        await until(lambda: host.news().state is S.READY)
        loader.backends[0].outcomes.append(Outcome.FATAL)
        asked.ask(1)
        assert (await asked.ended(1)).finish is FinishReason.ERROR
        await until(lambda: told[-1].state is S.UNLOADED)
        asked.ask(2)
        assert (await asked.ended(2)).finish is FinishReason.LENGTH
        assert len(loader.backends) == 2 and loader.backends[0].closed
        await host.aclose()

    run(main)


def test_what_waits_for_the_weights_can_be_cancelled_and_is_when_it_closes() -> None:
    async def main() -> None:
        loader = Loader()
        loader.gate.clear()
        host, asked, _ = hosted(loader)
        host.start()
        for n in (1, 2):
            asked.ask(n)
        host.cancel(1)
        host.cancel(1)
        assert asked.finish(1) is FinishReason.CANCELLED and asked.finish(2) is None
        await host.aclose()
        assert asked.finish(2) is FinishReason.CANCELLED
        asked.ask(3)
        assert asked.finish(3) is FinishReason.CANCELLED
        loader.gate.set()

    run(main)


def test_what_was_planned_is_told_once_it_is_known() -> None:
    async def main() -> None:
        board = MemoryBoard()
        host, _, _ = hosted(Loader(), notices=("a notice",), memory=board)
        assert host.notices == ("a notice",) and host.memory() is None
        sizes = ModelSizes("m", "x", 1, 8, 1, (1,), 8, 8, False, 0, 0, 8, 0, 10, 99, ())
        plan = make_plan(sizes, EngineConfig(n_threads=1), Free(300 << 20))
        board.take(MemoryReport(plan, (("CPU", "KV", 7),), ("less than asked for",)))
        assert host.notices == ("a notice", "less than asked for")
        report = host.memory()
        assert report is not None and report.actual_bytes == 7
        page = Metrics().page(host, Running(host, Limits()), 0, 0)
        assert 'midfill_memory_actual_bytes{place="CPU",kind="KV"} 7' in page
        assert f'midfill_memory_planned_bytes{{part="cache",place="host",reported="1"}} {2 * 8 * 2 * 256}' in page
        assert 'midfill_memory_lowered{setting="stow_bytes"} 1' in page
        await host.aclose()

    run(main)
