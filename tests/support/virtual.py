"""Virtual time: an event loop whose clock jumps, and an engine client whose steps take the time that they would.

Tests of deadlines and parking are then exact and take no time, whatever the machine is doing.
"""

from __future__ import annotations

import asyncio
import itertools
import selectors
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Executor, Future
from typing import Any

from inference.clients.local import LocalStream
from inference.engine import Engine
from inference.types import Costs, Counters, GenerationRequest
from tests.support.fake_backend import FakeBackend


class _JumpingSelector(selectors.DefaultSelector):
    """Instead of sleeping it moves the clock on."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready or timeout is None:
            return ready or super().select(timeout)
        self.now += max(0.0, timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run_virtual(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run a coroutine in virtual time; a test that waits for nothing fails instead of hanging."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(asyncio.wait_for(main(), 3600))


class InlineExecutor(Executor):
    """Runs what is submitted at once, so that no real thread races with virtual time."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class SteppedClient:
    """An engine on the fake backend, stepped by a task. One row takes `step_ms`, n rows n times `prefill_ms_per_token`."""

    model_name = "fake"

    def __init__(self, backend: FakeBackend, *, n_ctx: int = 1024, costs: Costs | None = None, n_sequences: int = 3) -> None:
        loop = asyncio.get_running_loop()
        self.backend = backend
        self._costs = costs or Costs(prefill_ms_per_token=10.0, step_ms=30.0)
        self.engine = Engine(backend, n_ctx=n_ctx, n_sequences=n_sequences, costs=self._costs, clock=loop.time)
        self._ids = itertools.count(1)
        self._wake = asyncio.Event()
        self._held: list[Callable[[], None]] = []
        self.requests: list[GenerationRequest] = []
        self.offered: dict[str, tuple[int, ...]] = {}
        self.streams: list[LocalStream] = []
        self.on_submit: Callable[[GenerationRequest], None] = lambda request: None
        self._task = loop.create_task(self._run())

    @property
    def vocab(self) -> Any:
        return self.backend.vocab

    @property
    def n_ctx(self) -> int:
        return self.engine.n_ctx

    def next_id(self) -> int:
        return next(self._ids)

    def submit(self, request: GenerationRequest) -> LocalStream:
        self.on_submit(request)
        self.requests.append(request)
        stream = _HeldStream(self, request)
        self.streams.append(stream)
        self._wake.set()
        return stream

    def cancel(self, request_id: int) -> None:
        self.engine.cancel(request_id)
        self._wake.set()

    async def n_reusable(self, tokens: Sequence[int]) -> int:
        return self.engine.n_reusable(tuple(tokens))

    def offer(self, chunks: Mapping[str, tuple[int, ...]]) -> None:
        self.offered.update(chunks)

    def costs(self) -> Costs:
        return self._costs

    def counters(self) -> Counters:
        return self.engine.counters()

    def step_s(self, n_rows: int) -> float:
        return (self._costs.step_ms if n_rows == 1 else n_rows * self._costs.prefill_ms_per_token) / 1000

    async def idle(self) -> None:
        """Until the engine has nothing to do."""
        while not self.engine.is_idle or self._held:
            if self._task.done():
                self._task.result()
            await asyncio.sleep(0.01)
        for _ in range(3):  # readers of the last events
            await asyncio.sleep(0)

    async def _run(self) -> None:
        while True:
            busy = self.engine.step()
            if busy:
                await asyncio.sleep(self.step_s(len(self.backend.decoded[-1])))
            held, self._held = self._held, []
            for tell in held:
                tell()
            if not busy and self.engine.is_idle:
                await self._wake.wait()
            self._wake.clear()

    async def aclose(self) -> None:
        self._task.cancel()


class _HeldStream(LocalStream):
    """What a step says is told when the step's time has passed."""

    def __init__(self, client: SteppedClient, request: GenerationRequest) -> None:
        self._client = client
        super().__init__(client.engine, request)

    def _sink(self, event: Any) -> None:
        self._client._held.append(lambda: self._events.put_nowait(event))

    def cancel(self) -> None:
        self._client.cancel(self._request_id)
