"""Status notifications and progress, whatever the client does about them."""

from __future__ import annotations

import pytest

from lsp_server.status import State
from tests.lsp_server.conftest import House, build
from tests.support.client import Client, in_loop

PROGRESS = {"window": {"workDoneProgress": True}}


def kinds(client: Client) -> list[str]:
    return [message["params"]["value"]["kind"] for message in client.of_method("$/progress")]


def states(client: Client) -> list[dict[str, object]]:
    return [message["params"] for message in client.of_method("midfill/status")]


@in_loop
async def test_nothing_is_sent_before_initialized(house: House) -> None:
    async with house.client() as client:
        await client.initialize(initialized=False)
        house.status.set(State.LOADING, "loading")
        await client.settle()
        assert states(client) == []
        client.notify("initialized", {})
        await client.settle()
        assert states(client) == [{"state": "loading", "message": "loading"}]


@in_loop
async def test_each_state_once(house: House) -> None:
    async with house.client() as client:
        await client.initialize()
        await client.settle()
        for percent in (1.2, 1.7, 250):
            house.status.set(State.DOWNLOADING, "getting it", percent)
        house.status.set(State.READY, reason="paused until noon")
        await client.settle()
        assert states(client) == [
            {"state": "starting", "message": "starting"},
            {"state": "downloading", "message": "getting it", "percent": 1},
            {"state": "downloading", "message": "getting it", "percent": 100},
            {"state": "ready", "message": "", "reason": "paused until noon"},
        ]
        assert not client.of_method("window/workDoneProgress/create")


@in_loop
async def test_progress_from_begin_to_end(house: House) -> None:
    async with house.client() as client:
        await client.initialize(capabilities=PROGRESS)
        house.status.set(State.LOADING, "loading", 0)
        await client.until(lambda m: m.get("method") == "window/workDoneProgress/create")
        await client.settle()
        await client.settle()
        house.status.set(State.LOADING, "loading", 50)
        house.status.set(State.READY, "ready")
        house.status.set(State.THINKING)
        house.status.set(State.DOWNLOADING, "again")
        await client.settle()
        await client.settle()
        assert kinds(client) == ["begin", "report", "end", "begin"]
        tokens = [message["params"]["token"] for message in client.of_method("$/progress")]
        assert tokens[0] == tokens[1] == tokens[2] != tokens[3]


@in_loop
async def test_the_client_agrees_after_the_end(caplog: pytest.LogCaptureFixture) -> None:
    house = build()
    async with house.client(agrees_to_progress=False) as client:
        await client.initialize(capabilities=PROGRESS)
        house.status.set(State.LOADING, "loading")
        asked = await client.until(lambda m: m.get("method") == "window/workDoneProgress/create")
        house.status.set(State.READY, "ready")
        client.send({"id": asked["id"], "result": None})
        await client.settle()
        assert kinds(client) == []
    assert not caplog.records


@pytest.mark.parametrize("answer", [None, {"error": {"code": -32601, "message": "no"}}])
@in_loop
async def test_the_client_never_agrees(answer: dict[str, object] | None) -> None:
    house = build()
    async with house.client(agrees_to_progress=False) as client:
        await client.initialize(capabilities=PROGRESS)
        house.status.set(State.LOADING, "loading")
        asked = await client.until(lambda m: m.get("method") == "window/workDoneProgress/create")
        if answer is not None:
            client.send({"id": asked["id"], **answer})
        house.status.set(State.LOADING, "loading", 10)
        house.status.set(State.ERROR, "no model")
        await client.settle()
        assert kinds(client) == []
        assert states(client)[-1] == {"state": "error", "message": "no model"}
        assert await client.shutdown() == 0
