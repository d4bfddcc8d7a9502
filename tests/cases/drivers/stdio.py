"""stdio-pollution: on a tiny real model, so that llama.cpp itself runs in the server's process."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tests.cases.case import Case
from tests.cases.drivers.registry import driver
from tests.cases.scene import items_of
from tests.cases.server_process import ServerProcess
from tests.support.client import Json
from tests.support.tiny_gguf import write_tiny

SETTINGS: Json = {
    "n_threads": 1, "n_gpu_layers": 0, "prefill_ms_per_token": 1.0, "step_ms": 1.0, "n_ctx": 512, "max_tokens": 8,
    "reply_deadline_ms": 0, "cold_budget_ms": 0,
}  # fmt: skip


@driver("stdio-pollution-01")
async def noise_everywhere(case: Case) -> str:
    """`initialized` is sent although the case leaves it out: the model is loaded behind it."""
    opened, ask = (m for m in case.input["messages"] if isinstance(m, dict))
    with tempfile.TemporaryDirectory() as folder:
        path = write_tiny(Path(folder) / "tiny.gguf")
        with ServerProcess("noisy", str(path), MIDFILL_LOG="debug") as server:
            server.initialize(0, options={**SETTINGS, "model": str(path)})
            server.answer(0)
            server.notify("initialized", {})
            server.status("ready")
            server.send(opened, ask)
            server.answer(ask["id"])
            server.ask(2, "shutdown")
            server.answer(2)
            server.notify("exit")
            assert server.ended() == 0
            messages = server.check_frames()
            items_of(next(m for m in messages if m.get("id") == ask["id"]))
            errors = server.errors
            assert "made safe" not in errors, "native code was loaded before descriptor 1 was made safe"
            for place in ("a handler", "the engine", "the load"):
                for source in ("print", "C"):
                    assert f"noise from {source} in {place}\n" in errors, f"{source} in {place} never printed, or is lost"
            assert "noise from llama.cpp: " in errors, "the native log never printed, or is lost"
            return f"{len(messages)} frames in {len(server.raw)} bytes, {errors.count('noise')} noises beside"


@driver("stdio-pollution-02")
async def redirected_descriptors(case: Case) -> str:
    """The worker stands inside its native call, which redirects descriptors 1 and 2, until all round trips are done. Each
    brings a setting that does not exist, so that the server's message about it must come back, in order."""
    opened, ask = (m for m in case.input["messages"] if isinstance(m, dict))
    n_trips = 50
    with tempfile.TemporaryDirectory() as folder:
        path, gate = write_tiny(Path(folder) / "tiny.gguf"), Path(folder) / "gate"
        os.mkfifo(gate)
        with ServerProcess("gated", str(path), MIDFILL_TEST_GATE=str(gate)) as server:
            server.initialize(0, options={**SETTINGS, "model": str(path)}, workspace={"configuration": True})
            server.answer(0)
            server.notify("initialized", {})
            _answer_configuration(server, 1, {})
            server.status("ready")
            server.send(opened, ask)
            server.status("thinking")
            for i in range(1, n_trips + 1):
                server.notify("workspace/didChangeConfiguration", {"settings": None})
                _answer_configuration(server, i + 1, {f"strange_{i}": 1})
                server.until(lambda m, i=i: _tells(m, f"'strange_{i}'"), f"message {i}")  # type: ignore[misc]
                server.ask(1000 + i, "workspace/executeCommand", {"command": "midfill.explain"})
            for i in range(1, n_trips + 1):
                server.answer(1000 + i)
            assert not any(m.get("id") == ask["id"] and "method" not in m for m in server.messages), "it did not generate"
            with gate.open("wb") as pipe:
                pipe.write(b"g")
            items_of(server.answer(ask["id"]))
            server.ask(2, "shutdown")
            server.answer(2)
            server.notify("exit")
            assert server.ended() == 0
            messages = server.check_frames()
            told = [int(m["params"]["message"].split("strange_")[1].split("'")[0]) for m in messages if _tells(m, "'strange_")]
            lost = sum(number != i for i, number in enumerate(told, 1)) + abs(len(told) - n_trips)
            answers = [m["id"] for m in messages if "method" not in m and m["id"] >= 1000]
            lost += sum(a != b for a, b in zip(answers, range(1001, 1001 + n_trips), strict=True))
            assert lost == case.expected["lost_or_reordered_messages"], f"{lost} lost or out of order"
            return f"{n_trips} round trips, {len(told) + len(answers)} messages in order"


def _answer_configuration(server: ServerProcess, n: int, settings: Json) -> None:
    """Answer the n-th question about settings."""

    def is_nth(message: Json) -> bool:
        asked = [m for m in server.messages if m.get("method") == "workspace/configuration"]
        return len(asked) >= n and message == asked[n - 1]

    question = server.until(is_nth, f"question {n} about settings")
    server.send({"id": question["id"], "result": [settings]})


def _tells(message: Json, part: str) -> bool:
    return message.get("method") == "window/showMessage" and part in message["params"]["message"]
