"""Fetch the editors and run the tests in them: `python -m tests.editors [pytest's arguments]`.

Without arguments all of them run, the kinds of editors side by side. With arguments, such as `-k neovim`, those are pytest's;
all editors are fetched anyway.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.editors import installed
from tests.editors.debian import Unavailable

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("neovim", "emacs", "vscode", "not neovim and not emacs and not vscode")  # of the tests, by name


def fetch() -> list[str]:
    """Everything that the tests need; why something can't be had, one sentence each."""
    needed: dict[str, Callable[[], installed.Program | Path]] = {
        **installed.PROGRAMS,
        "helix": lambda: installed.helix("trixie"),
        "pynvim": installed.pynvim,
        "code-server": installed.code_server,
        "extension": installed.vsix,
    }
    problems = []
    with ThreadPoolExecutor(len(needed)) as pool:
        for name, job in [(name, pool.submit(get)) for name, get in needed.items()]:
            try:
                found = job.result()
                what = found.version() if isinstance(found, installed.Program) else str(found)
                sys.stdout.write(f"{name:12} {what}\n")
            except Unavailable as error:
                problems.append(f"{name}: {error}")
            except (OSError, subprocess.CalledProcessError) as error:
                problems.append(f"{name}: {error}")
    return problems


def run(arguments: list[str], *, is_quiet: bool = False) -> int:
    """pytest's exit status. is_quiet: its output is printed when it has ended."""
    command = [sys.executable, "-m", "pytest", *arguments]
    environment = {**os.environ, "MIDFILL_TEST_EDITORS": "1", "MIDFILL_REQUIRE_MODEL": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, check=False, text=True, stdout=subprocess.PIPE if is_quiet else None,
        stderr=subprocess.STDOUT if is_quiet else None,
    )  # fmt: skip
    if is_quiet:
        sys.stdout.write(f"== {' '.join(arguments)}\n{done.stdout}")
        sys.stdout.flush()
    return done.returncode


def run_side_by_side() -> int:
    """Editors mostly wait for each other: one process for each kind. What asks the real model comes when these have ended."""
    parts = [["tests/editors", "-m", "not real_model", "-k", name] for name in PARTS]
    with ThreadPoolExecutor(len(parts)) as pool:
        codes = list(pool.map(lambda part: run(part, is_quiet=True), parts))
    codes.append(run(["tests/editors", "-m", "real_model"]))
    return max(codes)


def main(arguments: list[str]) -> int:
    started = time.monotonic()
    problems = fetch()
    for problem in problems:
        sys.stdout.write(f"CAN'T BE HAD: {problem}\n")
    if problems:
        return 1
    sys.stdout.write(f"the editors are there after {time.monotonic() - started:.0f} s ({installed.cache()})\n")
    sys.stdout.flush()
    code = run(arguments) if arguments else run_side_by_side()
    sys.stdout.write(f"in all {time.monotonic() - started:.0f} s\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
