"""The peer: llama-server's `/infill` (package `xllamacpp`) in a process of its own, driven as llama.vscode drives it.

Owns the child process, the request's shape and its clock. As the extension does: 256 lines before the cursor's line, 64 after
it, the cursor's line up to the cursor as `prompt` (nothing if that is only blanks), nothing asked when more than 8 characters
stand behind the cursor, `n_indent`. Unlike it: greedy, `n_predict` given, no time limits, no extra chunks, no reply cache; and
streamed, so that the first byte can be timed and the stream can end with the first line that is complete and not blank. That
line counts as the reply (the extension itself waits for the whole text, so the peer is given the better number).

`python -m bench.llama_server MODEL` is the child: it writes one line of JSON with its address, and ends with standard input.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.errors import BenchError

N_BEFORE, N_AFTER, MOST_BEHIND_CURSOR = 256, 64, 8
N_CACHE_REUSE = 256
MISSING = "the package xllamacpp is missing; install it with: pip install '.[bench]'"
EXIT_MISSING = 3
START_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class PeerReply:
    """n_prompt: tokens evaluated for the prompt (`timings.prompt_n`), n_context: all of the prompt's (`tokens_evaluated`).

    Times from sending the request, in ms; first_byte_ms: to the first byte beyond the cursor, None = there was none. text: up
    to the end of the first line that is not blank.
    """

    n_prompt: int
    n_context: int
    first_byte_ms: float | None
    reply_ms: float
    text: str


@dataclass(frozen=True, slots=True)
class Infill:
    """A request's body, and how many blanks before the cursor the reply repeats."""

    body: dict[str, Any]
    n_blanks: int


def infill(text: str, offset: int, n_predict: int) -> Infill | None:
    """The request for a cursor at `offset` (code points), None where the extension asks nothing."""
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    end = end if end >= 0 else len(text)
    line = text[start:end]
    typed, behind = text[start:offset], text[offset:end]
    if len(behind) > MOST_BEHIND_CURSOR:
        return None
    before = text[:start].split("\n")[:-1][-N_BEFORE:]
    after = text[end + 1 :].split("\n")[:N_AFTER] if end < len(text) else []
    is_blank = not typed.strip(" \t")
    body: dict[str, Any] = {
        "input_prefix": "\n".join(before) + "\n",
        "input_suffix": behind + "\n" + "\n".join(after) + "\n",
        "input_extra": [],
        "prompt": "" if is_blank else typed,
        "n_predict": n_predict,
        "temperature": 0,
        "top_k": 1,
        "samplers": ["top_k"],
        "cache_prompt": True,
        "stream": True,
        "timings_per_token": True,
    }
    n_indent = len(line) - len(line.lstrip())
    if n_indent:
        body["n_indent"] = n_indent
    return Infill(body, len(typed) if is_blank else 0)


def without_blanks(text: str, n: int) -> str:
    """`text` less at most n leading blanks: what stands before the cursor already."""
    i = 0
    while i < min(n, len(text)) and text[i] in " \t":
        i += 1
    return text[i:]


def first_line(text: str) -> str | None:
    """`text` up to the end of its first line that is complete and not blank; None if it has none."""
    begin = len(text) - len(text.lstrip())
    end = text.find("\n", begin)
    return text[:end] if begin < len(text) and end >= 0 else None


class Call:
    """One streamed request. `run` blocks until the reply; `abort` may come from another thread."""

    def __init__(self, address: tuple[str, int], request: Infill) -> None:
        self._address = address
        self._request = request
        self._connection: http.client.HTTPConnection | None = None
        self._is_aborted = False

    def abort(self) -> None:
        self._is_aborted = True
        connection = self._connection
        if connection is not None and connection.sock is not None:
            try:
                connection.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # it was over already

    def run(self) -> PeerReply | None:
        """None if aborted."""
        self._connection = http.client.HTTPConnection(*self._address, timeout=600)
        started = time.perf_counter()
        try:
            headers = {"Content-Type": "application/json"}
            self._connection.request("POST", "/infill", json.dumps(self._request.body), headers)
            if self._is_aborted:  # before there was a socket to shut
                return None
            response = self._connection.getresponse()
            if response.status != 200:
                raise BenchError(f"llama-server answered {response.status}: {response.read(500)!r}")
            return self._read(response, started)
        except (OSError, http.client.HTTPException, ValueError):
            # ValueError: the line was cut, or the file object closed, by abort
            if self._is_aborted:
                return None
            raise
        finally:
            self._connection.close()

    def _read(self, response: http.client.HTTPResponse, started: float) -> PeerReply | None:
        text, n_prompt, n_context, first_byte_ms = "", 0, 0, None
        while True:
            line = response.readline()
            now_ms = (time.perf_counter() - started) * 1000
            if not line:
                break
            if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                continue
            event = json.loads(line[len(b"data: ") :])
            text += event.get("content", "")
            n_prompt = event.get("timings", {}).get("prompt_n", n_prompt)
            n_context = event.get("tokens_evaluated", n_context)
            shown = without_blanks(text, self._request.n_blanks)
            if first_byte_ms is None and shown:
                first_byte_ms = now_ms
            reply = first_line(shown)
            if reply is not None or event.get("stop"):
                return PeerReply(n_prompt, n_context, first_byte_ms, now_ms, shown if reply is None else reply)
        if self._is_aborted:
            return None
        raise BenchError("llama-server ended a reply in the middle")


