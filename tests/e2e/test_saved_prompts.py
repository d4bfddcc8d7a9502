"""An engine that is killed while somebody types, and one that ends in order: the next one goes on where it was. A real language
server, real engine processes, a tiny real model."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ended import all_ended
from tests.support.tiny_gguf import write_tiny
from tests.support.windows import Window, ask_engine, engine_of, until

LINES = "".join(f"value_{i} = total({i}, width)\n" for i in range(20))
SETTINGS = {"n_ctx": 1024, "save_every_s": 1, "max_tokens": 2}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("model") / "tiny.gguf", name="qwen-tiny")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "run"
    all_ended(tmp_path / "run")


class Typing(Window):
    """A window in whose document somebody types at the end of a text that fills a prompt."""

    uri = "file:///w/app/long.py"

    def open(self) -> None:
        self.n_typed = 0
        document = {"uri": self.uri, "languageId": "python", "version": 1, "text": LINES}
        self.notify("textDocument/didOpen", {"textDocument": document})

    def type(self) -> dict[str, object]:
        """A key that starts a new word, and what it cost."""
        self.n_typed += 1
        self._last += 1
        text = LINES + "x" * self.n_typed
        change = {"textDocument": {"uri": self.uri, "version": self.n_typed + 1}, "contentChanges": [{"text": text}]}
        self.notify("textDocument/didChange", change)
        self.ask_inline(self._last, self.uri, 20, self.n_typed, invoked=True)
        assert "result" in self.answer(self._last)
        return self.explained()


def n_saves(home: Path) -> int:
    return int((ask_engine(home, "/midfill/stats")["engine"] or {"n_saves": 0})["n_saves"])


def test_kill_9_while_somebody_types(home: Path, model: Path) -> None:
    with Typing(home, model, **SETTINGS) as window:
        window.start()
        window.open()
        cold = window.type()
        assert cold["finish"] in ("stop", "length", "line")
        n_prompt = int(str(cold["n_prompt_tokens"]))
        assert n_prompt >= 256 and cold["n_reused_tokens"] == 0
        time.sleep(1.1)  # what is typed now is later than a save may be
        window.type()
        until(lambda: n_saves(home), "a save")
        os.kill(engine_of(home).pid, signal.SIGKILL)
        until(lambda: window.type()["finish"] in ("stop", "length", "line"), "another engine's answer")
        assert int(str(window.explained()["n_reused_tokens"])) >= n_prompt - 1
        assert ask_engine(home, "/midfill/stats")["engine"]["n_disk_hits"] == 1
        window.leave()


def test_an_engine_that_ends_in_order_leaves_its_prompt(home: Path, model: Path, tmp_path: Path) -> None:
    reused = []
    for _ in range(2):
        with Typing(home, model, {"XDG_CACHE_HOME": str(tmp_path / "cache")}, **SETTINGS) as window:
            window.start()
            window.open()
            told = window.type()
            reused.append(int(str(told["n_reused_tokens"])))
            window.leave()
        all_ended(home)
    assert reused[0] == 0 and reused[1] >= int(str(told["n_prompt_tokens"])) - 1
