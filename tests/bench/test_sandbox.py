"""What a program may do in the child process, and what it may not."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from bench import sandbox
from bench.sandbox import JAIL, Limits, run

LIMITS = Limits(cpu_s=1, wall_s=30.0, memory=256 << 20)


def test_a_program_that_runs_to_its_end_passes() -> None:
    verdict = run("import math, collections, typing\nassert math.sqrt(4) == 2", LIMITS)
    assert verdict.passed
    assert verdict.why == ""
    assert "rlimits" in verdict.guards


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("assert 1 == 2", "AssertionError"),
        ("def f(:", "SyntaxError"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("import sys; sys.exit(0)", "SystemExit"),
        ("exit = quit = None; raise SystemExit", "SystemExit"),
        ("import os; os._exit(0)", "ended early"),
        ("import os; os.abort()", "ended early"),
        ("def f(): f()\nf()", "RecursionError"),
        ("input()", "EOFError"),
        ("while True: pass", "out of time"),
        ("x = []\nwhile True: x.append(bytes(1 << 20))", "MemoryError"),
        ("x = [0] * 10 ** 10", "MemoryError"),
    ],
)
def test_a_program_that_does_not_has_a_reason(program: str, why: str) -> None:
    assert not (verdict := run(program, LIMITS)).passed
    assert verdict.why == why


def test_waiting_ends_at_the_wall_limit() -> None:
    verdict = run("import time; time.sleep(1000)", Limits(cpu_s=5, wall_s=1.0))
    assert (verdict.passed, verdict.why) == (False, "out of time")


def test_what_it_prints_is_nobodys() -> None:
    flood = "import sys\nfor _ in range(200): print('x' * 10 ** 6); print('y' * 10 ** 6, file=sys.stderr)"
    assert run(flood, LIMITS).passed


def test_a_flood_into_the_report_is_not_success() -> None:
    """It can find the descriptor, not the nonce; and nobody reads it to the end."""
    program = "import os\nfor fd in range(3, 32):\n  try:\n    while True: os.write(fd, b'x' * 10 ** 6)\n  except OSError: pass"
    assert not run(program, LIMITS).passed


@pytest.mark.parametrize(
    "attempt",
    [
        "os.fork()",
        "os.system('true')",
        "os.posix_spawn('/bin/true', ['true'], {})",
        "os.execv('/bin/true', ['true'])",
        "os.kill(os.getppid(), 0)",
        "subprocess.run(['true'])",
        "socket.socket()",
        "ctypes.CDLL(None)",
        "resource.setrlimit(resource.RLIMIT_CPU, (100, 100))",
    ],
)
def test_processes_sockets_and_native_code_are_refused(attempt: str) -> None:
    verdict = run(f"import os, subprocess, socket, ctypes, resource\n{attempt}", LIMITS)
    assert (verdict.passed, verdict.why) == (False, "PermissionError")


@pytest.mark.parametrize(
    "attempt",
    ["open(path, 'w')", "open(path, 'a')", "open(path, 'r+')", "os.open(path, os.O_CREAT | os.O_RDWR)", "os.remove(path)",
     "os.rename(path, path + '2')", "os.truncate(path, 0)", "os.rename('program.py', path)", "shutil.rmtree(folder)",
     "os.symlink(path, 'here'); open('here', 'w')", "os.mkdir(path + '2')", "os.chmod(path, 0)"],
)  # fmt: skip
def test_files_elsewhere_stay_as_they_are(tmp_path: Path, attempt: str) -> None:
    path = tmp_path / "kept"
    path.write_text("kept")
    verdict = run(f"import os, shutil\npath, folder = {str(path)!r}, {str(tmp_path)!r}\n{attempt}", LIMITS)
    assert not verdict.passed
    assert path.read_text() == "kept"
    assert [p.name for p in tmp_path.iterdir()] == ["kept"]
    assert path.stat().st_mode & 0o777


def test_its_own_folder_is_writable_small_and_gone_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert run("import os\nopen('a', 'w').write('x')\nos.rename('a', 'b')\nassert open('b').read() == 'x'", LIMITS).passed
    assert run("open('a', 'w').write('x' * (4 << 20))", LIMITS).why == "OSError"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("guard", "attempt"),
    [
        ("jail.write_only_in(inside)", "open(inside + '/a', 'w').close(); open(outside + '/b', 'w')"),
        ("jail.write_only_in(inside)", "os.remove(outside + '/kept')"),
        ("jail.leave_network()", "socket.create_connection(('127.0.0.1', port), 5)"),
    ],
)
def test_the_kernel_refuses_it_too(tmp_path: Path, guard: str, attempt: str) -> None:
    """Without Python's own hook, as native code would."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "kept").touch()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        program = (
            "import os, socket, sys\nfrom bench import jail\n"
            f"inside, outside, port = {str(inside)!r}, {str(outside)!r}, {port}\n"
            f"if not {guard}: sys.exit(3)\ntry:\n    {attempt}\nexcept OSError: sys.exit(4)"
        )
        done = subprocess.run([sys.executable, "-B", "-c", program], cwd=JAIL.parent.parent, check=False, capture_output=True)
    if done.returncode == 3:
        pytest.skip("this kernel does not let us")
    assert done.returncode == 4, done.stderr.decode()
    assert [p.name for p in outside.iterdir()] == ["kept"]


def test_its_limits_are_those_that_were_asked_for() -> None:
    program = "\n".join(
        f"assert resource.getrlimit(resource.{name}) == ({value}, {value}), {name!r}"
        for name, value in [("RLIMIT_CPU", 1), ("RLIMIT_AS", 256 << 20), ("RLIMIT_CORE", 0), ("RLIMIT_NPROC", 1)]
    )
    assert run("import resource\n" + program, LIMITS).why == ""


def is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_what_it_left_in_its_group_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past all guards, as if native code had made a process."""
    jail, told = tmp_path / "jail.py", tmp_path / "pid"
    jail.write_text(
        "import os, time\npid = os.fork()\nif pid:\n    open(" + repr(str(told)) + ", 'w').write(str(pid))\n    os._exit(0)\n"
        "os.close(1)\ntime.sleep(1000)"
    )
    monkeypatch.setattr(sandbox, "JAIL", jail)
    assert run("pass", LIMITS).why == "ended early"
    left, deadline = int(told.read_text()), time.monotonic() + 30
    while is_alive(left):
        assert time.monotonic() < deadline, "it lives"
        time.sleep(0.01)


def test_nothing_is_left_behind() -> None:
    before = {p.pid for p in psutil.Process().children(recursive=True)}
    run("import time; time.sleep(1000)", Limits(cpu_s=5, wall_s=0.5))
    deadline = time.monotonic() + 30
    while {p.pid for p in psutil.Process().children(recursive=True)} - before:
        assert time.monotonic() < deadline, "a process was left"
        time.sleep(0.01)