class Peer:
    """A running llama-server. Use as a context manager. n_parallel: its slots, which share n_ctx."""

    def __init__(
        self, model: str, *, n_threads: int, n_ctx: int, n_batch: int, n_parallel: int = 1, python: str = sys.executable
    ) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        command = [python, "-m", "bench.llama_server", model]
        command += ["--threads", str(n_threads), "--ctx", str(n_ctx), "--batch", str(n_batch), "--parallel", str(n_parallel)]
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=Path(__file__).resolve().parent.parent,
        )
        try:
            self.address = self._wait_for_address()
        except BaseException:
            self.close()
            raise

    def _wait_for_address(self) -> tuple[str, int]:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if line:
            said = json.loads(line)
            return said["host"], said["port"]
        if self._child.wait(START_TIMEOUT_S) == EXIT_MISSING:
            raise BenchError(MISSING)
        self._log.seek(0)
        tail = self._log.read()[-800:].decode(errors="replace").strip()
        raise BenchError(f"llama-server did not start; its last words:\n{tail}")

    def call(self, request: Infill) -> Call:
        return Call(self.address, request)

    def ask(self, request: Infill) -> PeerReply:
        """Ask and wait; the slot is idle again when this returns (not counted in the reply's times)."""
        reply = self.call(request).run()
        if reply is None:
            raise BenchError("llama-server's reply was cut")
        self.wait_until_idle()
        return reply

    def wait_until_idle(self, timeout_s: float = 120.0) -> None:
        """The generation behind a closed connection ends at its next token; wait for that."""
        deadline = time.perf_counter() + timeout_s
        while time.perf_counter() < deadline:
            connection = http.client.HTTPConnection(*self.address, timeout=timeout_s)
            connection.request("GET", "/slots")
            slots = json.loads(connection.getresponse().read())
            connection.close()
            if not any(slot["is_processing"] for slot in slots):
                return
            time.sleep(0.005)
        raise BenchError("llama-server did not become idle")

    def close(self) -> None:
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.close()
        try:
            self._child.wait(10)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._child.stdout.close()
        self._log.close()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def serve(model: str, n_threads: int, n_ctx: int, n_batch: int, n_parallel: int) -> int:
    """The child's life: start the server, say where it listens, wait for the end of standard input."""
    try:
        import xllamacpp
    except ImportError:
        print(MISSING, file=sys.stderr)
        return EXIT_MISSING
    out = os.dup(1)
    os.dup2(2, 1)  # whatever native code prints is no address
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_ctx = n_ctx
    params.n_batch = params.n_ubatch = n_batch
    params.n_parallel = n_parallel
    params.n_cache_reuse = N_CACHE_REUSE
    params.cpuparams.n_threads = n_threads
    params.cpuparams_batch.n_threads = n_threads
    params.port = 0
    params.hostnames = ["127.0.0.1"]
    server = xllamacpp.Server(params)
    host, port = server.listening_address.removeprefix("http://").rsplit(":", 1)
    os.write(out, json.dumps({"host": host, "port": int(port)}).encode() + b"\n")
    sys.stdin.buffer.read()
    del server
    return 0


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.llama_server", description="llama-server for the bench, on loopback")
    parser.add_argument("model", help="path of a GGUF file")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--ctx", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--parallel", type=int, default=1)
    options = parser.parse_args(argv)
    return serve(options.model, options.threads, options.ctx, options.batch, options.parallel)


if __name__ == "__main__":
    sys.exit(main())
