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


def main() -> int:
    results: list[tuple[str, int, float]] = []
    for name, command in PARTS.items():
        sys.stdout.write(f"== {name}\n")
        sys.stdout.flush()
        started = time.monotonic()
        code = subprocess.run(command, cwd=ROOT, env={**os.environ, "MIDFILL_REQUIRE_MODEL": "1"}, check=False).returncode
        results.append((name, code, time.monotonic() - started))
    sys.stdout.write("\n")
    for name, code, seconds in results:
        sys.stdout.write(f"{name:20} {seconds:7.1f} s  {'ok' if code == 0 else 'FAILED'}\n")
    return int(any(code for _, code, _ in results))


if __name__ == "__main__":
    sys.exit(main())
