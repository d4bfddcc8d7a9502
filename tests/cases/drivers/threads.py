"""thread-safety."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from inference.config import EngineConfig
from tests.cases import generic
from tests.cases.case import Case
from tests.cases.drivers.registry import driver
from tests.cases.scene import URI, Scene, items_of
from tests.cases.scripted import Model, ScriptedClient
from tests.support.client import CANCELLED, CONTENT_MODIFIED


@driver("thread-safety-01")
async def one_thread(case: Case) -> str:
    """The fake backend refuses to be entered twice at once; which threads entered it is kept beside."""
    n_times = 5
    async with generic.scene_of(case) as scene:
        scene.model.step_s = 0.002  # long enough for somebody else to come in
        for turn in range(n_times):
            messages = [{**m, "id": m["id"] + 100 * turn} if "id" in m else m for m in case.input["messages"]]
            ids = scene.feed(*messages)
            assert len(ids) == 8
            for msg_id in ids:
                answer = await scene.client.answer(msg_id)
                assert "result" in answer or answer["error"]["code"] in (CANCELLED, CONTENT_MODIFIED), f"{answer}"
            for msg_id in ids[-2:]:  # nobody came after these
                items_of(await scene.client.answer(msg_id))
        await scene.idle()
        assert len(scene.scripted.threads) == 1, f"{len(scene.scripted.threads)} threads entered the engine"
        assert not scene.logs.above(20), f"{scene.logs.above(20)}"
        scene.open("c = ", "file:///w/app/c.py")
        await scene.ask(0, 4, uri="file:///w/app/c.py")
    return f"{8 * n_times} answers, one thread"


@driver("thread-safety-02")
async def two_clients(case: Case) -> str:
    """Two servers on one engine. Counted, not timed: the model's steps from A's end to B's answer, and A's tokens."""
    shared: list[ScriptedClient] = []

    def open_client(config: EngineConfig, _on_progress: Callable[[float], None]) -> Any:
        if not shared:
            shared.append(ScriptedClient(Model.saying("foo foo ", endless=True, step_s=0.005), config))
        return shared[0]

    n_longest = 1000
    options = {"max_tokens": n_longest, "n_ctx": 2048, "adopt_ms": 0}
    a, b = Scene(options=options, open_client=open_client), Scene(options={**options, "max_tokens": 8}, open_client=open_client)
    async with a, b:
        engine, vocab = shared[0], shared[0].model.vocab
        a.open("a = ")
        long = a.client.ask_inline(URI, 0, 4, invoked=True)
        while engine.counters().generated < 3:
            await asyncio.sleep(0.002)
        b.open("bar = ")
        short = b.client.ask_inline(URI, 0, 6, invoked=True)
        while len(engine.typing) < 2:
            await asyncio.sleep(0.001)
        engine.gate.clear()  # the model waits for the cancel, as it does not on a machine that lets everybody run at once
        a.client.cancel(long)
        assert (await a.client.answer(long))["error"]["code"] == CANCELLED
        n_before = engine.counters().n_steps
        engine.gate.set()
        items_of(await b.client.answer(short))
        n_steps = engine.counters().n_steps - n_before
        request = engine.typing[1]
        n_own = len(request.tokens) + len(vocab.encode(request.heal)) + 8
        assert n_steps <= n_own, f"B took {n_steps} steps; alone it takes at most {n_own}"
        await b.idle()
        n_rows = engine.counters().generated
        assert n_rows < n_longest // 2, f"A's generation went on for {n_rows} tokens"
        # nothing holds the engine any more
        b.open("c = ", "file:///w/app/c.py")
        items_of(await b.client.inline("file:///w/app/c.py", 0, 4, invoked=True))
    return f"B answered {n_steps} steps after A was cancelled"
