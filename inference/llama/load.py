"""Opening a GGUF file.

Owns the native library's start, the model handle's life, and the sentences for files that can't be opened. Refuses to guess: a
file that is not what it should be raises `EngineError`.
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llama_cpp

from inference.llama.log import native_log
from inference.types import EngineError, NoRoom

_log = logging.getLogger(__name__)
_start_lock = threading.Lock()
_is_started = False
_OVERRIDE_BOOL = 2  # llama_model_kv_override_type


class ModelHandle:
    """A loaded model; freed when the last reference goes, so that no vocabulary outlives its memory."""

    def __init__(self, pointer: int, path: Path) -> None:
        self.pointer: Any = pointer
        self.path = path
        free = weakref.finalize(self, llama_cpp.llama_model_free, pointer)
        free.atexit = False  # at exit a decode may still run in a daemon thread; the system takes the memory back

    def metadata(self, key: str) -> str:
        """A scalar of the file's metadata as text; "" if there is none."""
        buffer = ctypes.create_string_buffer(256)
        n = llama_cpp.llama_model_meta_val_str(self.pointer, key.encode(), buffer, len(buffer))
        return "" if n < 0 else buffer.value.decode("utf-8", "replace")


def start_native() -> None:
    """Start the native library once per process, silenced first: it prints the devices that it finds."""
    global _is_started
    with _start_lock:
        native_log.install()
        if not _is_started:
            llama_cpp.llama_backend_init()
            _is_started = True


def open_model(
    path: Path,
    *,
    vocab_only: bool = False,
    n_gpu_layers: int = 0,
    devices: Any = None,
    on_progress: Callable[[float], None] | None = None,
) -> ModelHandle:
    """Load a model; on_progress is given the share loaded, 0.0 to 1.0. devices: an array of native handles that layers may lie
    on, ended by a null; None = all. Raises EngineError, NoRoom among them."""
    _check_file(path)
    start_native()
    overrides = (llama_cpp.llama_model_kv_override * 2)()  # the second one ends the list
    # SentencePiece files ask for a blank before every text; a prompt is put together from texts, and each would get one.
    overrides[0].tag, overrides[0].key = _OVERRIDE_BOOL, b"tokenizer.ggml.add_space_prefix"
    params = llama_cpp.llama_model_default_params()
    params.vocab_only = vocab_only
    params.n_gpu_layers = n_gpu_layers
    if devices is not None:
        params.devices = ctypes.cast(devices, ctypes.c_void_p)
    params.kv_overrides = ctypes.cast(overrides, type(params.kv_overrides))
    progress = llama_cpp.llama_progress_callback(lambda share, _: _report(on_progress, share))
    params.progress_callback = progress
    native_log.clear_errors()
    pointer = llama_cpp.llama_model_load_from_file(os.fsencode(path), params)
    if not pointer:
        raise _why_not(path, native_log.errors())
    return ModelHandle(pointer, path)


def _report(on_progress: Callable[[float], None] | None, share: float) -> bool:
    if on_progress is not None:
        try:
            on_progress(share)
        except Exception:  # native frames are above us
            _log.exception("the progress callback failed; the load goes on")
    return True  # false would end the load


def _check_file(path: Path) -> None:
    """Mistakes that can be named without the native library."""
    if path.is_dir():
        raise EngineError(f"{path} is a directory; give the path of a GGUF file in it.")
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except FileNotFoundError:
        raise EngineError(f"There is no model file {path}; check the path or run `midfill models pull`.") from None
    except OSError as error:
        raise EngineError(f"The model file {path} can't be read ({error.strerror}); check its permissions.") from error
    if len(magic) < 4:
        raise EngineError(f"The model file {path} is truncated (under 4 bytes); fetch it again.")
    if magic != b"GGUF":
        raise EngineError(f"{path} is not a GGUF file (it begins with {magic!r}); give the path of a model in GGUF format.")


def _why_not(path: Path, errors: tuple[str, ...]) -> EngineError:
    """For a load that failed, from what the native library said."""
    said = " ".join(errors)
    if "alloc" in said or "out of memory" in said:
        return NoRoom(
            f"There is not enough memory for {path}; choose a smaller model or put fewer layers on the GPU (n_gpu_layers)."
        )
    return EngineError(_what_is_wrong(path, said, errors))


def _what_is_wrong(path: Path, said: str, errors: tuple[str, ...]) -> str:
    if "unknown model architecture" in said:
        return f"The architecture of {path} is unknown to this llama.cpp; choose another model or a newer llama-cpp-python."
    if "not within the file bounds" in said or "failed to read" in said or "corrupted" in said:
        return f"The model file {path} is truncated or damaged; fetch it again."
    first = next((e for e in errors if "error" in e.lower() or "fail" in e.lower()), errors[0] if errors else "no reason given")
    return f"The model file {path} can't be loaded; fetch it again or choose another model (llama.cpp: {first})."
