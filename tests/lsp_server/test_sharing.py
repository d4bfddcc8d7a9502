"""One engine for all: loaded once, told apart, closed once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from inference.config import EngineConfig
from inference.types import EngineError
from lsp_server.engines.sharing import SharedEngine

HANG_S = 30.0


class Loaded:
    """A client that only knows whether it was closed."""

    n_closed = 0

    async def aclose(self) -> None:
        self.n_closed += 1


def ignore(_value: Any) -> None:
    pass


def test_two_that_ask_at_once_get_one_and_both_hear_of_its_progress() -> None:
    begun, go = threading.Event(), threading.Event()
    opened: list[Loaded] = []

    def open_client(_config: EngineConfig, on_progress: Callable[[float], None]) -> Any:
        begun.set()
        assert go.wait(HANG_S)
        on_progress(0.5)
        opened.append(Loaded())
        return opened[-1]

    shared = SharedEngine(open_client)
    heard: list[tuple[str, float]] = []
    got: list[Any] = []

    def ask(name: str) -> None:
        got.append(shared.open(EngineConfig(), lambda share: heard.append((name, share)), ignore))

    first = threading.Thread(target=ask, args=("first",))
    second = threading.Thread(target=ask, args=("second",))
    first.start()
    assert begun.wait(HANG_S)
    second.start()
    while len(shared._listeners) < 2:
        pass
    go.set()
    first.join(HANG_S)
    second.join(HANG_S)
    assert len(opened) == 1 and got == [opened[0], opened[0]]
    assert sorted(heard) == [("first", 0.5), ("second", 0.5)]
    assert shared._listeners == []


def test_other_settings_are_told_and_change_nothing() -> None:
    configs: list[EngineConfig] = []

    def open_client(config: EngineConfig, _on_progress: Callable[[float], None]) -> Any:
        configs.append(config)
        return Loaded()

    shared = SharedEngine(open_client)
    told: list[tuple[str, ...]] = []
    first = shared.open(EngineConfig(n_ctx=1024), ignore, told.append)
    same = shared.open(EngineConfig(n_ctx=1024), ignore, told.append)
    assert told == []
    other = shared.open(EngineConfig(n_ctx=2048, model="x.gguf"), ignore, told.append)
    assert first is same is other
    assert told == [("model", "n_ctx")]
    assert configs == [EngineConfig(n_ctx=1024)]


def test_a_load_that_fails_is_tried_again_with_the_next_ones_settings() -> None:
    def open_client(config: EngineConfig, _on_progress: Callable[[float], None]) -> Any:
        if config.model == "missing":
            raise EngineError("pull it")
        return Loaded()

    shared = SharedEngine(open_client)
    told: list[tuple[str, ...]] = []
    for _ in range(2):
        with pytest.raises(EngineError, match="pull it"):
            shared.open(EngineConfig(model="missing"), ignore, told.append)
    assert shared.open(EngineConfig(model="there"), ignore, told.append)
    assert told == [] and shared._listeners == []


def test_it_is_closed_once() -> None:
    client = Loaded()
    shared = SharedEngine(lambda _config, _on_progress: client)  # type: ignore[arg-type, return-value]
    asyncio.run(shared.aclose())
    shared.open(EngineConfig(), ignore, ignore)
    asyncio.run(shared.aclose())
    asyncio.run(shared.aclose())
    assert client.n_closed == 1
