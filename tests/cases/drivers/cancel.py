"""cancel."""

from __future__ import annotations

import asyncio
import time

from tests.cases import checks, generic
from tests.cases.case import Case
from tests.cases.checks import Played
from tests.cases.drivers.registry import driver
from tests.cases.scene import items_of
from tests.support.client import CANCELLED, CONTENT_MODIFIED, Json


@driver("cancel-01")
async def queue_of_cancelled(case: Case) -> str:
    """In one write; with the engine busy on the first request before the others come; and with a document for each request, so
    that nothing but the cancels keeps them from being executed."""
    told = [await _queue(case, way) for way in ("one write", "busy", "apart")]
    return "; ".join(told)


async def _queue(case: Case, way: str) -> str:
    messages = list(case.input["messages"])
    if way == "apart":
        messages = [_renamed(m, n) for m in messages[:1] for n in range(11, 16)] + [
            _renamed(m, m["id"]) if "id" in m else m for m in messages[1:]
        ]
    async with generic.scene_of(case) as scene:
        started = time.monotonic()
        if way == "busy":
            scene.feed(*messages[:2])
            while not scene.n_calls:
                await asyncio.sleep(0.001)
            await scene.feed_at_once(*messages[2:])
        else:
            await scene.feed_at_once(*messages)
        items_of(await scene.client.answer(15))
        seconds = time.monotonic() - started
        assert seconds < case.limit_s("latency_15_ms_below"), f"{way}: {seconds:.1f} s"
        await scene.client.settle()
        for msg_id in range(11, 15):
            error = (await scene.client.answer(msg_id)).get("error", {})
            assert error.get("code") in (CANCELLED, CONTENT_MODIFIED), f"{way}: {msg_id}: {error}"
        await scene.idle()
        n_answers = {msg_id: scene.client.answers[msg_id] for msg_id in range(11, 16)}
        assert set(n_answers.values()) == {1}, f"{way}: answers by id: {n_answers}"
        checks.check(Played(scene, "", ()), case.expected)
        return f"{way}: {scene.n_calls} engine calls, {seconds * 1000:.0f} ms"


def _renamed(message: Json, number: int) -> Json:
    """The same message about a document of its own."""
    params = message["params"]
    document = {**params["textDocument"], "uri": f"{params['textDocument']['uri']}.{number}.py"}
    return {**message, "params": {**params, "textDocument": document}}


@driver("cancel-02")
async def cancelled_again(case: Case) -> str:
    """Once in one write; once while the engine works; once more when all is over."""
    codes: set[object] = set()
    for at_once in (True, False):
        async with generic.scene_of(case) as scene:
            opened, ask, *cancels = case.input["messages"]
            await scene.feed_at_once(opened, ask, *(cancels if at_once else ()))
            if not at_once:
                while not scene.n_calls:
                    await asyncio.sleep(0.001)
                scene.feed(*cancels)
            answer = await scene.client.answer(ask["id"])
            codes.add(answer.get("error", {}).get("code"))
            assert "result" in answer or answer["error"]["code"] == CANCELLED, f"{answer}"
            await scene.idle()
            scene.feed(*cancels)
            await scene.client.settle()
            assert scene.client.answers[ask["id"]] == 1, f"{scene.client.answers[ask['id']]} answers"
            assert 999 not in scene.client.answers
            assert not scene.logs.above(20), f"warnings: {scene.logs.above(20)}"
    assert CANCELLED in codes, "cancelling ended nothing"
    return "one answer each"
