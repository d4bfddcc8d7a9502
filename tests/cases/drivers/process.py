"""process-exit."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

import psutil

from tests.cases.case import Case
from tests.cases.drivers.registry import driver
from tests.cases.server_process import ServerProcess
from tests.support.client import Json

URI = "file:///w/app/main.py"
OPENED: Json = {
    "method": "textDocument/didOpen",
    "params": {"textDocument": {"uri": URI, "languageId": "python", "version": 1, "text": "a = "}},
}

# Stands between us and the server's standard input, which nobody else holds open; its standard output goes straight to us.
_PARENT = """
import subprocess, sys
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE)
while data := sys.stdin.buffer.read1(65536):
    server.stdin.write(data)
    server.stdin.flush()
"""


def generate(server: ServerProcess, process_id: int | None) -> None:
    """Until the model is at work for a request that will never end."""
    server.initialize(0, process_id=process_id, options={"max_tokens": 4096, "reply_deadline_ms": 0, "n_ctx": 8192})
    server.answer(0)
    server.notify("initialized", {})
    server.status("ready")
    server.send(OPENED)
    server.ask_inline(1, URI, 0, 4, invoked=True)
    server.status("thinking")


def seconds_until_gone(process: psutil.Process, limit_s: float) -> float:
    """A zombie is gone: nobody here waits for it."""
    started = time.monotonic()
    while time.monotonic() - started < limit_s:
        try:
            if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
                return time.monotonic() - started
        except psutil.NoSuchProcess:
            return time.monotonic() - started
        time.sleep(0.02)
    process.kill()
    raise AssertionError(f"the server is still there after {limit_s:.0f} s")


@driver("process-exit-01")
async def killed_editor(case: Case) -> str:
    limit_s = case.limit_s("process_gone_within_s")
    with ServerProcess("endless", via=(sys.executable, "-c", _PARENT)) as server:
        generate(server, None)
        (child,) = psutil.Process(server.process.pid).children()
        os.kill(server.process.pid, signal.SIGKILL)
        by_pipe = seconds_until_gone(child, limit_s)
        left = [path.name for path in server.files() if path.suffix in (".tmp", ".part")]
        assert not left, f"half-written files: {left}"
    editor = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with ServerProcess("endless") as server:
            generate(server, editor.pid)
            editor.kill()
            by_process = seconds_until_gone(psutil.Process(server.process.pid), limit_s)
    finally:
        editor.kill()
        editor.communicate()
    return f"gone after {by_pipe:.1f} s (end of its input) and {by_process:.1f} s (the client's process)"


@driver("process-exit-02")
async def nobody_reads(case: Case) -> str:
    with ServerProcess("endless") as server:
        server.initialize(0)
        server.answer(0)
        server.notify("initialized", {})
        server.status("ready")
        server.stop_reading()
        with contextlib.suppress(BrokenPipeError):
            server.send(OPENED)
            for msg_id in (1, 2, 3):
                server.ask_inline(msg_id, URI, 0, 4)
        seconds = seconds_until_gone(psutil.Process(server.process.pid), case.limit_s("process_gone_within_s"))
        n_bytes = len(server.errors.encode())
        assert n_bytes < case.expected["log_bytes_below"], f"{n_bytes} bytes of log"
        assert "Traceback" not in server.errors, server.errors[-600:]
    return f"gone after {seconds:.1f} s, {n_bytes} bytes of log"
