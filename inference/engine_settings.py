"""Which settings make one engine differ from another, beside its model: for its start, and for comparing.

Owns the list. A server whose settings differ uses the engine that runs, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inference.config import EngineConfig

NAMES = (
    "n_ctx", "n_sequences", "n_stowed", "stow_bytes", "prompt_cache", "prompt_cache_bytes", "save_every_s", "n_threads",
    "n_gpu_layers", "gpu_devices", "kv_type", "flash_attention", "prefill_ms_per_token", "step_ms", "chunk_ms",
    "background_rows", "drafts", "draft_model", "linger_s", "unload_s",
)  # fmt: skip


def settings_of(config: EngineConfig) -> dict[str, Any]:
    """As JSON gives them back."""
    values = {name: getattr(config, name) for name in NAMES}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def given(config: EngineConfig) -> dict[str, Any]:
    """Those that somebody set, or that are not as usual: enough to make them anew from nothing."""
    usual = settings_of(EngineConfig())
    return {name: value for name, value in settings_of(config).items() if name in config.explicit or value != usual[name]}


def differing(mine: Mapping[str, object], others: Mapping[str, object]) -> tuple[str, ...]:
    """Names of what both know and have other values for."""
    return tuple(name for name in mine if name in others and mine[name] != others[name])
