"""Everything that a change must pass, part by part, with the time of each: `python -m tests.all`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PY = sys.executable
# many tests wait for processes, so one worker more than CPUs
SIDE_BY_SIDE = ["-m", "not real_model", "-n", str((os.cpu_count() or 1) + 1), "--dist", "worksteal"]
PARTS: dict[str, list[str]] = {
    "ruff": [PY, "-m", "ruff", "check", "."],
    "mypy --strict": [PY, "-m", "mypy"],
    "tidy and layers": [PY, "-m", "pytest", "tests/test_tidy.py", "tests/test_layers.py"],
    "tests": [PY, "-m", "pytest", *SIDE_BY_SIDE, "--ignore=tests/test_tidy.py", "--ignore=tests/test_layers.py"],
    "public cases": [PY, "-m", "tests.cases"],
    "real model": [PY, "-m", "pytest", "-m", "real_model"],
}
_TELLS = ("FAILED", "ERROR", "failed ", "E  ")  # how pytest and the cases' runner begin a line of a failure
_MOST_TOLD = 15


def main() -> int:
    results: list[tuple[str, int, float]] = []
    failures: list[str] = []
    for name, command in PARTS.items():
        sys.stdout.write(f"== {name}\n")
        sys.stdout.flush()
        started = time.monotonic()
        code, told = _run(command)
        results.append((name, code, time.monotonic() - started))
        failures += told if code else []
    sys.stdout.write("\n")
    sys.stdout.writelines(failures)  # once more, in front of the summary
    for name, code, seconds in results:
        sys.stdout.write(f"{name:20} {seconds:7.1f} s  {'ok' if code == 0 else 'FAILED'}\n")
    return int(any(code for _, code, _ in results))


def _run(command: list[str]) -> tuple[int, list[str]]:
    """Exit status, and the lines that tell a failure."""
    environment = {**os.environ, "MIDFILL_REQUIRE_MODEL": "1"}
    told = []
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, errors="replace") as running:
        assert running.stdout is not None
        for line in running.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            if line.startswith(_TELLS):
                told.append(line)
    return running.returncode, told[-_MOST_TOLD:]


if __name__ == "__main__":
    sys.exit(main())
