"""What this build of llama.cpp has: its back ends, the devices they see, the CPU features it was compiled for.

Owns the questions to the native registry. Refuses to open a model. Loading the native library is what may crash, so
whoever only wants to know asks in a child process.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import llama_cpp
from llama_cpp import _ggml

from inference.llama.load import start_native


class DeviceKind(StrEnum):
    """In the order of the native enumeration."""

    CPU = "cpu"
    GPU = "gpu"
    IGPU = "integrated gpu"
    ACCEL = "cpu accelerator"
    META = "several devices"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Device:
    """Bytes; 0 = not known."""

    name: str
    description: str
    kind: DeviceKind
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class Build:
    """backends: names in the native registry, e.g. ("CUDA", "CPU"). cpu_features: those that are on, e.g. AVX2.

    can_offload: a device other than the CPU can hold layers now. directory: where the native libraries are.
    """

    version: str
    backends: tuple[str, ...]
    devices: tuple[Device, ...]
    cpu_features: frozenset[str]
    can_offload: bool
    directory: str


def look_at_build() -> Build:
    """Starts the native library. Parts of the answer that an older or newer library can't give are empty."""
    start_native()
    features = parse_features(llama_cpp.llama_print_system_info().decode("utf-8", "replace"))
    backends = tuple(_backends()) or tuple(features)
    return Build(
        version=llama_cpp.__version__,
        backends=backends,
        devices=tuple(_devices()),
        cpu_features=frozenset(name for name, value in features.get("CPU", {}).items() if value not in ("0", "")),
        can_offload=bool(llama_cpp.llama_supports_gpu_offload()),
        directory=str(Path(llama_cpp.__file__).parent / "lib"),
    )


def look_at_devices() -> tuple[Device, ...]:
    """All that the native library knows, the CPU among them."""
    start_native()
    return tuple(_devices())


def native_devices(names: Collection[str]) -> Any:
    """An array of the native handles of those devices, ended by a null; None: this library can't tell them apart."""
    count, get, name = _counting()
    if count is None or get is None or name is None:
        return None
    found = [get(i) for i in range(count()) if _text(name(get(i))) in names]
    return (ctypes.c_void_p * (len(found) + 1))(*found, None)


def parse_features(text: str) -> dict[str, dict[str, str]]:
    """`CPU : AVX = 1 | AVX2 = 1 | CUDA : ARCHS = 900 | ` → {"CPU": {"AVX": "1", …}, "CUDA": {"ARCHS": "900"}}."""
    found: dict[str, dict[str, str]] = {}
    backend = "CPU"
    for part in text.split("|"):
        match = re.fullmatch(r"\s*(?:(\w+)\s*:)?\s*(\w+)\s*=\s*(.*?)\s*", part)
        if match is None:
            continue
        backend = match.group(1) or backend
        found.setdefault(backend, {})[match.group(2)] = match.group(3)
    return found


def _function(name: str, result: Any, *arguments: Any) -> Callable[..., Any] | None:
    """A function of the native registry, which the package doesn't bind; None if this library has none of that name."""
    try:
        function = getattr(_ggml.libggml, name)
    except AttributeError:
        return None
    function.restype, function.argtypes = result, list(arguments)
    return function  # type: ignore[no-any-return]


def _backends() -> Iterator[str]:
    count = _function("ggml_backend_reg_count", ctypes.c_size_t)
    get = _function("ggml_backend_reg_get", ctypes.c_void_p, ctypes.c_size_t)
    name = _function("ggml_backend_reg_name", ctypes.c_char_p, ctypes.c_void_p)
    if count is None or get is None or name is None:
        return
    for i in range(count()):
        yield _text(name(get(i)))


def _counting() -> tuple[Callable[..., Any] | None, Callable[..., Any] | None, Callable[..., Any] | None]:
    """How many devices there are, each by its number, and its name."""
    return (
        _function("ggml_backend_dev_count", ctypes.c_size_t),
        _function("ggml_backend_dev_get", ctypes.c_void_p, ctypes.c_size_t),
        _function("ggml_backend_dev_name", ctypes.c_char_p, ctypes.c_void_p),
    )


def _devices() -> Iterator[Device]:
    count, get, name = _counting()
    describe = _function("ggml_backend_dev_description", ctypes.c_char_p, ctypes.c_void_p)
    kind = _function("ggml_backend_dev_type", ctypes.c_int, ctypes.c_void_p)
    size = ctypes.POINTER(ctypes.c_size_t)
    memory = _function("ggml_backend_dev_memory", None, ctypes.c_void_p, size, size)
    if count is None or get is None or name is None or describe is None or kind is None or memory is None:
        return
    kinds = tuple(DeviceKind)
    for i in range(count()):
        device = get(i)
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        memory(device, ctypes.byref(free), ctypes.byref(total))
        number = kind(device)
        which = kinds[number] if 0 <= number < len(kinds) - 1 else DeviceKind.OTHER
        yield Device(_text(name(device)), _text(describe(device)), which, total.value, free.value)


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")
