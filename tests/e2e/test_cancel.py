"""cancel, startup-blocking: neighbours. Every request gets one answer, whenever and however often it is cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from inference.config import EngineConfig
from inference.types import EngineError
from tests.cases.scene import URI, Scene, items_of
from tests.cases.scripted import Model, ScriptedClient
from tests.support.client import CANCELLED, CONTENT_MODIFIED, Json, in_loop, inline_params, span

OTHER = "file:///w/app/b.py"
OPENED: Json = {
    "method": "textDocument/didOpen",
    "params": {"textDocument": {"uri": URI, "languageId": "python", "version": 1, "text": "v = "}},
}


def ask(msg_id: int | str, uri: str = URI) -> Json:
    return {"id": msg_id, "method": "textDocument/inlineCompletion", "params": inline_params(uri, 0, 4)}


def cancel(msg_id: object) -> Json:
    return {"method": "$/cancelRequest", "params": {"id": msg_id}}


@in_loop
async def test_a_cancel_before_its_request_cancels_nothing() -> None:
    async with Scene(Model.saying("1")) as scene:
        scene.feed(OPENED, cancel(5), ask(5))
        (item,) = items_of(await scene.client.answer(5))
        assert item["insertText"] == "v = 1"


@in_loop
async def test_a_cancel_after_the_answer_changes_nothing() -> None:
    async with Scene(Model.saying("1")) as scene:
        scene.feed(OPENED, ask(5))
        items_of(await scene.client.answer(5))
        scene.feed(cancel(5), cancel(5))
        assert await scene.accept(0, 4) == "v = 1"
        assert set(scene.client.answers.values()) == {1}
        assert not scene.logs.above(20)


@pytest.mark.parametrize("params", [None, {}, {"id": None}, {"id": True}, {"id": [1]}, {"id": 1.5}, {"id": "5"}])
@in_loop
async def test_cancels_that_name_nothing_are_passed_over(params: object) -> None:
    async with Scene(Model.saying("1")) as scene:
        scene.scripted.gate.clear()
        scene.feed(OPENED, ask(5), {"method": "$/cancelRequest", "params": params})
        await scene.client.settle()
        scene.scripted.gate.set()
        assert items_of(await scene.client.answer(5))
        assert not scene.logs.above(20)


@in_loop
async def test_an_id_may_be_a_text_and_used_again() -> None:
    async with Scene(Model.saying("1")) as scene:
        scene.scripted.gate.clear()
        scene.feed(OPENED, ask("a"))
        await scene.client.settle()
        scene.feed(cancel("a"))
        assert (await scene.client.answer("a"))["error"]["code"] == CANCELLED
        scene.scripted.gate.set()
        scene.feed(ask("a"))
        await scene.client.until(lambda m: m.get("id") == "a" and "result" in m)
        assert scene.client.answers["a"] == 2


@in_loop
async def test_a_cancelled_request_is_answered_while_the_model_is_inside_a_step() -> None:
    async with Scene(Model.saying("1")) as scene:
        scene.scripted.gate.clear()
        scene.feed(OPENED, ask(5))
        while not scene.n_calls:
            await asyncio.sleep(0.001)
        scene.feed(cancel(5))
        assert (await scene.client.answer(5))["error"]["code"] == CANCELLED  # the gate is still shut
        assert scene.scripted.counters().n_steps == 0


@in_loop
async def test_cancelling_one_document_leaves_the_other_alone() -> None:
    async with Scene(Model.saying("1")) as scene:
        scene.scripted.gate.clear()
        scene.open("v = ")
        scene.open("w = ", OTHER)
        scene.feed(ask(1), ask(2, OTHER))
        await scene.client.settle()
        scene.feed(cancel(1))
        assert (await scene.client.answer(1))["error"]["code"] == CANCELLED
        scene.scripted.gate.set()
        (item,) = items_of(await scene.client.answer(2))
        assert item["insertText"] == "w = 1"


@in_loop
async def test_fifty_in_one_write_cost_one_generation() -> None:
    async with Scene(Model.saying("1")) as scene:
        messages = [message for i in range(50) for message in (ask(i), *([cancel(i)] if i % 3 == 0 else []))]
        scene.scripted.gate.clear()  # the model says nothing before all are there: the fake would be quick enough
        scene.feed(OPENED, *messages, ask(50))
        answers = [await scene.client.answer(i) for i in range(50)]
        scene.scripted.gate.set()
        answers.append(await scene.client.answer(50))
        assert {a["error"]["code"] for a in answers[:-1]} <= {CANCELLED, CONTENT_MODIFIED}
        assert items_of(answers[-1])
        assert [scene.client.answers[i] for i in range(51)] == [1] * 51
        assert scene.n_calls <= 2


@in_loop
async def test_a_generation_that_nobody_wants_any_more_ends() -> None:
    model = Model.saying("foo ", endless=True, step_s=0.001)
    async with Scene(model, {"adopt_ms": 0, "max_tokens": 3000, "n_ctx": 4096}) as scene:
        scene.feed(OPENED, ask(5))
        while scene.scripted.counters().generated < 3:
            await asyncio.sleep(0.001)
        scene.feed(cancel(5))
        await scene.client.answer(5)
        n = scene.scripted.counters().generated
        await scene.idle()
        assert scene.scripted.counters().generated < n + 1000


# --- before the model is there


class Loading:
    """An open_client that waits until the test lets go, and then does what it says."""

    def __init__(self, outcome: Callable[[EngineConfig], Any]) -> None:
        self.gate = threading.Event()
        self._outcome = outcome

    def __call__(self, config: EngineConfig, on_progress: Callable[[float], None]) -> Any:
        on_progress(0.1)
        self.gate.wait()
        return self._outcome(config)


@in_loop
async def test_what_was_typed_while_the_model_loads_is_there_when_it_is_loaded() -> None:
    loading = Loading(lambda config: ScriptedClient(Model.saying("1"), config))
    async with Scene(open_client=loading, wait=False) as scene:
        try:
            scene.open("v\n")
            scene.change({"range": span(0, 1, 0, 1), "text": " = "})
            scene.open("w = ", OTHER)
            assert await scene.ask(0, 4) == [] and await scene.ask(0, 4, uri=OTHER) == []
            assert "loading" in await scene.reason()
            scene.feed(ask(7), cancel(7), ask(8))
            assert {"result", "error"} & set(await scene.client.answer(7))
            assert items_of(await scene.client.answer(8)) == []
        finally:
            loading.gate.set()
        await scene.ready()
        assert await scene.accept(0, 4) == "v = 1\n"
        assert await scene.accept(0, 4, uri=OTHER) == "w = 1"


@in_loop
async def test_a_model_that_can_not_be_loaded_is_told_and_nothing_breaks() -> None:
    def fail(_config: EngineConfig) -> Any:
        raise EngineError("there is no model; pull one")

    loading = Loading(fail)
    loading.gate.set()
    async with Scene(open_client=loading, wait=False) as scene:
        await scene.client.until(lambda m: m.get("method") == "window/showMessage")
        scene.open("v = ")
        assert await scene.ask(0, 4) == []
        assert await scene.reason() == "there is no model; pull one"
        assert "Traceback" not in "".join(scene.logs.above(20))


@in_loop
async def test_the_client_leaves_while_the_model_loads() -> None:
    loading = Loading(lambda config: ScriptedClient(Model.saying("1"), config))
    async with Scene(open_client=loading, wait=False) as scene:
        try:
            scene.open("v = ")
            pending = scene.client.ask_inline(URI, 0, 4)
            assert (await scene.client.request("shutdown"))["result"] is None
            scene.client.notify("exit")
            assert await scene.client.serving == 0
            assert scene.client.answers[pending] == 1
        finally:
            loading.gate.set()
