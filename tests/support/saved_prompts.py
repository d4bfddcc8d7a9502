"""Saved prompts for tests: records that say which tokens they are of, and where they are kept."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from inference.prompt_cache.index import Chain, Entry
from inference.prompt_cache.record import Record, encode
from inference.prompt_cache.store import Put, Store
from inference.sequence import pack

OF, OTHER = b"f" * 32, b"g" * 32
NOW = 1_800_000_000.0


def tokens(i: int, n: int = 300) -> tuple[int, ...]:
    """No two of these begin alike."""
    return (i, *((i * 31 + k * 7) % 200 for k in range(n - 1)))


def record(i: int, n: int = 300, n_state: int = 2000) -> Record:
    state = np.random.default_rng(i).bytes(n_state)
    return Record(tokens(i, n), n, np.arange(8, dtype=np.float32) + i, state)


def entry(of: Record, seed: bytes = OF) -> tuple[Entry, Chain]:
    chain = Chain(pack(of.tokens), seed)
    return Entry(chain.path(len(of.tokens)), len(of.tokens), of.n_prompt, of.n_bytes, chain.blocks), chain


class Kept:
    """A store whose clock stands still until it is moved."""

    def __init__(self, directory: Path, max_bytes: int = 1 << 30, *, hourly_bytes: int = 1 << 30, free: int = 1 << 40) -> None:
        self.now = NOW
        self.store = Store(directory, max_bytes, hourly_bytes=hourly_bytes, now=lambda: self.now, free_bytes=lambda path: free)
        self.said = self.store.open()

    def put(self, i: int, n: int = 300, n_state: int = 2000, **more: Any) -> Put:
        of = record(i, n, n_state)
        return self.store.put(OF, entry(of)[0], encode(of, OF), **more)

    def get(self, i: int, n: int = 300) -> bytes | None:
        return self.store.get(OF, entry(record(i, n))[0].path)

    def has(self, i: int, n: int = 300, n_state: int = 2000) -> bool:
        return self.get(i, n) == b"".join(encode(record(i, n, n_state), OF))

    @property
    def n_bytes(self) -> int:
        return sum(each.entry.n_bytes for each in self.store.listed())


def wait_until(is_so: Callable[[], bool], seconds: float = 100.0) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until, "it never became so"
        time.sleep(0.002)


def value_files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*/*/*.val"))


def run_python(code: str, *arguments: str, before: list[str] | None = None) -> str:
    """What a process of its own writes to standard output."""
    root = Path(__file__).resolve().parent.parent.parent
    command = [*(before or []), sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def mounting(commands: str) -> list[str]:
    """A prefix that mounts in a namespace of its own, then runs what follows. Skips where that is not possible."""
    unshare = ["unshare", "--mount", *([] if os.getuid() == 0 else ["--map-root-user"]), "sh", "-e", "-c"]
    try:
        can = subprocess.run([*unshare, "mount -t tmpfs none /mnt"], capture_output=True, timeout=60).returncode == 0
    except OSError:
        can = False
    if not can:
        import pytest  # not in the processes that tests start

        pytest.skip("no file system can be mounted here")
    return [*unshare, f'{commands}; exec "$@"', "sh"]
