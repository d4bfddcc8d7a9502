"""startup-blocking."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from inference.config import EngineConfig
from tests.cases.case import Case
from tests.cases.drivers.registry import driver
from tests.cases.scene import Scene, items_of
from tests.cases.scripted import Model, ScriptedClient
from tests.cases.server_process import ServerProcess

_FACTOR = 5  # limits of a second or more are asserted at this many times their value
_LONGER = 30


@driver("startup-blocking-01")
async def slow_load(case: Case) -> str:
    """A process whose model takes that long and longer, so that a busy machine does not come to its end, in native code that
    can't be interrupted. Its own start is not counted: a request before `initialize` is refused, and tells that it reads."""
    with ServerProcess("slow-load", str(_LONGER * case.input["setup"]["model_load_s"])) as server:
        server.ask(100, "midfill/nothing", {})
        server.answer(100)
        started = time.monotonic()
        server.initialize(0)
        server.answer(0)
        initialize_s = time.monotonic() - started
        assert initialize_s < case.limit_s("initialize_reply_ms_below"), f"{initialize_s:.1f} s"
        server.notify("initialized", {})
        server.status("loading")
        opened, ask = (m for m in case.input["messages"] if isinstance(m, dict))
        server.send(opened, ask)
        answer = server.answer(ask["id"])
        assert items_of(answer) == [], f"{answer}"
        server.ask(3, "workspace/executeCommand", {"command": "midfill.explain", "arguments": []})
        reason = server.answer(3)["result"]["reason"]
        assert "loading" in reason, reason
        started = time.monotonic()
        server.ask(4, "shutdown")
        assert server.answer(4)["result"] is None
        server.notify("exit")
        code = server.ended()
        seconds = time.monotonic() - started
        assert seconds < 3 * _FACTOR, f"the process ended {seconds:.1f} s after shutdown"
        assert code == 0, f"exit code {code}"
        server.check_frames()
    return f"initialize {initialize_s * 1000:.0f} ms, end {seconds * 1000:.0f} ms"


@driver("startup-blocking-02")
async def silent_client(case: Case) -> str:
    """The client never answers the token, nor what its settings are. Counted: everything is answered while the two lie open."""
    gate = threading.Event()

    def open_client(config: EngineConfig, on_progress: Callable[[float], None]) -> Any:
        on_progress(0.5)
        gate.wait()
        return ScriptedClient(Model.saying("1\n"), config)

    opened, ask = (m for m in case.input["messages"] if isinstance(m, dict))
    scene = Scene(
        open_client=open_client, wait=False, capabilities={"window": {"workDoneProgress": True}}, agrees_to_progress=False
    )
    async with scene:
        try:
            asked = await scene.client.until(lambda m: m.get("method") == "window/workDoneProgress/create")
            scene.feed(opened, ask)
            assert items_of(await scene.client.answer(ask["id"])) == []
            uri = opened["params"]["textDocument"]["uri"]
            assert scene.server_text(uri) == "a = ", "didOpen waits"
            assert not scene.client.of_method("$/progress"), "progress without the client's consent"
        finally:
            gate.set()
        await scene.ready()
        assert await scene.ask(0, 4, uri=uri), "the model is there, but nothing comes"
        # far too late, and once more when its future was cancelled by the shutdown
        scene.client.send({"id": asked["id"], "result": None})
        await scene.client.settle()
        await scene.client.request("shutdown")
        scene.client.send({"id": asked["id"], "result": None}, {"id": "never-asked", "result": None})
        scene.client.notify("exit")
        assert await scene.client.serving == 0
        assert not scene.logs.above(20), f"{scene.logs.above(20)}"
    return await _cancelled_before_the_answer(opened)


async def _cancelled_before_the_answer(opened: Any) -> str:
    """The shutdown comes while the token is unanswered: its future is cancelled, and then the answer comes."""
    gate = threading.Event()

    def open_client(config: EngineConfig, _on_progress: Callable[[float], None]) -> Any:
        gate.wait()
        return ScriptedClient(Model.saying("1\n"), config)

    scene = Scene(
        open_client=open_client, wait=False, capabilities={"window": {"workDoneProgress": True}}, agrees_to_progress=False
    )
    async with scene:
        try:
            asked = await scene.client.until(lambda m: m.get("method") == "window/workDoneProgress/create")
            scene.feed(opened)
            assert (await scene.client.request("shutdown"))["result"] is None
            scene.client.send({"id": asked["id"], "result": None})
            scene.client.notify("exit")
            code = await scene.client.serving
        finally:
            gate.set()
        assert code == 0
        assert not scene.logs.above(20), f"{scene.logs.above(20)}"
    return "answered while the token is open; the late answer is passed over"
