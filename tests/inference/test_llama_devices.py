"""What the native library says of itself, and what a token costs in the cache."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import llama_cpp
import pytest

from inference.llama import devices
from inference.llama.devices import DeviceKind, look_at_build, parse_features


def test_this_build() -> None:
    build = look_at_build()
    assert build.version == llama_cpp.__version__ and "CPU" in build.backends
    assert [each.kind for each in build.devices].count(DeviceKind.CPU) == 1
    cpu = next(each for each in build.devices if each.kind is DeviceKind.CPU)
    assert cpu.total_bytes > 1 << 28 and cpu.name and cpu.description
    assert build.can_offload == any(each.kind in (DeviceKind.GPU, DeviceKind.IGPU) for each in build.devices)
    assert Path(build.directory).is_dir() and build.cpu_features


def test_features_by_back_end() -> None:
    text = "CUDA : ARCHS = 890 | USE_GRAPHS = 1 | CPU : SSE3 = 1 | AVX512 = 0 | REPACK = 1 | "
    assert parse_features(text) == {
        "CUDA": {"ARCHS": "890", "USE_GRAPHS": "1"},
        "CPU": {"SSE3": "1", "AVX512": "0", "REPACK": "1"},
    }
    assert parse_features("AVX = 1 | AVX2 = 0 | ") == {"CPU": {"AVX": "1", "AVX2": "0"}}  # as older ones say it
    assert parse_features("") == {} and parse_features("nonsense") == {}


def test_a_feature_that_is_off_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_cpp, "llama_print_system_info", lambda: b"CPU : AVX = 1 | AVX2 = 0 | ")
    assert look_at_build().cpu_features == {"AVX"}


def test_a_library_without_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bare:
        """A library none of whose names is known."""

        def __getattr__(self, name: str) -> ctypes._CFuncPtr:  # type: ignore[name-defined]
            raise AttributeError(name)

    monkeypatch.setattr(devices._ggml, "libggml", Bare())
    build = look_at_build()
    assert build.backends == ("CPU",) and build.devices == ()


def test_memory_is_not_mixed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The native function gives the free bytes first; where nothing is in use, both are the same."""
    usual = devices._function

    def memory(_device: object, free: Any, total: Any) -> None:
        free._obj.value, total._obj.value = 3, 7

    monkeypatch.setattr(devices, "_function", lambda name, *a: memory if name.endswith("dev_memory") else usual(name, *a))
    (device, *_) = look_at_build().devices
    assert (device.total_bytes, device.free_bytes) == (7, 3)
