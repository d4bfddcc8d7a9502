"""What a setting may be: bounds of numbers, choices of words, and how a value is written for people.

Owns no setting and no default; those stand with their room.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from inference.call import MAX_CANDIDATES

WANTED = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "tuple[str, ...]": "a list of texts",
    "ByLanguage": "a table of language ids, each a table of settings",
}


@dataclass(frozen=True, slots=True)
class Bound:
    """Lowest and highest value of a number, or the choices of a word."""

    low: int = 0
    high: int = 0
    choices: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.choices:
            return " or ".join(self.choices)
        return f"from {self.low} to {self.high}"

    def has(self, value: Any) -> bool:
        if self.choices:
            return value in self.choices
        return bool(self.low <= value <= self.high)


_MS = Bound(0, 600_000)
BOUNDS = {
    "max_tokens": Bound(1, 4096),
    "n_candidates": Bound(1, MAX_CANDIDATES),
    "reply_deadline_ms": _MS,
    "adopt_ms": _MS,
    "background": Bound(choices=("auto", "on", "off")),
    "idle_ms": _MS,
    "debounce_ms": Bound(0, 10_000),
    "wait_ms": Bound(0, 10_000),
    "back_off_ms": _MS,
    "after_delete": Bound(choices=("off", "on")),
    "inside_words": Bound(choices=("off", "on")),
    "in_comments": Bound(choices=("off", "on")),
    "in_strings": Bound(choices=("auto", "on", "off")),
    "result_cache_bytes": Bound(0, 1 << 30),
    "index_file_bytes": Bound(1024, 64 * 1024 * 1024),
    "max_file_bytes": Bound(1024, 256 * 1024 * 1024),
    "layout": Bound(choices=("auto", "anchored", "psm", "spm", "ltr")),
    "prefix_tokens": Bound(16, 1_000_000),
    "suffix_tokens": Bound(0, 1_000_000),
    "typed_tokens": Bound(8, 100_000),
    "prompt_tokens": Bound(0, 1_000_000),
    "reference_tokens": Bound(0, 1_000_000),
    "edited_tokens": Bound(0, 1_000_000),
    "rolling_tokens": Bound(0, 1_000_000),
    "cold_budget_ms": _MS,
    "n_ctx": Bound(256, 1_048_576),
    "n_sequences": Bound(1, 64),
    "n_stowed": Bound(0, 4096),
    "stow_bytes": Bound(0, 1 << 44),
    "prompt_cache_bytes": Bound(0, 1 << 44),
    "save_every_s": Bound(1, 86_400),
    "n_threads": Bound(0, 256),
    "n_gpu_layers": Bound(-1, 10_000),
    "kv_type": Bound(choices=("f16", "q8_0", "q4_0")),
    "flash_attention": Bound(choices=("auto", "on", "off")),
    "prefill_ms_per_token": Bound(0, 60_000),
    "step_ms": Bound(0, 60_000),
    "chunk_ms": Bound(1, 60_000),
    "background_rows": Bound(1, 4096),
    "drafts": Bound(choices=("auto", "off")),
    "linger_s": Bound(0, 86_400),
    "unload_s": Bound(0, 2_592_000),
}


def shown(value: object) -> str:
    """A value as one writes it into the settings file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        return "{ " + ", ".join(f"{name} = {shown(one)}" for name, one in value) + " }"
    if isinstance(value, tuple):
        return "[" + ", ".join(f'"{entry}"' for entry in value) + "]"
    return f'"{value}"' if isinstance(value, str) else f"{value}"
