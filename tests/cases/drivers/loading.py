"""model-load: through the door by which the product opens models, on tiny real ones."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import llama_cpp

from inference.clients.base import EngineClient
from inference.config import EngineConfig
from lsp_server import app
from tests.cases.case import Case
from tests.cases.drivers.registry import driver
from tests.cases.scene import URI, Scene, items_of
from tests.cases.server_process import ServerProcess
from tests.support.client import Json
from tests.support.tiny_gguf import write_tiny

TINY: Json = {
    "n_threads": 1, "prefill_ms_per_token": 1.0, "step_ms": 1.0, "n_ctx": 512, "max_tokens": 8, "typed_through": False,
    "adopt_ms": 0,
}  # fmt: skip
ERROR, WARNING = 1, 2  # MessageType


@contextmanager
def own_home() -> Iterator[Path]:
    """A folder for models, caches and settings."""
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, {f"XDG_{name}_HOME": folder for name in ("CACHE", "DATA", "CONFIG")}),
    ):
        yield Path(folder)


@contextmanager
def cpu_only() -> Iterator[None]:
    """llama.cpp as it is built without any GPU back end. (Where that is how it is built, nothing changes.)"""
    with mock.patch.object(llama_cpp, "llama_supports_gpu_offload", lambda: False):
        yield


class Opener:
    """The product's own way to open a model. n: how often it was asked to."""

    def __init__(self) -> None:
        self.n = 0

    def __call__(self, config: EngineConfig, on_progress: Callable[[float], None]) -> EngineClient:
        self.n += 1
        return app.open_local(config, on_progress)


def shown(scene: Scene) -> list[tuple[int, str]]:
    """Kind and text of every message to the user."""
    params = [message["params"] for message in scene.client.of_method("window/showMessage")]
    return [(each["type"], each["message"]) for each in params]


async def generates(scene: Scene) -> int:
    """Ask at a few places; tokens generated. What the model says is noise, and may be nothing to offer."""
    n = 0
    for i in range(3):
        uri = f"file:///w/app/m{i}.py"
        scene.open(f"import name\nvalue_{i} = ", uri)
        await scene.ask(1, 10, uri=uri, invoked=True)
        n += (await scene.client.command("midfill.explain"))["result"]["n_generated_tokens"]
    return n


@driver("model-load-01")
async def gpu_asked_for(case: Case) -> str:
    """Asked for in the editor's options, in its settings, or in the file; with -1 and with a number. Whoever sets nothing,
    or 0, asks for nothing and is told nothing."""
    first, second = case.input["setup"]["variants"]
    (name,) = set(first) - {"build"}
    assert first["build"] == "cpu-only"
    told = ""
    with own_home() as home, cpu_only():
        model = write_tiny(home / "tiny.gguf")
        calm = {**TINY, "model": str(model)}
        for asked in ({name: first[name]}, {name: 20}, {name: 0}, {}):
            async with Scene(options={**calm, **asked}, open_client=Opener()) as scene:
                assert await generates(scene) > 0, "no completions"
                n = int(bool(asked.get(name)))
                warnings = shown(scene)
                assert len(warnings) == n, f"{asked}: {warnings}"
                logged = [line for line in scene.logs.above(20) if name in line]
                assert len(logged) == n, f"{asked}: logged {logged}"
                for kind, told in warnings:
                    assert kind == WARNING and f"{name} is {asked[name]}" in told and "CPU" in told, told
                # nobody is told again
                scene.client.notify("workspace/didChangeConfiguration", {"settings": {"midfill": {"max_tokens": 9}}})
                assert await generates(scene) > 0
                assert len(shown(scene)) == n, f"{shown(scene)}"
        async with Scene(options=calm, open_client=Opener(), capabilities={"workspace": {"configuration": True}},
                         configuration=[{name: first[name]}]) as scene:  # fmt: skip
            await scene.client.settle()
            assert [kind for kind, _ in shown(scene)] == [WARNING], f"from the editor's settings: {shown(scene)}"
        settings = home / "midfill.toml"
        settings.write_text(f'model = "{model}"\n{name} = {first[name]}\n')
        with ServerProcess("real", first["build"], MIDFILL_CONFIG=str(settings)) as server:
            server.initialize(0, options=TINY)
            server.notify("initialized", {})
            server.status("ready")
            server.ask(1, "shutdown")
            server.answer(1)
            server.notify("exit")
            assert server.ended() == 0
            from_file = [m["params"] for m in server.check_frames() if m.get("method") == "window/showMessage"]
            assert [m["type"] for m in from_file] == [WARNING] and name in from_file[0]["message"], f"{from_file}"
            assert server.errors.count(f"{name} is") == 1, server.errors[-600:]
        (misspelt,) = second["config"]
        async with Scene(options={**calm, **second["config"]}, open_client=Opener()) as scene:
            ((kind, problem),) = shown(scene)
            assert kind == WARNING and f"'{misspelt}'" in problem and f"'{name}'" in problem, problem
            messages = scene.client.messages
            places = [next(i for i, m in enumerate(messages) if is_it(m)) for is_it in (_is_shown, _is_ready)]
            assert places == sorted(places), "told only when the model is there"
            assert await generates(scene) > 0
    return told


