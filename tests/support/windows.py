"""Language servers as processes, as many windows of one user have them, and the engine that they share."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil

from tests.cases.server_process import ServerProcess
from tests.support.client import HANG_S, Json
from tests.support.ended import engines_of, only_record

ROOT = Path(__file__).resolve().parents[2]
URI = "file:///w/app/main.py"
TEXT = "def area(width, height):\n    return wid\n"
# No measuring, no deadline: nothing depends on how busy the machine is.
SETTINGS: Json = {
    "n_ctx": 512, "n_threads": 1, "n_gpu_layers": 0, "prefill_ms_per_token": 0.1, "step_ms": 0.1, "linger_s": 0,
    "reply_deadline_ms": 0, "cold_budget_ms": 0, "max_tokens": 8, "typed_through": False, "adopt_ms": 0, "background": "off",
}  # fmt: skip


class Window(ServerProcess):
    """One editor's window: `midfill lsp` with the shared engine of `home`."""

    def __init__(self, home: Path, model: Path, environment: Mapping[str, str] = {}, **settings: Any) -> None:
        super().__init__("shared", MIDFILL_RUNTIME_DIR=str(home), PYTHONPATH=str(ROOT), **environment)
        self._options = {**SETTINGS, "model": str(model), **settings}
        self._last = 0
        self._line = 0

    def start(self) -> None:
        """Until its engine is there."""
        self.begin()
        self.until_ready()

    def begin(self) -> None:
        self.initialize(0, options=self._options)
        self.answer(0)
        self.notify("initialized", {})
        document = {"uri": URI, "languageId": "python", "version": 1, "text": TEXT}
        self.notify("textDocument/didOpen", {"textDocument": document})

    def until_ready(self) -> None:
        states = ("ready", "error")
        news = self.until(lambda m: m.get("method") == "midfill/status" and m["params"]["state"] in states, "an engine")
        assert news["params"]["state"] == "ready", news["params"]["message"]

    def begin_to_ask(self) -> int:
        """A request by hand at another place than the one before."""
        self._last += 1
        text = TEXT + f"x{self._last} = wid"
        change = {"textDocument": {"uri": URI, "version": self._last + 1}, "contentChanges": [{"text": text}]}
        self.notify("textDocument/didChange", change)
        self.ask_inline(self._last, URI, 2, len(text) - len(TEXT), invoked=True)
        return self._last

    def complete(self) -> None:
        """A request that the model has answered, whatever it said."""
        answer = self.answer(self.begin_to_ask())
        assert "result" in answer, answer
        assert self.explained()["finish"] in ("stop", "length", "line"), self.explained()

    def explained(self) -> Json:
        return self.command("midfill.explain")

    def command(self, name: str, *arguments: object) -> Any:
        self._last += 1
        msg_id = 100_000 + self._last
        self.ask(msg_id, "workspace/executeCommand", {"command": name, "arguments": list(arguments)})
        answer = self.answer(msg_id)
        assert "result" in answer, answer
        return answer["result"]

    def statuses(self) -> list[tuple[str, str]]:
        return [
            (m["params"]["state"], m["params"]["message"]) for m in self.messages if m.get("method") == "midfill/status"
        ]

    def shown(self) -> list[str]:
        return [m["params"]["message"] for m in self.messages if m.get("method") == "window/showMessage"]

    def leave(self) -> None:
        """As an editor does."""
        self.ask(999_999, "shutdown")
        self.answer(999_999)
        self.notify("exit")
        assert self.ended() == 0
        self.check_frames()


def engine_of(home: Path) -> psutil.Process:
    """The only one there. (A window's spare process ends when that one has found the engine.)"""
    until(lambda: len(engines_of(home)) == 1, "one engine alone")
    (process,) = engines_of(home)
    assert only_record(home).pid == process.pid
    return process


def until(condition: Callable[[], object], what: str = "") -> None:
    end = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < end, f"never came: {what}"
        time.sleep(0.01)


def ask_engine(home: Path, path: str) -> Json:
    """A question to the only engine there."""
    connection = http.client.HTTPConnection("localhost", timeout=HANG_S)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(HANG_S)
    connection.sock.connect(only_record(home).socket)
    connection.request("GET", path)
    told: Json = json.loads(connection.getresponse().read())
    connection.close()
    return told


def midfill(home: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command, with the engines of `home`."""
    return subprocess.run(
        [sys.executable, "-m", "lsp_server", *words],
        cwd=ROOT,
        env={**os.environ, "MIDFILL_RUNTIME_DIR": str(home), "MIDFILL_CONFIG": "", "XDG_CONFIG_HOME": str(home), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )


def status(home: Path) -> list[Json]:
    """What `midfill engine status --json` tells."""
    done = midfill(home, "engine", "status", "--json")
    assert done.returncode == 0, done.stderr
    engines: list[Json] = json.loads(done.stdout)["engines"]
    return engines
