"""An engine whose weights come and go: loaded when it is started, freed when nobody asks, loaded again for the next request.

    LOADING ─▶ READY ─(no request for unload_s, or the context failed)─▶ UNLOADED ─(a request)─▶ LOADING ─▶ …
       └─(the first time)─▶ FAILED

Owns the engine, its thread, and the requests that wait for it. Everything but the sinks runs on the event loop, and nothing
there blocks. Each request ends with exactly one event, also when the model can't be loaded again: then with the reason, and the
next one tries anew. Refuses the wire, and the end of the process.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields

from inference.backend import Vocab
from inference.engine import Engine
from inference.memory_report import MemoryBoard, MemoryReport
from inference.models.identity import ModelFile
from inference.serve.host import Sink
from inference.types import (
    Costs,
    Counters,
    EngineError,
    EngineStats,
    FinishReason,
    GenerationRequest,
    GenerationStats,
    TokenEvent,
)
from inference.wire import EngineState, News

log = logging.getLogger(__name__)

_AGAIN_S = 5.0  # after a load that failed the next request gets the same answer for so long
_JOIN_S = 10.0

OpenEngine = Callable[[Callable[[float], None]], tuple[Engine, Vocab]]


class _Loaded:
    """An engine and its thread."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._thread = threading.Thread(target=engine.run_forever, name="engine", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Blocking: waits for the step under way."""
        self.engine.close()
        self._thread.join(_JOIN_S)


