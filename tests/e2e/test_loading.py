"""model-load: neighbours. A file that is no model, or not all of one, is named in one sentence, and the server goes on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from inference.config import EngineConfig
from inference.llama import opening, room
from inference.memory_free import Free
from lsp_server import app
from tests.cases.drivers.loading import TINY, WARNING, Opener, check_refused, cpu_only, generates, own_home, shown
from tests.cases.scene import Scene
from tests.support.client import in_loop
from tests.support.tiny_gguf import write_tiny


def spoil(kind: str, home: Path) -> Path:
    path = home / "spoilt model é.gguf"
    sound = write_tiny(home / "sound.gguf")
    data = sound.read_bytes()
    if kind == "a loop":
        path.symlink_to(path)
    elif kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a dangling link":
        path.symlink_to(home / "nowhere.gguf")
    elif kind == "inside a file":
        path = sound / "model.gguf"
    else:
        path.write_bytes({
            "cut in the magic": data[:3], "cut in the header": data[:2000], "cut by a byte": data[:-1],
            "zeros": bytes(len(data)), "another version": data[:4] + b"\xff" + data[5:],
            "LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n",
            "damaged counts": data[:8] + b"\xff" * 16 + data[24:], "HTML": b"<!DOCTYPE html><html>404</html>",
        }[kind])  # fmt: skip
    return path


@pytest.mark.parametrize(
    "kind",
    [
        "a loop", "a pipe", "a dangling link", "inside a file", "cut in the magic", "cut in the header", "cut by a byte",
        "zeros", "another version", "LFS pointer", "damaged counts", "HTML",
    ],
)  # fmt: skip
@in_loop
async def test_files_that_are_no_model(kind: str) -> None:
    with own_home() as home:
        await check_refused(spoil(kind, home), n_requests=2)


@pytest.mark.parametrize("share", [5, 30, 60, 99])
@in_loop
async def test_a_file_that_is_cut_while_it_is_opened(share: int) -> None:
    """The header was looked at; what llama.cpp then finds is less. It refuses, and nothing crashes."""
    with own_home() as home:
        path = write_tiny(home / "tiny.gguf")
        plan = opening.plan_room

        def plan_and_cut(config: EngineConfig, path: Path, name: str) -> Any:
            planned = plan(config, path, name)
            os.truncate(path, path.stat().st_size * share // 100)
            return planned

        with mock.patch.object(opening, "plan_room", plan_and_cut):
            message = await check_refused(path, n_requests=2)
        assert "truncated or damaged" in message, message


@in_loop
async def test_a_model_that_is_spoilt_says_so_once_and_a_sound_one_of_any_name_loads() -> None:
    with own_home() as home:
        for name in ("plain.gguf", "with a blank.gguf", "日本 é.gguf", "no-extension"):
            path = write_tiny(home / name)
            async with Scene(options={**TINY, "model": str(path)}, open_client=Opener()) as scene:
                assert await generates(scene) > 0, name
                assert shown(scene) == [] and not scene.logs.above(20)


@in_loop
async def test_a_fault_of_ours_while_loading_names_the_model_and_ends_nothing() -> None:
    def broken(*_: Any) -> Any:
        raise AttributeError("a fault of ours")

    scene = Scene(options={"model": "/m/x.gguf"}, open_client=broken, wait=False)
    async with scene:
        await scene.client.until(lambda m: m.get("method") == "midfill/status" and m["params"]["state"] == "error")
        await scene.client.settle()
        ((_, message),) = shown(scene)
        assert "/m/x.gguf" in message and "AttributeError" in message
        scene.open("a = ")
        assert await scene.ask(0, 4) == []
        assert "/m/x.gguf" in await scene.reason()


@in_loop
async def test_a_gpu_that_is_there_is_used_without_a_word() -> None:
    """What llama.cpp is given, and that a build with a GPU brings no warning: the warning is about what is missing."""
    given: list[int] = []

    def open_local(config: Any, on_progress: Any) -> Any:
        from inference.llama import model

        open_model = model.open_model

        def noted(path: Path, *, n_gpu_layers: int, **options: Any) -> Any:
            given.append(n_gpu_layers)
            return open_model(path, n_gpu_layers=0, **options)

        with mock.patch.object(model, "open_model", noted):
            return app.open_local(config, on_progress)

    with own_home() as home, mock.patch("llama_cpp.llama_supports_gpu_offload", lambda: True):
        path = write_tiny(home / "tiny.gguf")
        for asked in ({"n_gpu_layers": 7}, {"n_gpu_layers": -1}, {"n_gpu_layers": 0}, {}):
            async with Scene(options={**TINY, "model": str(path), **asked}, open_client=open_local) as scene:
                await scene.client.settle()
                assert shown(scene) == [] and not scene.logs.above(20)
    assert given == [7, -1, 0, -1]


@in_loop
async def test_each_server_tells_once_whatever_it_is_asked_for() -> None:
    with own_home() as home, cpu_only():
        path = write_tiny(home / "tiny.gguf")
        for asked in (1, 99, -1):
            options = {**TINY, "model": str(path), "engine": {"nGpuLayers": asked}}
            async with Scene(options=options, open_client=Opener()) as scene:
                await scene.client.settle()
                ((kind, message),) = shown(scene)
                assert kind == WARNING and f"n_gpu_layers is {asked}," in message


@pytest.mark.parametrize("asked", [{}, {"kv_type": "q8_0", "flash_attention": "off"}])
@in_loop
async def test_less_than_was_asked_for_is_told_once(monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]) -> None:
    """Little memory, and settings that exclude each other: completions come, and each sentence is shown once."""
    monkeypatch.setattr(room, "look_free", lambda devices: Free(96_000_000, 96_000_000, None, devices))
    with own_home() as home:
        options = {**TINY, **asked, "model": str(write_tiny(home / "m.gguf", n_ctx=8192)), "n_ctx": 4096}
        async with Scene(options=options, open_client=Opener()) as scene:
            assert await generates(scene) > 0
            scene.client.notify("workspace/didChangeConfiguration", {"settings": {"midfill": {"max_tokens": 9}}})
            assert await generates(scene) > 0
            told = shown(scene)
            assert [kind for kind, _ in told] == [WARNING] * (2 if asked else 1), told
            assert "of memory are free: " in told[-1][1] and " instead of 4096" in told[-1][1]
