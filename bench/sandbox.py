"""Runs a program that a model wrote, in a child process that can neither run on nor reach far.

Owns the child's life: its folder, its process group, the wall limit, and the verdict. What it may do is limited by the child
itself, before the program (`bench.jail`).
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.errors import BenchError

JAIL = Path(__file__).with_name("jail.py")
MOST_REPORT = 4096  # bytes; a report has less


@dataclass(frozen=True, slots=True)
class Limits:
    """cpu_s: seconds of processor time, which do not depend on what else runs. wall_s: of the clock. memory: bytes."""

    cpu_s: int = 10
    wall_s: float = 60.0
    memory: int = 1 << 30


@dataclass(frozen=True, slots=True)
class Verdict:
    """passed: the program ran to its end. why: else what it raised, or "out of time", or "ended early".

    guards: the limits that stood: "network", "files", "rlimits".
    """

    passed: bool
    why: str
    guards: tuple[str, ...]


def run(program: str, limits: Limits = Limits()) -> Verdict:
    """Run a program. Blocks until it is gone; what it left in its process group is killed.

    Raises BenchError if no child can be started.
    """
    nonce = secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="midfill-bench-", ignore_cleanup_errors=True) as folder:
        Path(folder, "program.py").write_text(program, encoding="utf-8", errors="replace")
        child = _start(folder)
        assert child.stdin is not None and child.stdout is not None
        try:
            setup = {"nonce": nonce, "cpu_s": limits.cpu_s, "memory": limits.memory}
            report = b""
            try:
                child.stdin.write(json.dumps(setup).encode() + b"\n")
                child.stdin.close()
                report = _read(child.stdout.fileno(), time.monotonic() + limits.wall_s)
            except BrokenPipeError:
                pass  # it is gone already: its code says why
        finally:
            # before it is waited for: until then its number is that of no other group
            _kill_group(child.pid)
            child.wait()
            child.stdout.close()
    return _verdict(report, nonce, child.returncode)


def _start(folder: str) -> subprocess.Popen[bytes]:
    # a fixed hash seed: which of two equal programs passes must not depend on the order of a set
    environment = {"PYTHONHASHSEED": "0", "LANG": "C.UTF-8"}
    command = [sys.executable, "-B", "-P", "-s", "-S", str(JAIL)]
    try:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        raise BenchError(f"no process could be started to run the tests in: {error.strerror}") from None


def _read(pipe: int, deadline: float) -> bytes:
    """What the child reports, until its end, the deadline, or more than a report can be."""
    report = b""
    while (left := deadline - time.monotonic()) > 0 and len(report) < MOST_REPORT:
        ready, _, _ = select.select([pipe], [], [], left)
        if not ready:
            break
        part = os.read(pipe, MOST_REPORT - len(report))
        if not part:
            break
        report += part
    return report


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS refuses where only a dead leader is left
        os.killpg(pid, signal.SIGKILL)


def _verdict(report: bytes, nonce: str, code: int) -> Verdict:
    head, _, said = report.partition(b"\n")
    try:
        guards = tuple(name for name, stands in json.loads(head).items() if stands)
    except ValueError:
        if code not in (0, -signal.SIGKILL, -signal.SIGXCPU):
            raise BenchError(f"the process that runs the tests did not start (code {code}): {sys.executable}") from None
        guards = ()
    if said == nonce.encode():
        return Verdict(True, "", guards)
    if said:
        return Verdict(False, said.decode("utf-8", "replace"), guards)
    is_late = code in (-signal.SIGKILL, -signal.SIGXCPU)
    return Verdict(False, "out of time" if is_late else "ended early", guards)