class ModelHost:
    """Fits `inference.serve.host.EngineHost`. To be made and used on one event loop; nothing is loaded before `start`.

    open_engine, load_vocab: blocking, called in threads. memory: where `open_engine` tells its plan. unload_s: 0 = the weights
    stay. on_leases: told how many there are.
    """

    def __init__(
        self,
        model: ModelFile,
        model_name: str,
        settings: Mapping[str, object],
        open_engine: OpenEngine,
        load_vocab: Callable[[], Vocab],
        *,
        notices: tuple[str, ...] = (),
        memory: MemoryBoard | None = None,
        unload_s: float = 0.0,
        on_leases: Callable[[int], None] = lambda n: None,
    ) -> None:
        self.model = model
        self.model_name = model_name
        self.settings = settings
        self._notices = notices
        self._memory = memory
        self.vocab: Vocab | None = None
        self.n_ctx = 0
        self._open_engine = open_engine
        self._load_vocab = load_vocab
        self._unload_s = unload_s
        self._on_leases = on_leases
        self._loop = asyncio.get_running_loop()
        self._watchers: list[Callable[[News], None]] = []
        self._news = News(EngineState.LOADING)
        self._loaded: _Loaded | None = None
        self._costs: Costs | None = None
        self._counters = Counters()  # of engines that were freed
        self._waiting: dict[int, tuple[GenerationRequest, Sink]] = {}
        self._n_open = 0  # requests that have not ended
        self._loading: asyncio.Task[None] | None = None
        self._unloading: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._share_told = 0.0
        self._failed_at = float("-inf")
        self._is_closed = False

    def start(self) -> None:
        """Load the weights."""
        if self._loading is None and not self._is_closed:
            self._loading = self._loop.create_task(self._load())

    @property
    def notices(self) -> tuple[str, ...]:
        return self._notices + (self._memory.notices if self._memory is not None else ())

    def memory(self) -> MemoryReport | None:
        return self._memory.report if self._memory is not None else None

    def costs(self) -> Costs | None:
        if self._loaded is not None:
            self._costs = self._loaded.engine.costs
        return self._costs

    def counters(self) -> Counters:
        return _sum(self._counters, self._loaded.engine.counters()) if self._loaded is not None else self._counters

    def stats(self) -> EngineStats | None:
        return self._loaded.engine.stats() if self._loaded is not None else None

    def news(self) -> News:
        return self._news

    def watch(self, tell: Callable[[News], None]) -> None:
        self._watchers.append(tell)

    def n_reusable(self, tokens: Sequence[int]) -> int:
        return self._loaded.engine.n_reusable(tuple(tokens)) if self._loaded is not None else 0

    def on_leases(self, n: int) -> None:
        self._on_leases(n)

    def submit(self, request: GenerationRequest, sink: Sink) -> None:
        self._n_open += 1
        if self._timer is not None:
            self._timer.cancel()
        told = self._counted(sink)
        if self._loaded is not None:
            self._loaded.engine.submit(request, told)
        elif self._is_closed:
            told(_ended(request, FinishReason.CANCELLED))
        elif self._is_hopeless():
            told(_ended(request, FinishReason.ERROR, self._news.why))
        else:
            self._waiting[request.request_id] = (request, told)
            self.start()

    def cancel(self, request_id: int) -> None:
        waiting = self._waiting.pop(request_id, None)
        if waiting is not None:
            waiting[1](_ended(waiting[0], FinishReason.CANCELLED))
        elif self._loaded is not None:
            self._loaded.engine.cancel(request_id)

    async def aclose(self) -> None:
        """End everything that runs and free the model. A load under way is left behind: whoever closes ends the process."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for request_id in list(self._waiting):
            self.cancel(request_id)
        if self._unloading is not None:
            await asyncio.wait({self._unloading})
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            await asyncio.to_thread(loaded.close)

    # -- requests

    def _is_hopeless(self) -> bool:
        if self._news.state is EngineState.FAILED:
            return True
        return self._loading is None and bool(self._news.why) and self._loop.time() < self._failed_at + _AGAIN_S

    def _counted(self, sink: Sink) -> Sink:
        def told(event: TokenEvent) -> None:
            sink(event)
            if event.finish is not None:
                try:
                    self._loop.call_soon_threadsafe(self._has_ended)
                except RuntimeError:  # the loop has closed
                    return

        return told

    def _has_ended(self) -> None:
        self._n_open -= 1
        if self._n_open or self._is_closed:
            return
        if self._loaded is not None and self._loaded.engine.why_failed:
            log.error("the model's context failed; it will be loaded anew")
            self._unload_soon()
        else:
            self._watch_idle()

    def _watch_idle(self) -> None:
        if self._unload_s and not self._is_closed:
            self._timer = self._loop.call_later(self._unload_s, self._unload_soon)

    # -- the weights

    async def _load(self) -> None:
        if self._unloading is not None:
            await asyncio.wait({self._unloading})
        self._tell(News(EngineState.LOADING))
        why, self._share_told = "", 0.0
        try:
            engine, vocab = await asyncio.to_thread(self._open_engine, self._progress)
        except EngineError as error:
            why = str(error)
        except Exception as error:
            log.debug("details", exc_info=True)
            why = f"The model can't be loaded ({type(error).__name__}); the engine's log says more."
        self._loading = None
        if why:
            log.error("%s", why)
            self._failed_at = self._loop.time()
            self._tell(News(EngineState.FAILED if self.vocab is None else EngineState.UNLOADED, why=why))
            self._answer_all(why)
            return
        if self._is_closed:
            return
        self.vocab, self.n_ctx, self._costs = vocab, engine.n_ctx, engine.costs
        self._loaded = _Loaded(engine)
        for request, told in self._waiting.values():
            engine.submit(request, told)
        self._waiting.clear()
        self._tell(News(EngineState.READY, 1.0))
        if not self._n_open:
            self._watch_idle()

    def _answer_all(self, why: str) -> None:
        for request, told in self._waiting.values():
            told(_ended(request, FinishReason.ERROR, why))
        self._waiting.clear()

    def _unload_soon(self) -> None:
        if self._unloading is None and self._loaded is not None and not self._is_closed:
            self._unloading = self._loop.create_task(self._unload())

    async def _unload(self) -> None:
        try:
            # the engine's own vocabulary holds on to the weights
            vocab = await asyncio.to_thread(self._load_vocab)
        except Exception as error:
            log.warning("the model stays in memory: its vocabulary can't be kept alone (%s)", type(error).__name__)
            vocab = None
        if vocab is None or self._n_open or self._is_closed:  # somebody has come meanwhile
            self._unloading = None
            if vocab is None and not self._n_open:
                self._watch_idle()
            return
        loaded, self._loaded = self._loaded, None
        assert loaded is not None
        self._counters = _sum(self._counters, loaded.engine.counters())
        self.vocab = vocab
        self._tell(News(EngineState.UNLOADED))
        await asyncio.to_thread(loaded.close)
        del loaded
        gc.collect()  # backend and engine know each other
        self._unloading = None

    # -- news

    def _progress(self, share: float) -> None:
        """From the thread that loads."""
        if share - self._share_told >= 0.01:
            self._share_told = share
            self._loop.call_soon_threadsafe(self._has_loaded, share)

    def _has_loaded(self, share: float) -> None:
        if self._loading is not None and self._news.state is EngineState.LOADING:
            self._tell(News(EngineState.LOADING, share))

    def _tell(self, news: News) -> None:
        if news == self._news:
            return
        self._news = news
        if not news.share or news.share == 1.0:
            log.info("%s", news.state)
        for tell in self._watchers:
            tell(news)


def _ended(request: GenerationRequest, finish: FinishReason, error: str = "") -> TokenEvent:
    return TokenEvent(request.request_id, "", GenerationStats(), finish, error)


def _sum(one: Counters, other: Counters) -> Counters:
    return Counters(**{field.name: getattr(one, field.name) + getattr(other, field.name) for field in fields(Counters)})
