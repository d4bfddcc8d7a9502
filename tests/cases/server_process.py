"""A language server as a process, spoken to over its real standard streams.

Owns the parser that allows nothing but frames on standard output. Times only end what hangs; drivers assert their own.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from json import loads
from pathlib import Path
from typing import Any

import psutil

from tests.cases.case import HANG_S
from tests.support.client import Json, frame, inline_params

ROOT = Path(__file__).resolve().parents[2]


class ServerProcess:
    """`python -m tests.cases.child MODE…`: the command `midfill lsp` itself, its engine replaced or made noisy as MODE says.

    raw: all of standard output so far. environment: added to the process's own; its caches and settings are always its own.
    via: a command in front, which has to pass the streams on.
    """

    def __init__(self, *mode: str, via: tuple[str, ...] = (), **environment: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._errors = (Path(self._folder.name) / "stderr").open("w+b")
        home = self._folder.name
        own = {f"XDG_{name}_HOME": home for name in ("CACHE", "DATA", "CONFIG")} | {"MIDFILL_CONFIG": "", "MIDFILL_LOG": "info"}
        self.process = subprocess.Popen(
            [*via, sys.executable, "-m", "tests.cases.child", *mode],
            cwd=ROOT,
            env={**os.environ, **own, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self.raw = b""
        self.messages: list[Json] = []
        self._news = threading.Condition()
        self._is_read = True
        self._stray = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.process.pid).children(recursive=True):
                child.kill()
        self.process.kill()
        self.process.wait()
        self._is_read = False
        self._reader.join()
        for stream in (self.process.stdin, self.process.stdout, self._errors):
            with contextlib.suppress(OSError):
                stream.close()  # type: ignore[union-attr]
        self._folder.cleanup()

    # --- its output

    def _read(self) -> None:
        out = self.process.stdout
        assert out is not None
        with contextlib.suppress(OSError, ValueError):
            while self._is_read:
                if not select.select([out], [], [], 0.05)[0]:
                    continue
                data = os.read(out.fileno(), 65536)
                if not data:
                    break
                with self._news:
                    self.raw += data
                    try:
                        self.messages = list(frames(self.raw))
                    except (AssertionError, ValueError) as error:
                        self._stray = str(error)
                    self._news.notify_all()

    def until(self, wanted: Callable[[Json], bool], what: str) -> Json:
        """The first message that is wanted, come or to come."""
        with self._news:
            end = time.monotonic() + HANG_S
            while True:
                for message in self.messages:
                    if wanted(message):
                        return message
                assert not self._stray, self._stray
                left = end - time.monotonic()
                assert left > 0, f"{what} never came; out: {self.raw[-300:]!r}; errors: {self.errors[-600:]}"
                self._news.wait(min(left, 0.5))
                assert self.process.poll() is None or self._reader.is_alive() or any(map(wanted, self.messages)), (
                    f"the process ended before {what}: {self.errors[-600:]}"
                )

    def answer(self, msg_id: int) -> Json:
        return self.until(lambda m: m.get("id") == msg_id and "method" not in m, f"the answer to {msg_id}")

    def status(self, state: str) -> Json:
        return self.until(lambda m: m.get("method") == "midfill/status" and m["params"]["state"] == state, f"the state {state}")

    @property
    def errors(self) -> str:
        """Standard error so far."""
        return (Path(self._folder.name) / "stderr").read_bytes().decode("utf-8", "replace")

    def files(self) -> list[Path]:
        """What it has written into its own directories."""
        return [path for path in Path(self._folder.name).rglob("*") if path.is_file()]

    def hold_reading(self) -> None:
        """Read no more of its standard output, but leave it open."""
        self._is_read = False
        self._reader.join(HANG_S)

    def stop_reading(self) -> None:
        """Close our end of its standard output."""
        self.hold_reading()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def ended(self) -> int:
        """The exit code, when the process has ended and its output is read."""
        code = self.process.wait(HANG_S)
        self._reader.join(HANG_S)
        return code

    def check_frames(self) -> list[Json]:
        """All messages; every byte of standard output belongs to one. Call it when the process has ended."""
        return list(frames(self.raw, is_all=True))

    # --- its input

    def send(self, *messages: Json) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(frame({"jsonrpc": "2.0", **message}) for message in messages))
        self.process.stdin.flush()

    def notify(self, method: str, params: Any = None) -> None:
        self.send({"method": method, "params": params})

    def ask(self, msg_id: int, method: str, params: Any = None) -> None:
        self.send({"id": msg_id, "method": method, "params": params})

    def initialize(
        self, msg_id: int, *, process_id: int | None = None, options: Json | None = None, **capabilities: Any
    ) -> None:
        params = {"processId": process_id, "rootUri": None, "capabilities": capabilities, "initializationOptions": options}
        self.ask(msg_id, "initialize", params)

    def ask_inline(self, msg_id: int, uri: str, line: int, character: int, *, invoked: bool = False) -> None:
        self.ask(msg_id, "textDocument/inlineCompletion", inline_params(uri, line, character, invoked))


def frames(data: bytes, *, is_all: bool = False) -> Iterator[Json]:
    """Messages in `data`; AssertionError at a byte that belongs to none. is_all: nothing may be left over."""
    at = 0
    while at < len(data):
        head, found, _ = data[at:].partition(b"\r\n\r\n")
        name, _, length = head.partition(b": ")
        if not found and not is_all and b"Content-Length: ".startswith(name[:16]):
            return
        assert found and name == b"Content-Length" and length.isdigit(), f"stray bytes: {data[at : at + 80]!r}"
        start = at + len(head) + 4
        at = start + int(length)
        if at > len(data) and not is_all:
            return
        assert at <= len(data), "the last frame is cut"
        yield loads(data[start:at])
