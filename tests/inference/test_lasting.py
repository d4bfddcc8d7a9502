"""The client of an engine that comes and goes: nothing is asked twice, nobody waits for ever, nothing is started for nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from inference.backoff import Backoff
from inference.clients.http_session import Gone
from inference.clients.lasting import LastingClient
from inference.endpoint import Endpoint
from inference.models.identity import ModelFile, identify
from inference.types import EngineError, FinishReason, GenerationRequest, Priority
from inference.wire import EngineState, News
from tests.inference.test_engine import prompt
from tests.support.served import VOCAB, Served, events, run, serving, text_of, until
from tests.support.tiny_gguf import write_tiny

PROMPT = prompt("def foo():\n    return ")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ModelFile:
    return identify(write_tiny(tmp_path_factory.mktemp("model") / "qwen-tiny.gguf"))


class House:
    """A place where engines on the fake come and go. n_asked: how often one was looked for. why: none is to be had."""

    def __init__(self, home: Path, model: ModelFile) -> None:
        self._home, self._model = home, model
        self._stack = AsyncExitStack()
        self.served: Served | None = None
        self.n_asked = self.n_swept = 0
        self.why: EngineError | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def endpoint(self) -> Endpoint:
        self.n_asked += 1
        await self.gate.wait()
        if self.why is not None:
            raise self.why
        if self.served is None:
            self.served = await self._stack.enter_async_context(
                serving(self._home / str(self.n_asked), model=self._model)
            )
        return Endpoint(socket=self.served.socket)

    async def sweep(self) -> None:
        self.n_swept += 1

    async def die(self) -> None:
        self.served = None
        stack, self._stack = self._stack, AsyncExitStack()  # another may come while this one goes
        await stack.aclose()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Ears:
    def __init__(self) -> None:
        self.news: list[News] = []
        self.lost: list[tuple[str, bool]] = []

    def on_lost(self, why: str, is_hopeless: bool) -> None:
        self.lost.append((why, is_hopeless))


@asynccontextmanager
async def connected(tmp_path: Path, model: ModelFile) -> AsyncIterator[tuple[LastingClient, House, Ears, Clock]]:
    house, ears, clock = House(tmp_path, model), Ears(), Clock()
    client = await LastingClient.connect(
        house, tmp_path / "cache", on_news=ears.news.append, on_lost=ears.on_lost, backoff=Backoff(clock), load=lambda _: VOCAB
    )
    try:
        yield client, house, ears, clock
    finally:
        await client.aclose()
        await house.die()


def ask(client: LastingClient, priority: Priority = Priority.INVOKED, n_max: int = 6) -> Any:
    return client.submit(GenerationRequest(client.next_id(), PROMPT, n_max=n_max, priority=priority))


async def lose(client: LastingClient, house: House) -> None:
    await house.die()
    await until(lambda: not client.is_connected)


def test_the_next_request_looks_for_an_engine_and_waits_for_it(tmp_path: Path, model: ModelFile) -> None:
    async def main() -> None:
        async with connected(tmp_path, model) as (client, house, ears, _):
            revived = []
            client.on_revived = lambda: revived.append(client.n_ctx)
            want = text_of(await events(ask(client)))
            await lose(client, house)
            await until(lambda: house.n_swept)
            await asyncio.sleep(0.05)
            assert house.n_asked == 1, "it was looked for before anybody asked"
            assert [is_hopeless for _, is_hopeless in ears.lost] == [False] and ears.lost[0][0]
            assert await client.n_reusable(PROMPT) == 0 and await client.stats() is None
            streams = [ask(client) for _ in range(3)]
            for stream in streams:
                found = await events(stream)
                assert text_of(found) == want and found[-1].finish is not FinishReason.ERROR
            assert house.n_asked == 2 and revived == [512]
            assert ears.news[-1].state is EngineState.READY
            assert (await client.stats() or b"").startswith(b'{"pid":')

    run(main)


def test_a_request_that_met_a_dying_engine_is_asked_again_and_one_that_was_heard_is_not(
    tmp_path: Path, model: ModelFile
) -> None:
    async def main() -> None:
        async with connected(tmp_path, model) as (client, house, _, _clock):
            want = text_of(await events(ask(client)))
            assert house.served is not None
            house.served.gate.close()
            heard = client.submit(GenerationRequest(client.next_id(), prompt("another one that is new")))
            await until(house.served.gate.entered.is_set)
            link = client._http._link
            holding = link._hold

            is_dead = asyncio.Event()

            async def deaf() -> None:  # the loss is noticed late
                await is_dead.wait()
                await asyncio.sleep(0.1)
                link.lose("It has gone.")

            for task in link._tasks:
                if task.get_coro().__qualname__ == holding.__qualname__:  # type: ignore[union-attr]
                    task.cancel()
            link.spawn(deaf())
            await house.die()
            is_dead.set()
            unheard, cancelled = ask(client), ask(client)
            cancelled.cancel()
            assert client.is_connected, "the test is too slow to show anything"
            assert text_of(await events(unheard)) == want
            assert (await events(cancelled))[-1].finish is FinishReason.CANCELLED
            n_before = client.counters().n_steps
            await events(heard)  # ended as it did when its engine went
            assert house.n_asked == 2 and client.counters().n_steps == n_before

    run(main)


def test_nobody_waits_for_what_is_prepared(tmp_path: Path, model: ModelFile) -> None:
    async def main() -> None:
        async with connected(tmp_path, model) as (client, house, _, _clock):
            await lose(client, house)
            for priority in (Priority.PREFETCH, Priority.BACKGROUND):
                (event,) = await events(ask(client, priority))
                assert event.finish is FinishReason.ERROR and event.error
            assert house.n_asked == 1

    run(main)


def test_back_off_and_the_reason_until_it_may_be_tried_again(tmp_path: Path, model: ModelFile) -> None:
    async def main() -> None:
        async with connected(tmp_path, model) as (client, house, ears, clock):
            assert (await events(ask(client)))[-1].finish is not FinishReason.ERROR
            await lose(client, house)
            house.why = Gone("It crashed.")
            for n in range(3):
                (event,) = await events(ask(client))
                assert event.error == "It crashed."
                assert house.n_asked == 2 + n
                clock.now += 10
            assert ears.lost[-1] == ("It crashed.", True) and [hopeless for _, hopeless in ears.lost[:-1]] == [False] * 3
            assert house.n_swept == 4
            house.why = None
            clock.now -= 5
            (event,) = await events(ask(client))
            assert event.error == "It crashed; it is tried again in 25 s, or by midfill.restartEngine."
            assert house.n_asked == 4
            clock.now += 25
            assert (await events(ask(client)))[-1].finish is not FinishReason.ERROR
            await lose(client, house)
            house.why = Gone("It crashed.")
            assert (await events(ask(client)))[-1].error == "It crashed."
            assert ears.lost[-1] == ("It crashed.", False), "it has served: what was before is forgotten"
            assert client._backoff.wait_s() == 0.5

    run(main)


def test_engines_that_die_before_they_served_anybody_are_failures(tmp_path: Path, model: ModelFile) -> None:
    async def main() -> None:
        async with connected(tmp_path, model) as (client, house, ears, clock):
            for n in range(3):
                await lose(client, house)
                if n < 2:
                    clock.now += 5
                    await client._revived()
                    assert client.is_connected
            assert [hopeless for _, hopeless in ears.lost] == [False, False, True]

    run(main)


def test_a_request_that_waits_can_be_cancelled_and_closing_ends_the_rest(tmp_path: Path, model: ModelFile) -> None:
    async def main() -> None:
        async with connected(tmp_path, model) as (client, house, _, _clock):
            await lose(client, house)
            house.gate.clear()
            cancelled, waits = ask(client), ask(client)
            await until(lambda: house.n_asked == 2)
            cancelled.cancel()
            cancelled.cancel()
            (event,) = await events(cancelled)
            assert event.finish is FinishReason.CANCELLED
            await client.aclose()
            house.gate.set()
            found = await asyncio.wait_for(events(waits), 10)
            assert found[-1].finish in (FinishReason.ERROR, FinishReason.CANCELLED)

    run(main)


@pytest.mark.parametrize("somebody_asks", [True, False])
def test_one_that_drains_is_followed_by_another_at_once(tmp_path: Path, model: ModelFile, somebody_asks: bool) -> None:
    async def main() -> None:
        async with connected(tmp_path, model) as (client, house, ears, _):
            assert house.served is not None
            async with house.served.session() as session:
                (await session.post("/midfill/drain", data=b"{}")).close()
            await until(lambda: client.news.state is EngineState.DRAINING)
            streams = [ask(client)] if somebody_asks else []  # not for the one that drains
            await asyncio.sleep(0.05)
            assert house.n_asked == 1
            await house.die()
            for stream in streams:
                assert (await events(stream))[-1].finish is not FinishReason.ERROR
            await until(lambda: client.is_connected)
            assert house.n_asked == 2 and ears.lost == []

    run(main)
