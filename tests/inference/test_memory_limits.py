"""A process whose memory is limited: the model is loaded with less, runs, and nothing is ever aborted."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.tiny_gguf import write_tiny

ROOT = Path(__file__).resolve().parents[2]
MB = 10**6

# Opens the model under each limit (bytes beyond what the process has mapped; 0 = none) and generates a few tokens.
CHILD = """
import gc, json, sys, psutil
from pathlib import Path
from inference.config import EngineConfig
from inference.llama.opening import open_engine
from inference.types import EngineError, GenerationRequest
path, cache, n_ctx, kind, *limits = sys.argv[1:]
config = EngineConfig(n_ctx=int(n_ctx), n_threads=1, n_gpu_layers=0, prefill_ms_per_token=1.0, step_ms=1.0)

def attempt(limit):
    if limit and kind == "address":
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + limit, resource.RLIM_INFINITY))
    told, events = [], []
    try:
        engine, _ = open_engine(config, Path(path), Path(cache), on_memory=told.append)
    except EngineError as error:
        return {"refused": str(error)}
    engine.submit(GenerationRequest(1, tuple(range(5, 45)), n_max=3), events.append)
    while engine.step():
        pass
    engine.close()
    engine.run_forever()
    report = told[-1]
    return {"finish": events[-1].finish, "n_ctx": engine.n_ctx, "kv_type": report.plan.options.kv_type,
            "notices": report.notices, "planned": report.planned_bytes, "actual": report.actual_bytes,
            "rss": psutil.Process().memory_info().rss}

for limit in map(int, limits):
    print(json.dumps(attempt(limit)), flush=True)
    gc.collect()
    if kind == "address":
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""


def opened(
    path: Path, cache: Path, n_ctx: int, *limits: int, kind: str = "address", before: Any = None
) -> list[dict[str, Any]]:
    command = [sys.executable, "-c", CHILD, str(path), str(cache), str(n_ctx), kind, *map(str, limits)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False, preexec_fn=before)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-800:]}"
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def long_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its cache and masks for 262,144 tokens take more than a gigabyte."""
    return write_tiny(tmp_path_factory.mktemp("limits") / "long.gguf", n_ctx=1 << 18)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
def test_a_limit_of_the_address_space(long_model: Path, tmp_path: Path) -> None:
    """From nothing to plenty: never an abort, and the more memory the longer the context."""
    limits = (20 * MB, 100 * MB, 500 * MB, 700 * MB, 900 * MB, 1400 * MB, 0)
    ends = opened(long_model, tmp_path, 1 << 18, *limits)
    assert len(ends) == len(limits)
    assert "needs at least" in ends[0]["refused"] and "ulimit" in ends[0]["refused"]
    ran = [end for end in ends if "finish" in end]
    assert len(ran) >= 4 and {end["finish"] for end in ran} <= {"length", "stop"}
    lengths = [end["n_ctx"] for end in ran]
    assert lengths == sorted(lengths) and lengths[0] < lengths[-1] == 1 << 18
    for end in ran:
        assert abs(end["planned"] / end["actual"] - 1) < 0.1
        lowered = end["n_ctx"] < 1 << 18
        assert len(end["notices"]) == lowered and all("n_ctx is" in told for told in end["notices"])


@contextlib.contextmanager
def control_group(n_bytes: int) -> Iterator[Path]:
    """A control group with that limit; skips where none may be made."""
    lines = (line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines())
    own = {controllers: path for _, controllers, path in lines}
    top = Path("/sys/fs/cgroup")
    mine = top / "memory" / own["memory"].strip("/") if "memory" in own else top / own.get("", "").strip("/")
    group = mine / f"midfill-test-{os.getpid()}"
    limit = group / ("memory.limit_in_bytes" if "memory" in own else "memory.max")
    try:
        group.mkdir()
        if not limit.exists():
            raise FileNotFoundError(2, "its files are not there")
        limit.write_text(str(n_bytes))
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        pytest.skip(f"no control group can be made here ({error.strerror})")
    try:
        yield group
    finally:
        group.rmdir()


def test_a_control_group(long_model: Path, tmp_path: Path) -> None:
    with control_group(600 * MB) as group:
        (end,) = opened(
            long_model, tmp_path, 1 << 18, 0, kind="group", before=lambda: (group / "cgroup.procs").write_text(str(os.getpid()))
        )
    assert end["finish"] in ("length", "stop") and 512 <= end["n_ctx"] < 1 << 18 and len(end["notices"]) == 1


@pytest.mark.real_model
def test_the_real_model_under_limits(real_model_path: Path, tmp_path: Path) -> None:
    """As it is asked for it would need 2.5 GB more than it has here; and its estimate besides llama.cpp's buffers is enough."""
    ends = opened(real_model_path, tmp_path, 32768, 1500 * MB)
    (end,) = ends
    assert end["finish"] in ("length", "stop") and 512 <= end["n_ctx"] < 32768
    assert abs(end["planned"] / end["actual"] - 1) < 0.1 and len(end["notices"]) == 1
