"""Which engine a server works with, and what the editor is told of it: ways to an engine that a test controls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from inference.clients.http_session import Gone
from inference.config import EngineConfig
from inference.types import EngineError
from inference.wire import EngineState, News
from lsp_server.app import App
from lsp_server.config import Config, Sources
from lsp_server.engines.ways import BySettings, Ears, Here, Opened
from tests.cases.scripted import Model, ScriptedClient
from tests.support.client import Client, in_loop

URI = "file:///w/app/main.py"
READY = {"ready", "error"}


class Scripted:
    """Opens engines in this process as a test says. fails: what the next ones raise, in order; None: it opens."""

    def __init__(self, *fails: Exception | None, name: str = "scripted") -> None:
        self.fails = list(fails)
        self.opened: list[ScriptedClient] = []
        self.asked: list[tuple[EngineConfig, bool]] = []
        self.closed: list[str] = []
        self.ears: Ears
        self.gate = asyncio.Event()
        self.gate.set()
        self.notices: tuple[str, ...] = ()

    async def open(self, config: Config, ears: Ears, *, fresh: bool = False) -> Opened:
        self.asked.append((config.engine, fresh))
        self.ears = ears
        await self.gate.wait()
        if self.fails and (error := self.fails.pop(0)) is not None:
            raise error
        client = ScriptedClient(Model.saying("foo"), config.engine)
        client.model_name = config.engine.model
        self.opened.append(client)

        async def aclose() -> None:
            self.closed.append(client.model_name)
            await client.aclose()

        async def stats() -> dict[str, Any]:
            return {"of": client.model_name}

        return Opened(client, aclose, ("a note",), self.notices, stats)


@asynccontextmanager
async def serving(way: Any, **options: Any) -> AsyncIterator[Client]:
    app = App(Sources(), way)
    async with Client(app.server, app.aclose) as client:
        await client.initialize(options={"model": "m1", "reply_deadline_ms": 0, "cold_budget_ms": 0, **options})
        client.open(URI, "x = ")
        yield client


def states(client: Client) -> list[tuple[str, str]]:
    return [(m["params"]["state"], m["params"]["message"]) for m in client.of_method("midfill/status")]


def shown(client: Client) -> list[str]:
    return [m["params"]["message"] for m in client.of_method("window/showMessage")]


async def state(client: Client, wanted: Callable[[str, str], bool]) -> None:
    await client.until(
        lambda m: m.get("method") == "midfill/status" and wanted(m["params"]["state"], m["params"]["message"])
    )


async def items(client: Client) -> list[Any]:
    answer = await client.inline(URI, 0, 4, invoked=True)
    found: list[Any] = answer["result"]["items"]
    return found


@in_loop
async def test_ready_with_notes_and_notices_once() -> None:
    way = Scripted()
    way.notices = ("a notice", "a notice")
    async with serving(way) as client:
        await state(client, lambda state, _: state == "ready")
        assert ("loading", "loading m1") in states(client)
        assert states(client)[-1] == ("ready", "m1 is ready; a note")
        assert await items(client)
        assert shown(client) == ["midfill: a notice"]
    assert way.closed == ["m1"] and [fresh for _, fresh in way.asked] == [False]


@in_loop
async def test_what_the_engine_tells_is_what_the_editor_is_told() -> None:
    way = Scripted()
    async with serving(way) as client:
        await state(client, lambda state, _: state == "ready")
        way.ears.on_news(News(EngineState.UNLOADED))
        way.ears.on_news(News(EngineState.LOADING, 0.5))
        way.ears.on_news(News(EngineState.READY, 1.0))
        way.ears.on_news(News(EngineState.UNLOADED, why="There is no memory."))
        way.ears.on_news(News(EngineState.READY, 1.0))
        way.ears.on_news(News(EngineState.DRAINING))
        way.ears.on_lost("It has died.", False)
        way.ears.on_lost("It has died.", True)
        await client.settle()
        told = states(client)
        assert told[told.index(("ready", "m1 is ready; a note")) + 1 :] == [
            ("ready", "m1 is not in memory; the next request loads it"),
            ("loading", "loading m1"),
            ("ready", "m1 is ready"),
            ("error", "There is no memory."),
            ("ready", "m1 is ready"),
            ("error", "It has died; the next request that needs it starts it again"),
            ("error", "It has died; it is left alone for a while, unless the command midfill.restartEngine is run"),
        ]
        percents = [m["params"].get("percent") for m in client.of_method("midfill/status")]
        assert percents[told.index(("loading", "loading m1"), 3)] == 50
        assert shown(client) == [f"midfill: {told[-1][1]}"]
        await items(client)
        assert states(client) == told, "a request says that an engine is well which is not"


@in_loop
async def test_a_crash_is_tried_again_at_a_request_and_a_refusal_is_not() -> None:
    crashing = Scripted(Gone("It crashed."), Gone("It crashed."), None)
    async with serving(crashing) as client:
        await state(client, lambda _, message: message == "It crashed.")
        assert await items(client) == []
        assert len(crashing.asked) == 1, "not before the back-off has passed"
        while len(crashing.asked) < 3:
            await items(client)
            await asyncio.sleep(0.02)
        await state(client, lambda state, _: state == "ready")
        assert await items(client)
        assert shown(client) == ["midfill: It crashed."]
    refusing = Scripted(EngineError("pull it"), None)
    async with serving(refusing) as client:
        await state(client, lambda _, message: message == "pull it")
        await asyncio.sleep(0.6)
        assert await items(client) == []
        assert len(refusing.asked) == 1
        assert (await client.command("midfill.explain"))["result"]["reason"] == "pull it"


@in_loop
async def test_restarting_ends_the_old_one_first_and_uses_the_settings_of_now() -> None:
    way = Scripted()
    async with serving(way) as client:
        await state(client, lambda state, _: state == "ready")
        client.notify("workspace/didChangeConfiguration", {"settings": {"midfill": {"n_ctx": 1234}}})
        way.opened[0].gate.clear()
        waits = client.ask_inline(URI, 0, 4, invoked=True)
        while not way.opened[0].unfinished:
            await asyncio.sleep(0.001)
        way.gate.clear()
        restarting = client.ask("workspace/executeCommand", {"command": "midfill.restartEngine"})
        while len(way.asked) < 2:
            way.opened[0].gate.set()
            await asyncio.sleep(0.001)
        assert way.closed == ["m1"] and way.asked[1][1] is True and way.asked[1][0].n_ctx == 1234
        assert "result" in await client.answer(waits)
        assert await items(client) == []
        assert (await client.command("midfill.explain"))["result"]["reason"] == "the engine is being restarted"
        way.gate.set()
        assert (await client.answer(restarting))["result"] == {"ready": True, "model": "m1"}
        assert await items(client)


@in_loop
async def test_restarting_after_a_failure_and_one_that_fails() -> None:
    way = Scripted(EngineError("pull it"), EngineError("pull it"), None)
    async with serving(way) as client:
        await state(client, lambda _, message: message == "pull it")
        told = (await client.command("midfill.restartEngine"))["result"]
        assert told == {"ready": False, "model": "", "reason": "pull it"}
        assert (await client.command("midfill.restartEngine"))["result"]["ready"] is True
        assert await items(client)


@in_loop
async def test_another_model_takes_over_when_it_is_there_and_one_that_fails_changes_nothing() -> None:
    way = Scripted(None, EngineError("there is no m2"), None)
    async with serving(way) as client:
        await state(client, lambda state, _: state == "ready")
        told = (await client.command("midfill.selectModel", "m2"))["result"]
        assert told == {"ready": False, "model": "m1", "reason": "there is no m2"}
        assert states(client)[-1] == ("ready", "m1 is ready") and await items(client)
        way.gate.clear()
        selecting = client.ask("workspace/executeCommand", {"command": "midfill.selectModel", "arguments": ["m3"]})
        while len(way.asked) < 3:
            await asyncio.sleep(0.001)
        assert await items(client) and way.closed == []  # meanwhile the one before goes on
        way.gate.set()
        assert (await client.answer(selecting))["result"] == {"ready": True, "model": "m3"}
        assert way.closed == ["m1"] and await items(client)
        stats = (await client.command("midfill.stats"))["result"]
        assert stats["engine"] == {"of": "m3"} and stats["server"]["model"] == "m3" and stats["server"]["requests"] == 3
        assert (await client.command("midfill.restartEngine"))["result"]["model"] == "m3"  # a restart keeps the choice


@in_loop
async def test_what_select_model_takes() -> None:
    async with serving(Scripted()) as client:
        await state(client, lambda state, _: state == "ready")
        listed = (await client.command("midfill.selectModel"))["result"]
        assert listed["current"] == "m1" and all(set(m) == {"id", "name", "is_on_disk", "bytes"} for m in listed["models"])
        for wrong in (3, "", " ", ["m2"], True):
            assert (await client.command("midfill.selectModel", wrong))["error"]["code"] == -32602


@in_loop
async def test_a_model_whose_layout_is_impossible_leaves_the_one_before() -> None:
    way = Scripted()
    async with serving(way) as client:
        await state(client, lambda state, _: state == "ready")
        way.gate.clear()
        selecting = client.ask("workspace/executeCommand", {"command": "midfill.selectModel", "arguments": ["m2"]})
        while len(way.asked) < 2:
            await asyncio.sleep(0.001)
        original = Model.saying

        def without_fim(*texts: str, **more: Any) -> Model:
            model = original(*texts, **more)
            model.vocab.fim = None  # type: ignore[misc]
            return model

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Model, "saying", without_fim)
            way.gate.set()
            told = (await client.answer(selecting))["result"]
        assert told["ready"] is False and "can't fill in the middle" in told["reason"]
        assert way.closed == ["m2"] and await items(client)


@in_loop
async def test_leaving_while_a_thread_loads_closes_what_it_still_brings() -> None:
    closed = asyncio.Event()
    loop = asyncio.get_running_loop()
    go = asyncio.Event()

    class Late:
        model_name, n_ctx, notices = "late", 512, ()

        async def aclose(self) -> None:
            closed.set()

    def open_here(config: Config, on_progress: Callable[[float], None]) -> Any:
        asyncio.run_coroutine_threadsafe(go.wait(), loop).result(30)
        return Late(), ()

    async with serving(Here(open_here)) as client:
        await state(client, lambda state, _: state == "loading")
    go.set()
    await closed.wait()


@in_loop
async def test_the_settings_choose_the_way() -> None:
    here, shared, elsewhere = Scripted(), Scripted(), Scripted()
    for options in ({}, {"shared_engine": False}, {"engine_url": "http://gpu:1", "shared_engine": False}):
        async with serving(BySettings(here, shared, elsewhere), **options) as client:
            await state(client, lambda state, _: state == "ready")
    assert [len(way.asked) for way in (here, shared, elsewhere)] == [1, 1, 1]


@in_loop
async def test_a_choice_that_failed_is_not_tried_again_by_a_restart() -> None:
    way = Scripted(None, EngineError("there is no m2"), None)
    async with serving(way) as client:
        await state(client, lambda state, _: state == "ready")
        assert (await client.command("midfill.selectModel", "m2"))["result"]["ready"] is False
        assert (await client.command("midfill.restartEngine"))["result"] == {"ready": True, "model": "m1"}
