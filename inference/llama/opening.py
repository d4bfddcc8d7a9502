"""From settings to a loaded engine: check the file, load it, learn what this machine needs. Blocking.

Failures are EngineErrors whose message says what to do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from inference.backend import Vocab
from inference.config import EngineConfig
from inference.engine import Engine
from inference.llama.model import LlamaBackend
from inference.measure import Measured, load_measured, machine_key, measure, save_measured, thread_candidates, usable_cpus
from inference.models.gguf import check
from inference.types import Costs

_log = logging.getLogger(__name__)


def open_engine(
    config: EngineConfig, path: Path, cache_dir: Path, on_progress: Callable[[float], None] | None = None
) -> tuple[Engine, Vocab]:
    """Load the model at `path`. on_progress: share of the weights loaded, 0 to 1, called from this thread."""
    check(path)
    backend = LlamaBackend(config, path, on_progress=on_progress)
    try:
        costs = _costs(config, backend, path, cache_dir)
    except BaseException:
        backend.close()
        raise
    engine = Engine(
        backend,
        n_ctx=backend.n_ctx_seq,
        n_sequences=config.n_sequences,
        costs=costs,
        chunk_ms=config.chunk_ms,
        background_rows=config.background_rows,
    )
    return engine, backend.vocab


def _costs(config: EngineConfig, backend: LlamaBackend, path: Path, cache_dir: Path) -> Costs:
    """Set the thread count, and tell what a token costs: from the settings, from disk, or measured now."""
    key = machine_key(path, build=backend.build, n_gpu_layers=config.n_gpu_layers)
    given = Costs(config.prefill_ms_per_token, config.step_ms)
    measured: Measured | None = None
    if not config.n_threads or not given.prefill_ms_per_token or not given.step_ms:
        if config.n_threads:
            # another count than the kept one: what is measured is for this run alone
            measured = measure(backend, (config.n_threads,))
        else:
            measured = load_measured(cache_dir, key)
            if measured is None:
                measured = measure(backend, thread_candidates(usable_cpus()))
                save_measured(cache_dir, key, measured)
    n_threads = config.n_threads or (measured.n_threads if measured else 1)
    backend.set_threads(n_threads)
    costs = Costs(
        given.prefill_ms_per_token or (measured.prefill_ms_per_token if measured else 1.0),
        given.step_ms or (measured.step_ms if measured else 1.0),
    )
    _log.info(
        "%s: %d threads, %.1f ms per prompt token, %.1f ms per step",
        path.name, n_threads, costs.prefill_ms_per_token, costs.step_ms,
    )  # fmt: skip
    return costs
