"""Children that end well, badly, late or never begin: each is told, none raises."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from inference.child import run


def python(code: str, timeout_s: float = 60) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def test_a_good_one() -> None:
    ended = run(python("import sys; print('out'); print('err', file=sys.stderr); print(len(sys.stdin.read()))"), 60)
    assert ended.is_good and ended.output.split() == [b"out", b"0"] and ended.error.strip() == "err" and ended.signal == ""


def test_an_exit_status() -> None:
    ended = run(python("raise SystemExit(3)"), 60)
    assert not ended.is_good and ended.code == 3 and "exit status 3" in ended.how


@pytest.mark.parametrize(
    ("name", "means"),
    [("SIGILL", "instruction that this CPU"), ("SIGSEGV", "memory"), ("SIGABRT", "gave up"), ("SIGKILL", "want of memory")],
)
def test_a_crash_names_its_signal(name: str, means: str) -> None:
    code = f"import os, signal; print('so far', flush=True); os.kill(os.getpid(), signal.{name})"
    ended = run(python(code), 60)
    assert ended.signal == name and name in ended.how and means in ended.how and ended.output.strip() == b"so far"


def test_none_to_start(tmp_path: Path) -> None:
    ended = run((str(tmp_path / "nothing"),), 60)
    assert ended.code is None and not ended.is_good and "could not be started" in ended.how


def test_a_late_one_is_ended_with_its_children(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    # the grandchild holds the pipe open: whoever waits for the pipe alone would wait for it
    code = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
        f"open({str(pid_file)!r}, 'w').write(str(p.pid)); print('begun', flush=True); p.wait()"
    )
    ended = run(python(code), 3)
    assert ended.is_late and not ended.is_good and ended.signal == "" and "too long" in ended.how
    grandchild = int(pid_file.read_text())
    for _ in range(500):
        if _is_gone(grandchild):
            break
        time.sleep(0.01)
    assert _is_gone(grandchild)


def _is_gone(pid: int) -> bool:
    """Also true of a dead process that nobody has waited for."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] == "Z"


def test_an_environment_of_its_own() -> None:
    ended = run(python("import os; print(os.environ.get('ZZ'), 'HOME' in os.environ)"), 60, {"ZZ": "1"})
    assert ended.output.split() == [b"1", b"False"]
