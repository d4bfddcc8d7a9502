"""Which state of the code a figure is of."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def revision() -> str:
    """The commit's short name, "+" behind it if files differ from it, "" outside of a repository."""
    name = _git("rev-parse", "--short", "HEAD")
    return name + "+" if name and _git("status", "--porcelain") else name


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
