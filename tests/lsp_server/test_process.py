"""The server as a process: what it writes where, and that it always ends. Waiting times only end a test that hangs."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lsp_server.wire import watch
from tests.support.client import HANG_S, Json, frame, inline_params

ROOT = Path(__file__).resolve().parents[2]
URI = "file:///w/app/main.py"
OPENED = {"textDocument": {"uri": URI, "languageId": "python", "version": 1, "text": "a = "}}


class Child:
    """The process, and its frames by a parser that allows nothing else on the wire."""

    def __init__(self, mode: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.lsp_server.child", mode],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._limit = threading.Timer(HANG_S, self.process.kill)
        self._limit.start()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self._limit.cancel()
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(OSError):
                stream.close()  # type: ignore[union-attr]

    def send(self, *messages: Json) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(frame({"jsonrpc": "2.0", **message}) for message in messages))
        self.process.stdin.flush()

    def read(self) -> Json | None:
        """The next message; None at the end. Fails on anything that is not a frame."""
        out = self.process.stdout
        assert out is not None
        line = out.readline()
        if not line:
            return None
        assert line.startswith(b"Content-Length: "), line
        assert out.readline() == b"\r\n"
        message: Json = json.loads(out.read(int(line.split()[1])))
        return message

    def answer(self, msg_id: int) -> Json:
        while (message := self.read()) is not None:
            if message.get("id") == msg_id and "method" not in message:
                return message
        raise AssertionError(f"the process ended without an answer to {msg_id}")

    def start(self, process_id: int | None = None) -> None:
        params: Json = {"processId": process_id, "rootUri": None, "capabilities": {}}
        self.send({"id": 0, "method": "initialize", "params": params}, {"method": "initialized", "params": {}})
        self.answer(0)
        self.send({"method": "textDocument/didOpen", "params": OPENED})

    def ask(self, msg_id: int) -> None:
        self.send({"id": msg_id, "method": "textDocument/inlineCompletion", "params": inline_params(URI, 0, 4)})

    def ended(self) -> tuple[int, str]:
        """Exit code and standard error, when it has ended."""
        code = self.process.wait()
        assert self.process.stderr is not None
        return code, self.process.stderr.read().decode()


def test_only_frames_on_standard_output() -> None:
    """stdio-pollution-01"""
    with Child("noisy") as child:
        child.start()
        child.ask(1)
        assert child.answer(1)["result"]["items"]
        child.send({"id": 2, "method": "shutdown"}, {"method": "exit"})
        child.answer(2)
        assert child.read() is None
        code, errors = child.ended()
        assert code == 0
        for source in ("print", "sys.stdout", "descriptor 1", "C", "a child 0"):
            assert f"noise from {source}\n" in errors


def test_shutdown_while_native_work_runs() -> None:
    """startup-blocking-01 (end), process-exit"""
    with Child("native") as child:
        child.start()
        child.ask(1)
        child.answer(1)
        child.send({"id": 2, "method": "shutdown"})
        assert child.answer(2)["result"] is None
        child.send({"method": "exit"})
        assert child.ended()[0] == 0


@pytest.mark.parametrize("mode", ["plain", "native", "stuck"])
def test_the_end_of_standard_input(mode: str) -> None:
    """process-exit-01 (first path), also while the loop is stuck"""
    with Child(mode) as child:
        child.start()
        child.ask(1)
        if mode != "stuck":
            child.answer(1)
        assert child.process.stdin is not None
        child.process.stdin.close()
        code, errors = child.ended()
        assert code == 1
        assert "Traceback" not in errors


@pytest.mark.parametrize("mode", ["plain", "stuck"])
def test_the_client_process_is_gone_but_the_pipe_is_open(mode: str) -> None:
    """process-exit-01 (second path); the dead process is a zombie until the test ends"""
    client = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with Child(mode) as child:
            child.start(client.pid)
            child.ask(1)
            client.kill()
            assert child.ended()[0] == 1
    finally:
        client.kill()
        client.communicate()


def test_a_closed_standard_output_is_a_quiet_end() -> None:
    """process-exit-02"""
    with Child("plain") as child:
        child.start()
        assert child.process.stdout is not None
        child.process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            for msg_id in (1, 2, 3):
                child.ask(msg_id)
        code, errors = child.ended()
        assert code == 1
        assert len(errors) < 65536
        assert "Traceback" not in errors


def test_exit_without_shutdown() -> None:
    with Child("plain") as child:
        child.start()
        child.send({"method": "exit"})
        assert child.ended()[0] == 1


def run(*arguments: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lsp_server", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def test_version_loads_nothing_heavy() -> None:
    code = "import sys; from lsp_server.__main__ import main\ntry: main(['--version'])\nfinally: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=HANG_S)
    assert done.stdout.startswith("midfill ")
    assert not {"pygls", "lsprotocol", "llama_cpp", "numpy", "asyncio"} & set(done.stdout.split())


def test_a_foreign_package_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "context").mkdir()
    (tmp_path / "context" / "__init__.py").write_text("raise SystemExit('imported the wrong one')\n")
    done = run("models", "list", cwd=tmp_path)
    assert done.returncode == 2
    assert "'context'" in done.stderr and "not the one of midfill" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
@pytest.mark.parametrize("closed", ["2>&-", ">&-", ">&- 2>&-"])
def test_missing_streams_are_no_crash(closed: str) -> None:
    line = f'"{sys.executable}" -m lsp_server nonsense {closed}'
    done = subprocess.run(line, shell=True, cwd=ROOT, capture_output=True, text=True, check=False, timeout=HANG_S)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_wrong_use_is_told_and_two() -> None:
    done = run("nonsense")
    assert done.returncode == 2
    assert "nonsense" in done.stderr and "Traceback" not in done.stderr


def test_watching_a_process_that_never_was() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    seen = threading.Event()
    watch.watch_process(process.pid, seen.set, interval_s=0.01)
    assert seen.wait(HANG_S)


def test_a_number_that_names_no_process_is_not_watched(capfd: pytest.CaptureFixture[str]) -> None:
    watch.watch_process(-1, lambda: None, interval_s=0.01)
    for thread in threading.enumerate():
        if thread.name == "midfill-client-watch":
            thread.join(HANG_S)
    assert "Traceback" not in capfd.readouterr().err