def _is_shown(message: Json) -> bool:
    return message.get("method") == "window/showMessage"


def _is_ready(message: Json) -> bool:
    return message.get("method") == "midfill/status" and message["params"]["state"] == "ready"


def spoilt_models(case: Case, home: Path) -> dict[str, Path]:
    """The files of the case, by what the case calls them."""
    sound = write_tiny(home / "sound.gguf").read_bytes()
    paths = {}
    for what in case.input["setup"].split("; "):
        path = paths[what] = home / f"{what.split()[0]}-{len(paths)}.gguf"
        cut = re.fullmatch(r"model file cut at (\d+) %", what)
        if cut is not None:
            path.write_bytes(sound[: len(sound) * int(cut[1]) // 100])
        elif what == "directory":
            path.mkdir()
        elif what != "missing path":
            path.write_bytes({"empty file": b"", "text file named .gguf": b"a model, honestly\n" * 100}[what])
    return paths


async def check_refused(path: Path, *, n_requests: int = 4) -> str:
    """One message with the path; everything is answered, empty, with the reason; nobody tries again. Returns the message."""
    opener = Opener()
    scene = Scene(options={**TINY, "model": str(path)}, open_client=opener, wait=False)
    async with scene:
        news = await scene.client.until(lambda m: m.get("method") == "midfill/status" and m["params"]["state"] == "error")
        await scene.client.settle()
        assert len(shown(scene)) == 1, f"messages: {shown(scene)}"
        ((kind, message),) = shown(scene)
        assert kind == ERROR and str(path) in message, f"{message!r}"
        assert news["params"]["message"] in message, f"{news}"
        assert message.endswith(".") and "\n" not in message, f"{message!r}"
        scene.open("a = \n")
        for i in range(n_requests):
            scene.change({"text": f"a{i} = \n"})
            assert await scene.ask(0, 5, uri=URI, invoked=bool(i % 2)) == []
            reason = await scene.reason()
            assert str(path) in reason, reason
        scene.client.notify("workspace/didChangeConfiguration", {"settings": {"midfill": {"max_tokens": 9}}})
        await scene.client.settle()
        assert scene.server_text() == scene.texts[URI]
        assert len(shown(scene)) == 1, f"told again: {shown(scene)}"
        states = [m["params"]["state"] for m in scene.client.of_method("midfill/status")]
        assert states.count("loading") <= 2 and states[-1] == "error", f"{states}"
        assert opener.n == 1, f"tried {opener.n} times"
        assert "AttributeError" not in scene.logs.text and "Traceback" not in scene.logs.text, scene.logs.text[-600:]
        assert await scene.client.shutdown() == 0
    return message


@driver("model-load-02")
async def spoilt(case: Case) -> str:
    """Each in this process, and as a process of its own, so that a crash in native code is seen as one."""
    told = []
    with own_home() as home:
        paths = spoilt_models(case, home)
        assert len(paths) == 5
        for path in paths.values():
            told.append(await check_refused(path))
            with ServerProcess("real", MIDFILL_LOG="debug") as server:
                server.initialize(0, options={**TINY, "model": str(path)})
                server.notify("initialized", {})
                server.status("error")
                server.ask_inline(1, URI, 0, 0)
                assert items_of(server.answer(1)) == []
                server.ask(2, "shutdown")
                server.answer(2)
                server.notify("exit")
                assert server.ended() == 0, "the process did not end in order"
                messages: list[Any] = server.check_frames()
                n_shown = sum(map(_is_shown, messages))
                assert n_shown == 1, f"{path.name}: {n_shown} messages"
                assert "AttributeError" not in server.errors and "Traceback" not in server.errors, server.errors[-600:]
    assert len(set(told)) == len(told)
    return f"{len(told)} files refused, each with its own sentence"
