"""What this machine needs for a prompt token, for a step and for steps of more rows, and how many threads are best.

Owns the measurement, its key and its file. Refuses to fail over the file: unreadable, corrupt or unwritable means measured
anew. The thread count is measured because threads spin while they wait: as many as cores halve the speed on a busy machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol

from inference.backend import Backend, Outcome, Row
from inference.types import Costs, EngineError

_log = logging.getLogger(__name__)
_N_PREFILL = 32
_N_STEPS = 5
_TIE = 0.05  # a step this much slower than the fastest is as good, if it needs fewer threads


class Tunable(Backend, Protocol):
    def set_threads(self, n: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Measured:
    """rows: (number of rows, ms of one step of so many), ascending."""

    n_threads: int
    prefill_ms_per_token: float
    step_ms: float
    rows: tuple[tuple[int, float], ...] = ()

    @property
    def costs(self) -> Costs:
        return Costs(self.prefill_ms_per_token, self.step_ms)


@dataclass(frozen=True, slots=True)
class MachineKey:
    """What a measurement is good for; any difference means measuring anew."""

    model_name: str
    model_bytes: int
    n_cpus: int
    cpu: str
    build: str
    n_gpu_layers: int


def measure(
    backend: Tunable,
    candidates: Sequence[int],
    *,
    chunk_ms: float = 250.0,
    budget_s: float = 2.0,
    clock: Callable[[], float] = time.perf_counter,
) -> Measured:
    """Try thread counts, leave the best one set and the cache's sequence 0 empty; then time steps of more and more rows.

    The least of up to three prefill chunks of 32 rows and the median of 5 steps for each, in the order given; within 5 % the
    fewer threads win. No further candidate is tried once budget_s has passed, and the rows get as much again. chunk_ms: aimed
    length of a prefill chunk, whose number of rows is timed too. The cache must be empty. Raises EngineError if the model can't
    be run.
    """
    if not candidates:
        raise ValueError("no thread counts to try")
    started = clock()
    tried: list[Measured] = []
    _decode(backend, 0, 1)  # the first step touches all weights and is slower than any later one
    for n_threads in dict.fromkeys(candidates):
        if tried and clock() - started > budget_s:
            _log.info("measuring took more than %.1f s; %d threads and what follows are not tried", budget_s, n_threads)
            break
        backend.set_threads(n_threads)
        tried.append(_measure_one(backend, n_threads, budget_s / 5, clock))
    fastest = min(m.step_ms for m in tried)
    best = min((m for m in tried if m.step_ms <= fastest * (1 + _TIE)), key=lambda m: m.n_threads)
    backend.set_threads(best.n_threads)
    rows = _measure_rows(backend, best, chunk_ms, budget_s, clock)
    backend.truncate(0, 0)
    return replace(best, rows=rows)


def _measure_rows(
    backend: Tunable, best: Measured, chunk_ms: float, budget_s: float, clock: Callable[[], float]
) -> tuple[tuple[int, float], ...]:
    """Powers of two up to a background chunk's and a prefill chunk's rows, and the latter; each the median of up to three."""
    chunk = max(8, min(backend.n_batch, int(chunk_ms / max(best.prefill_ms_per_token, 1e-3))))
    most = min(max(_N_PREFILL, chunk), backend.n_batch)
    counts = sorted({chunk, *(2**k for k in range(1, most.bit_length()))})
    rows = [(1, best.step_ms)]
    backend.truncate(0, 0)
    _decode(backend, 0, 1)
    started = clock()
    for n in counts:
        times: list[float] = []
        while len(times) < 3 and (not times or clock() - started < budget_s / 2):
            backend.truncate(0, 0)
            began = clock()
            _decode(backend, 0, n)
            times.append((clock() - began) * 1000)
        rows.append((n, statistics.median(times)))
        if clock() - started > budget_s:
            _log.info("steps of more than %d rows are too slow to be timed now", n)
            break
    return tuple(rows)


def _measure_one(backend: Tunable, n_threads: int, limit_s: float, clock: Callable[[], float]) -> Measured:
    backend.truncate(0, 0)
    _decode(backend, 0, 1)  # threads start at the first step after a change
    chunks: list[float] = []
    started = clock()
    while len(chunks) < 3 and (not chunks or clock() - started < limit_s):
        backend.truncate(0, 0)
        began = clock()
        _decode(backend, 0, _N_PREFILL)
        chunks.append(clock() - began)
    steps = []
    for i in range(_N_STEPS):
        began = clock()
        _decode(backend, _N_PREFILL + i, 1)
        steps.append(clock() - began)
    # whatever else the machine does only makes a chunk longer; of steps the usual one is asked for, spinning threads included
    return Measured(n_threads, min(chunks) * 1000 / _N_PREFILL, statistics.median(steps) * 1000)


def _decode(backend: Backend, start: int, n: int) -> None:
    text = backend.vocab.encode(b"for item in items:\n    total += item.price * 3\n") or (0,)
    rows = [Row(0, pos, text[pos % len(text)], wants_logits=pos == start + n - 1) for pos in range(start, start + n)]
    outcome = backend.decode(rows)
    if outcome is not Outcome.OK:
        raise EngineError(f"The model can't be run ({outcome.value} on the first tokens); lower n_ctx or n_gpu_layers.")
    backend.logits(n - 1)  # a GPU has done the work only when the answer is asked for


def thread_candidates(n_cpus: int) -> tuple[int, ...]:
    """Thread counts worth trying, the safest first: one fewer than CPUs, all, half (cores are often counted twice)."""
    return tuple(dict.fromkeys((max(1, n_cpus - 1), n_cpus, max(1, n_cpus // 2))))


def usable_cpus() -> int:
    """CPUs that this process may use: its affinity, and the quota of its control group."""
    n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        n = min(n, math.ceil(int(quota) / int(period)))  # "max" is no number: no quota
    return max(1, n)


def cpu_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def machine_key(model: Path, *, build: str, n_gpu_layers: int) -> MachineKey:
    """Key of a model file on this machine. Raises OSError if the file is gone."""
    return MachineKey(model.name, model.stat().st_size, usable_cpus(), cpu_name(), build, n_gpu_layers)


def load_measured(cache_dir: Path, key: MachineKey) -> Measured | None:
    """What was kept for exactly this key; None = measure."""
    path = _file(cache_dir, key)
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _log.warning("the kept measurement %s can't be read (%s); measuring anew", path, error)
        return None
    measured = _parsed(kept, key)
    if measured is None:
        _log.warning("the kept measurement %s is damaged, or of an older version; measuring anew", path)
    return measured


def _parsed(kept: object, key: MachineKey) -> Measured | None:
    if not isinstance(kept, dict) or kept.get("key") != asdict(key) or not isinstance(kept.get("measured"), dict):
        return None
    values = kept["measured"]
    n_threads, prefill, step = (values.get(name) for name in ("n_threads", "prefill_ms_per_token", "step_ms"))
    if not (_is_count(n_threads) and n_threads <= 4096 and _is_time(prefill) and _is_time(step)):
        return None
    rows = values.get("rows")
    if not isinstance(rows, list) or not rows:
        return None
    table: dict[int, float] = {}
    for row in rows:
        if not (isinstance(row, list) and len(row) == 2 and _is_count(row[0]) and _is_time(row[1])):
            return None
        table[row[0]] = float(row[1])
    return Measured(n_threads, float(prefill), float(step), tuple(sorted(table.items())))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 1 << 20


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def save_measured(cache_dir: Path, key: MachineKey, measured: Measured) -> None:
    """Keep it, atomically; a failure is logged and costs a measurement at the next start."""
    path = _file(cache_dir, key)
    text = json.dumps({"key": asdict(key), "measured": asdict(measured)}, indent=1)
    temporary = ""
    try:
        cache_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, temporary = tempfile.mkstemp(dir=cache_dir, prefix=path.name)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        _log.warning("the measurement can't be kept in %s (%s); it will be made anew at the next start", cache_dir, reason)
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _file(cache_dir: Path, key: MachineKey) -> Path:
    digest = hashlib.sha256(json.dumps(asdict(key), sort_keys=True).encode()).hexdigest()
    return cache_dir / f"measured-{digest[:16]}.json"
