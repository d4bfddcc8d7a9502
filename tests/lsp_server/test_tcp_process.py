"""`midfill lsp --tcp` as a process: what it writes where, when it ends and when it does not. Waiting times only end a test that
hangs."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.client import HANG_S, TcpClient, in_loop
from tests.support.ended import all_ended
from tests.support.tiny_gguf import write_tiny

ROOT = Path(__file__).resolve().parents[2]
URI = "file:///w/app/main.py"
REAL = ("lsp_server", "lsp", "--tcp")


class Process:
    """`python -m WORDS…`; reads the port that it tells. errors: standard error so far."""

    def __init__(self, *words: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=ROOT,
            env={**os.environ, "MIDFILL_LOG": "info", **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.errors = ""
        self._is_read = False
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._limit = threading.Timer(HANG_S, self.process.kill)
        self._limit.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._news:
                self.errors += line.decode()
                self._news.notify_all()
        with self._news:
            self._is_read = True
            self._news.notify_all()

    def until(self, part: str) -> None:
        """Returns when it has told that, or has ended."""
        with self._news:
            self._news.wait_for(lambda: part in self.errors or self._is_read)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._limit.cancel()
        self.process.kill()
        self.process.communicate()
        self._reader.join()

    @property
    def where(self) -> tuple[str, int]:
        self.until("listening on")
        found = re.search(r"^midfill: listening on (\S+):(\d+)$", self.errors, re.M)
        assert found, self.errors
        return found[1].strip("[]"), int(found[2])

    def client(self) -> TcpClient:
        return TcpClient(*self.where)

    def ended(self) -> int:
        """The exit code; nothing may have been written to standard output."""
        code = self.process.wait()
        assert self.process.stdout is not None
        assert self.process.stdout.read() == b""
        self._reader.join()
        assert "Traceback" not in self.errors
        return code


@pytest.fixture(params=["shared engine", "own engine"])
def configured(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """An environment with settings of its own, and a tiny model in them."""
    model = write_tiny(tmp_path / "tiny.gguf")
    (tmp_path / "midfill.toml").write_text(
        f'model = "{model}"\nn_ctx = 512\nn_threads = 1\nn_gpu_layers = 0\nprefill_ms_per_token = 0.1\nstep_ms = 0.1\n'
        f"linger_s = 0\nshared_engine = {str(request.param == 'shared engine').lower()}\n"
    )
    places = {"XDG_CACHE_HOME": str(tmp_path), "MIDFILL_RUNTIME_DIR": str(tmp_path / "run")}
    yield {"MIDFILL_CONFIG": str(tmp_path / "midfill.toml"), **places}
    all_ended(tmp_path / "run")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_real_command_serves_two_editors_until_it_is_interrupted(
    number: signal.Signals, configured: dict[str, str]
) -> None:
    @in_loop
    async def talk() -> None:
        async with server.client() as one, server.client() as other:
            for client in (one, other):
                await client.initialize(options={"completion": client is other})
                await client.until(lambda m: m.get("method") == "midfill/status" and m["params"]["state"] == "ready")
                client.open(URI, "def area(width, height):\n    return wid\n")
            asked = [client.ask_inline(URI, 1, 14, invoked=True) for client in (one, other)]
            for client, which in zip((one, other), asked, strict=True):
                assert "result" in await client.answer(which)
            assert (await other.plain(URI, 1, 14))["result"]["isIncomplete"]
            one.notify("exit")  # without shutdown: the process stays
            await one.ended()
            assert "result" in await other.inline(URI, 1, 14)
            assert server.process.poll() is None
            server.process.send_signal(number)
            await other.ended()

    with Process(*REAL, "0", **configured) as server:
        assert server.where[0] == "127.0.0.1"
        talk()
        assert server.ended() == 0
        assert number.name in server.errors


def test_an_interrupt_before_anybody_came(configured: dict[str, str]) -> None:
    with Process(*REAL, "localhost:0", **{**configured, "MIDFILL_LOG": "error"}) as server:
        assert server.where
        server.process.send_signal(signal.SIGTERM)
        assert server.ended() == 0


@pytest.mark.parametrize("mode", ["native", "stuck"])
def test_an_interrupt_while_nothing_else_gets_through(mode: str) -> None:
    """Native work that nobody can stop, and a handler that keeps the loop for itself."""

    @in_loop
    async def ask() -> None:
        async with server.client() as client:
            await client.initialize()
            client.open(URI, "a = ")
            asked = client.ask_inline(URI, 0, 4)
            if mode == "native":
                await client.answer(asked)
            else:
                await asyncio.to_thread(server.until, "the loop is kept")
            server.process.send_signal(signal.SIGTERM)
            await client.ended()

    with Process("tests.lsp_server.child", mode, "tcp") as server:
        ask()
        assert server.ended() == (1 if mode == "stuck" else 0)
        assert ("what sessions share was closed" in server.errors) == (mode == "native")


def test_other_machines_only_when_told_and_with_a_warning(configured: dict[str, str]) -> None:
    with Process(*REAL, "0.0.0.0:0", **configured) as server:
        assert server.where[0] == "0.0.0.0"
        (warning,) = [line for line in server.errors.splitlines() if line.startswith("WARNING")]
        assert "unencrypted" in warning and "unauthenticated" in warning
        server.process.send_signal(signal.SIGTERM)
        assert server.ended() == 0


def test_standard_input_and_output_are_nobodys() -> None:
    code = """if True:
        import os, subprocess, sys
        from lsp_server import app
        from lsp_server.__main__ import main

        async def noisy(address):
            print("noise of print")
            os.write(1, b"noise of a descriptor\\n")
            subprocess.run([sys.executable, "-c", "print('noise of a child', len(input()))"], check=False)
            return 0

        app.serve_tcp = noisy
        main(["lsp", "--tcp", "0"])
    """
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, input="abc\n", capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert "noise of print" in done.stderr and "noise of a descriptor" in done.stderr
    assert "EOFError" in done.stderr, "the child has read what was meant for nobody"


def test_a_port_in_use_is_one_sentence_and_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, Process(*REAL, str(taken.getsockname()[1])) as server:
        assert server.ended() == 1
        (line,) = server.errors.splitlines()
        assert line.startswith("midfill: can't listen on 127.0.0.1:") and "in use" in line


def test_a_place_that_is_none_is_two() -> None:
    with Process(*REAL, "127.0.0.1") as server:
        assert server.ended() == 2
        assert "[HOST:]PORT" in server.errors
