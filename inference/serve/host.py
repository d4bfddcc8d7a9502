"""What is served: an engine, as a process sees it whose weights may come and go.

Owns the Protocol of a host, and the simple host whose weights stay loaded until it is closed. Refuses the wire.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from inference.backend import Vocab
from inference.engine import Engine
from inference.memory_report import MemoryReport
from inference.models.identity import ModelFile
from inference.types import Costs, Counters, EngineStats, FinishReason, GenerationRequest, GenerationStats, TokenEvent
from inference.wire import EngineState, News

Sink = Callable[[TokenEvent], None]


class EngineHost(Protocol):
    """All methods are called on the event loop and none blocks it.

    Requests are taken in every state but FAILED once `vocab` is known; a host without weights keeps them until it has some.
    """

    @property
    def model(self) -> ModelFile: ...
    @property
    def model_name(self) -> str: ...
    @property
    def settings(self) -> Mapping[str, object]:
        """What the engine was started with, as plain values."""
        ...

    @property
    def notices(self) -> tuple[str, ...]: ...
    @property
    def vocab(self) -> Vocab | None:
        """None: not known yet. Stays when the weights are freed."""
        ...

    @property
    def n_ctx(self) -> int:
        """0: not known yet."""
        ...

    def costs(self) -> Costs | None: ...
    def counters(self) -> Counters: ...
    def stats(self) -> EngineStats | None:
        """None: nothing is loaded."""
        ...

    def memory(self) -> MemoryReport | None:
        """What was planned at the last load, and what it took; None: not known."""
        ...

    def news(self) -> News:
        """Its state; DRAINING is none of a host's."""
        ...

    def watch(self, tell: Callable[[News], None]) -> None:
        """`tell` is called whenever the state has changed, from any thread."""
        ...

    def submit(self, request: GenerationRequest, sink: Sink) -> None:
        """Events go to the sink from any thread, in order; exactly one, the last, has a finish."""
        ...

    def cancel(self, request_id: int) -> None: ...
    def n_reusable(self, tokens: Sequence[int]) -> int: ...
    def on_leases(self, n: int) -> None:
        """n language servers are connected now."""
        ...


class LoadedHost:
    """An engine on a thread of its own, from construction to `close`. Fits `EngineHost`."""

    def __init__(
        self,
        engine: Engine,
        vocab: Vocab,
        model: ModelFile,
        model_name: str,
        settings: Mapping[str, object],
        notices: tuple[str, ...] = (),
    ) -> None:
        self._engine = engine
        self._watchers: list[Callable[[News], None]] = []
        self._news = News(EngineState.READY)
        self.vocab = vocab
        self.model = model
        self.model_name = model_name
        self.settings = settings
        self.notices = notices
        self.n_leases = 0
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    @property
    def n_ctx(self) -> int:
        return self._engine.n_ctx

    def costs(self) -> Costs:
        return self._engine.costs

    def counters(self) -> Counters:
        return self._engine.counters()

    def stats(self) -> EngineStats:
        return self._engine.stats()

    def memory(self) -> MemoryReport | None:
        return None

    def news(self) -> News:
        return self._news

    def watch(self, tell: Callable[[News], None]) -> None:
        self._watchers.append(tell)

    def submit(self, request: GenerationRequest, sink: Sink) -> None:
        if self._news.state is EngineState.FAILED:
            sink(TokenEvent(request.request_id, "", GenerationStats(), FinishReason.ERROR, self._news.why))
            return
        self._engine.submit(request, sink)

    def cancel(self, request_id: int) -> None:
        self._engine.cancel(request_id)

    def n_reusable(self, tokens: Sequence[int]) -> int:
        return self._engine.n_reusable(tuple(tokens))

    def on_leases(self, n: int) -> None:
        self.n_leases = n

    def close(self, timeout_s: float = 10.0) -> None:
        """End everything that runs, and free the model; waits for the step under way."""
        self._engine.close()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            self._engine.run_forever()
        finally:
            self._news = News(EngineState.FAILED, why="The engine has ended; start it again.")
            for tell in self._watchers:
                tell(self._news)
