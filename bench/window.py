"""A window in which somebody types, and the work that others let the engine do meanwhile.

Owns the clock of a keystroke: from handing the request to the client until its first text is back, in ms. Keys come at a fixed
pace, or when the one before has its first byte if that is later. As in use, a newer request is submitted before the older one
is cancelled, and what has its first byte goes on until then. Nothing is adopted: every key asks the engine.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterable, Sequence
from types import TracebackType

from bench.errors import BenchError
from bench.prompts import Key, Typing
from bench.served import only_prompt
from inference.clients.base import EngineClient, Stream
from inference.types import FinishReason, GenerationRequest, Priority, TokenEvent

N_MAX = 24  # tokens of a suggestion; at the pace of typing the next key comes first


class Window:
    """One at a time of `type` and `type_until`."""

    def __init__(self, client: EngineClient, typing: Typing, pace_s: float) -> None:
        self.typing = typing
        self._client = client
        self._pace_s = pace_s
        self._running: Stream | None = None
        self._reading: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """The prompt in front of the first key is resident, and nothing behind it: all passes begin alike."""
        await only_prompt(self._client, self.typing.base)

    async def type(self, keys: Iterable[Key] | None = None) -> list[float]:
        """First bytes of these keys, or of all, in ms; of keys after which the model said nothing there is none."""
        times = [await self._paced(key) for key in (self.typing.keys if keys is None else keys)]
        await self.quiet()
        return [first for first in times if first is not None]

    async def type_until(self, done: asyncio.Event, *, burst: int = 0, pause_s: float = 0.0) -> int:
        """All keys again and again until then; how many. burst: so many, and then a pause, in which the last goes on."""
        n = 0
        for key in itertools.cycle(self.typing.keys):
            if done.is_set():
                break
            await self._paced(key)
            n += 1
            if burst and n % burst == 0:
                await _until(done, pause_s)
        await self.quiet()
        return n

    async def quiet(self) -> None:
        """End what runs, and wait for that."""
        if self._running is not None:
            self._running.cancel()
            self._running = None
        while self._reading:
            await asyncio.gather(*self._reading)

    async def _paced(self, key: Key) -> float | None:
        due = time.perf_counter() + self._pace_s
        first = await self._press(key)
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        return first

    async def _press(self, key: Key) -> float | None:
        request = GenerationRequest(self._client.next_id(), key.tokens, key.heal, N_MAX, priority=Priority.TYPING)
        began = time.perf_counter()
        stream = self._client.submit(request)
        if self._running is not None:
            self._running.cancel()
        self._running = stream
        first: asyncio.Future[float | None] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._read(stream, began, first))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)
        return await first

    async def _read(self, stream: Stream, began: float, first: asyncio.Future[float | None]) -> None:
        event: TokenEvent | None = None
        while event is None or event.finish is None:
            event = await stream.next()
            if event.finish is FinishReason.ERROR:
                failure = BenchError(f"the engine failed: {event.error}")
                if first.done():
                    raise failure
                first.set_exception(failure)
                return
            if event.text and not first.done():
                first.set_result((time.perf_counter() - began) * 1000)
        if self._running is stream:
            self._running = None
        if not first.done():
            first.set_result(None)


async def _until(done: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await done.wait()
    except TimeoutError:
        return


class Load:
    """Background work without end: one prompt after the other is prefilled, and beside it one is generated from.

    prompts: prefilled in turn, each time behind a line of its own (numbers), so that nothing of them is known. start: the
    prompt that is generated from. When it is entered, the generation is under way.
    """

    def __init__(
        self, client: EngineClient, prompts: Sequence[tuple[int, ...]], start: tuple[int, ...], numbers: itertools.count[int]
    ) -> None:
        self._client = client
        self._prompts = prompts
        self._start = start
        self._numbers = numbers
        self._tasks: list[asyncio.Task[None]] = []
        self._streams: dict[str, Stream] = {}
        self._says = asyncio.Event()

    async def __aenter__(self) -> Load:
        await only_prompt(self._client, self._start)
        self._tasks.append(asyncio.create_task(self._generate()))
        waiting = asyncio.create_task(self._says.wait())
        await asyncio.wait({waiting, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)  # a failure ends the wait, too
        waiting.cancel()
        self._tasks.append(asyncio.create_task(self._prefill()))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        failed = [task for task in self._tasks if task.done() and not task.cancelled() and task.exception() is not None]
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for stream in self._streams.values():
            stream.cancel()
            while (await stream.next()).finish is None:
                pass
        if failed and error is None:
            raise BenchError(f"the background failed: {failed[0].exception()}")

    async def _prefill(self) -> None:
        while True:
            k = next(self._numbers)
            prompt = self._prompts[k % len(self._prompts)]
            fresh = self._client.vocab.encode(f"# {k}\n".encode())
            await self._run("prefill", (*prompt[:1], *fresh, *prompt[1:]), 0)

    async def _generate(self) -> None:
        while True:
            await self._run("decode", self._start, 512)

    async def _run(self, name: str, tokens: tuple[int, ...], n_max: int) -> None:
        request = GenerationRequest(self._client.next_id(), tokens, n_max=n_max, priority=Priority.BACKGROUND)
        stream = self._streams[name] = self._client.submit(request)
        while True:
            event = await stream.next()
            if event.text:
                self._says.set()
            if event.finish is not None:
                break
        del self._streams[name]
        if event.finish is FinishReason.ERROR:
            raise BenchError(event.error)
