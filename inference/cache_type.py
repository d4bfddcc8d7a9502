"""The settings `kv_type` and `flash_attention` against each other and against a model.

Owns what is done where they can't be had together: the cache is kept as f16, and the user is told. Refuses to fail over it.
"""

from __future__ import annotations

from dataclasses import replace

from inference.config import EngineConfig
from inference.memory_need import why_not_quantized
from inference.models.gguf_sizes import ModelSizes

_PLAIN = "f16"


def usable_cache(config: EngineConfig, sizes: ModelSizes) -> tuple[EngineConfig, str]:
    """The settings that can be had, and a sentence for the user; "" = all of them can."""
    if config.kv_type == _PLAIN:
        return config, ""
    plain = replace(config, kv_type=_PLAIN)
    if config.flash_attention == "off":
        return plain, (
            f"kv_type {config.kv_type} needs flash attention, but flash_attention is off: the cache is kept as f16. "
            "Set flash_attention = auto, or kv_type = f16."
        )
    if why := why_not_quantized(sizes, config.kv_type):
        return plain, f"kv_type {config.kv_type} is not possible, {why}: the cache is kept as f16. Set kv_type = f16."
    return config, ""
