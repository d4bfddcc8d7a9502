"""A machine as the tests say: files below a directory, and programs that are shell scripts on its PATH."""

from __future__ import annotations

from pathlib import Path

from inference.hardware import Look


def machine(root: Path, files: dict[str, str] | None = None, *, platform: str = "linux", arch: str = "x86_64") -> Look:
    """files: path → text; a path that ends with "/" is an empty directory."""
    (root / "bin").mkdir(parents=True, exist_ok=True)
    for name, text in (files or {}).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir(exist_ok=True)
        else:
            path.write_text(text)
    return Look(root, platform, arch, {"PATH": str(root / "bin")}, timeout_s=60)


def program(look: Look, name: str, script: str) -> Path:
    """A program of that name on the machine's PATH."""
    path = look.root / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path
