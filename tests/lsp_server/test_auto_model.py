"""The model that is left open: the server tells what was chosen, with the deadline of its settings."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inference.config import EngineConfig
from inference.models import choice, registry
from inference.models.choice import Located
from inference.models.machine import Machine
from inference.models.model import Model, Shape
from inference.types import EngineError
from lsp_server import app
from lsp_server.config import Sources
from tests.support.client import Client, in_loop
from tests.support.tiny_gguf import write_tiny

HERE = {"shared_engine": False}


def messages(client: Client) -> list[tuple[str, str]]:
    return [(m["params"]["state"], m["params"]["message"]) for m in client.of_method("midfill/status")]


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of models with one real tiny one, `tiny`, and `better`, which is not on disk; nothing is kept elsewhere."""
    directory = tmp_path / "models"
    directory.mkdir()
    n_bytes = write_tiny(directory / "tiny.gguf").stat().st_size
    tiny = Model("tiny", "Tiny", "tiny.gguf", n_bytes, "0" * 64, "MIT", "tiny", shape=Shape(1, 1, 1, 1e6))
    better = Model("better", "Better", "better.gguf", n_bytes + 1, "0" * 64, "MIT", "tiny", shape=Shape(1, 1, 1, 1e6))
    monkeypatch.setattr(registry, "MODELS", (tiny, better))
    monkeypatch.setattr(app, "cache_dir", lambda: tmp_path / "cache")
    machine = Machine(free_bytes=1 << 40, is_gpu=False, n_cpus=8)
    monkeypatch.setattr(choice, "look_at_machine", lambda *_: machine)
    return directory


@in_loop
async def test_the_ready_message_and_the_log_tell_what_was_chosen(models: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="lsp_server.app")
    options = {"models_dir": str(models), "n_threads": 1, "n_ctx": 256, "reply_deadline_ms": 0, **HERE}
    one = app.build(Sources(options=options))
    async with Client(one.server, one.aclose) as client:
        await client.initialize(options=options)
        await client.until(lambda m: m.get("method") == "midfill/status" and m["params"]["state"] in ("ready", "error"))
        note = "tiny is used; better is better for this machine: `midfill models pull better`"
        assert messages(client)[-1] == ("ready", f"tiny is ready; {note}")
        assert ("loading", "loading the model that was chosen") in messages(client)
    assert note in [record.message for record in caplog.records]


@in_loop
async def test_nothing_on_disk_names_the_command(models: Path) -> None:
    (models / "tiny.gguf").unlink()
    one = app.build(Sources(options={"models_dir": str(models), "reply_deadline_ms": 0, **HERE}))
    async with Client(one.server, one.aclose) as client:
        await client.initialize(options={"models_dir": str(models), "reply_deadline_ms": 0, **HERE})
        await client.until(lambda m: m.get("method") == "midfill/status" and m["params"]["state"] == "error")
        assert "; run `midfill models pull better`" in messages(client)[-1][1]


@in_loop
async def test_the_deadline_of_the_settings_decides(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def locate(config: EngineConfig, deadline_ms: float, cache_dir: Path) -> Located:
        asked.append(deadline_ms)
        raise EngineError("enough")

    monkeypatch.setattr(app, "locate", locate)
    one = app.build(Sources())
    async with Client(one.server, one.aclose) as client:
        await client.initialize(options={"reply_deadline_ms": 777, **HERE})
        await client.until(lambda m: m.get("method") == "midfill/status" and m["params"]["state"] == "error")
    assert asked == [777]


@in_loop
async def test_a_client_of_ones_own_is_asked_as_before() -> None:
    asked: list[tuple[EngineConfig, Callable[[float], None]]] = []

    def open_client(config: EngineConfig, on_progress: Callable[[float], None]) -> Any:
        asked.append((config, on_progress))
        raise EngineError("enough")

    one = app.build(Sources(), open_client)
    async with Client(one.server, one.aclose) as client:
        await client.initialize(options={"n_ctx": 1234})
        await client.until(lambda m: m.get("method") == "midfill/status" and m["params"]["state"] == "error")
    assert [config.n_ctx for config, _ in asked] == [1234]
