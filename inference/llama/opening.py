"""From settings to a loaded engine: check the file, load it, learn what this machine needs. Blocking.

Failures are EngineErrors whose message says what to do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from inference.backend import Vocab
from inference.config import EngineConfig
from inference.costs import CostTable
from inference.engine import Engine
from inference.llama.imprint import open_archive
from inference.llama.model import LlamaBackend
from inference.llama.room import plan_room
from inference.measure import (
    MachineKey,
    Measured,
    load_measured,
    machine_key,
    measure,
    save_measured,
    thread_candidates,
    usable_cpus,
)
from inference.memory_plan import following
from inference.memory_report import MemoryReport, describe, notice, taken
from inference.models.gguf import check
from inference.types import Costs, NoRoom

_log = logging.getLogger(__name__)


def open_engine(
    config: EngineConfig,
    path: Path,
    cache_dir: Path,
    on_progress: Callable[[float], None] | None = None,
    *,
    name: str = "",
    digest: str = "",
    on_memory: Callable[[MemoryReport], None] = lambda report: None,
) -> tuple[Engine, Vocab]:
    """Load the model at `path`, with less than the settings ask for where memory leaves no choice.

    on_progress: share of the weights loaded, 0 to 1, called from this thread. name: of the model, in sentences. on_memory: is
    told the plan, and then what came of it. digest: of the model's file, if it is known already. EngineError.
    """
    check(path)
    backend, config = _load(config, path, name, on_progress, on_memory)
    try:
        key = machine_key(path, build=backend.build, n_gpu_layers=config.n_gpu_layers)
        measured, is_kept = _measured(config, backend, key, cache_dir)
    except BaseException:
        backend.close()
        raise
    backend.set_threads(config.n_threads or (measured.n_threads if measured else 1))
    costs = Costs(
        config.prefill_ms_per_token or (measured.prefill_ms_per_token if measured else 1.0),
        config.step_ms or (measured.step_ms if measured else 1.0),
        on_cpu=backend.on_cpu,
    )
    _log.info("%s: %.1f ms per prompt token, %.1f ms per step", path.name, costs.prefill_ms_per_token, costs.step_ms)
    # costs that somebody set are to be relied on: then nothing is sized by what is measured
    is_set = bool(config.prefill_ms_per_token or config.step_ms)
    table = CostTable(costs, () if measured is None or is_set else measured.rows)

    def keep(table: CostTable) -> None:
        if measured is not None and is_kept and table.is_measured and table.rows != measured.rows:
            now = table.costs
            save_measured(cache_dir, key, Measured(measured.n_threads, now.prefill_ms_per_token, now.step_ms, table.rows))

    engine = Engine(
        backend,
        n_ctx=backend.n_ctx_seq,
        n_sequences=config.n_sequences,
        costs=costs,
        table=table,
        chunk_ms=config.chunk_ms,
        background_rows=config.background_rows,
        n_stowed=config.n_stowed if backend.can_stow else 0,
        stow_bytes=config.stow_bytes,
        archive=open_archive(config, backend, path, cache_dir, digest),
        save_every_s=config.save_every_s,
        on_end=keep,
    )
    return engine, backend.vocab


def _load(
    config: EngineConfig,
    path: Path,
    name: str,
    on_progress: Callable[[float], None] | None,
    on_memory: Callable[[MemoryReport], None],
) -> tuple[LlamaBackend, EngineConfig]:
    """The backend, and the settings that it was loaded with."""
    room = plan_room(config, path, name)
    on_memory(MemoryReport(room.plan, notices=room.notices))
    room.require()
    _log.info("memory: %s", describe(room.plan))
    for sentence in room.notices:
        if sentence != room.about_devices:  # the backend says that itself
            _log.warning("%s", sentence)
    further = following(room.sizes, room.config, room.plan)
    plan, told = room.plan, room.notices
    while True:
        applied = plan.applied(room.config)
        try:
            backend = _backend(applied, path, on_progress)
        except NoRoom as error:
            _log.warning("%s", error)
            lower = next(further, None)
            if lower is None:
                raise
            plan = lower
            sentence = notice(plan, room.config)
            told = tuple(dict.fromkeys((*room.notices, *([sentence] if sentence else []))))
            continue
        report = MemoryReport(plan, taken(backend.buffers), told)
        _log.info("memory: %.1f MB were planned, llama.cpp took %.1f", report.planned_bytes / 1e6, report.actual_bytes / 1e6)
        on_memory(report)
        return backend, applied


def _backend(config: EngineConfig, path: Path, on_progress: Callable[[float], None] | None) -> LlamaBackend:
    try:
        return LlamaBackend(config, path, on_progress=on_progress)
    except MemoryError:
        raise NoRoom(f"There is no memory left for {path}; end other programs, or choose a smaller model.") from None


def _measured(config: EngineConfig, backend: LlamaBackend, key: MachineKey, cache_dir: Path) -> tuple[Measured | None, bool]:
    """What this machine needs, from disk or measured now, and whether it is on disk; None: the settings say everything."""
    if config.n_threads and config.prefill_ms_per_token and config.step_ms:
        return None, False
    if config.n_threads:
        # another count than the kept one: what is measured is for this run alone
        return measure(backend, (config.n_threads,), chunk_ms=config.chunk_ms), False
    measured = load_measured(cache_dir, key)
    if measured is None:
        measured = measure(backend, thread_candidates(usable_cpus()), chunk_ms=config.chunk_ms)
        save_measured(cache_dir, key, measured)
    return measured, True
