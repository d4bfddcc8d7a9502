"""What this machine needs for a model: from the settings, from disk, or measured now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from inference.config import EngineConfig
from inference.costs import CostTable
from inference.llama.model import LlamaBackend
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


def key_of(config: EngineConfig, backend: LlamaBackend, path: Path) -> MachineKey:
    """What a measurement of the model at `path` is good for. OSError: the file is gone."""
    return machine_key(path, build=backend.build, n_gpu_layers=config.n_gpu_layers)


def measured_for(config: EngineConfig, backend: LlamaBackend, key: MachineKey, cache_dir: Path) -> tuple[Measured | None, bool]:
    """What this machine needs, and whether it is on disk; None: the settings say everything."""
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


def keeping(measured: Measured | None, is_kept: bool, key: MachineKey, cache_dir: Path) -> Callable[[CostTable], None]:
    """What is to be told the table at the end: what was learnt from steps goes to disk, if the table came from there."""

    def keep(table: CostTable) -> None:
        if measured is not None and is_kept and table.is_measured and table.rows != measured.rows:
            now = table.usual_costs
            save_measured(cache_dir, key, Measured(measured.n_threads, now.prefill_ms_per_token, now.step_ms, table.rows))

    return keep
