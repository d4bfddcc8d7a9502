"""Build against machine: which difference is which finding, and the command that is given for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inference.accelerators import Accelerator, Kind
from inference.config import EngineConfig
from inference.hardware import Look
from lsp_server.doctor import engine as checks
from lsp_server.doctor.commands import requirement
from lsp_server.doctor.findings import Finding, Level
from lsp_server.doctor.native import Answer
from tests.inference.machine import machine, program

CONFIG = EngineConfig()
RTX = Accelerator(Kind.CUDA, "RTX 4090", 24 << 30, 23 << 30, "560")
VERSION = requirement().partition("==")[2]


def build(**changed: Any) -> dict[str, Any]:
    cpu = {"name": "CPU", "description": "x", "kind": "cpu", "total_bytes": 1, "free_bytes": 1}
    plain = {"version": VERSION, "backends": ["CPU"], "devices": [cpu], "cpu_features": ["AVX", "AVX2"], "can_offload": False}
    return {**plain, **changed}


def with_cuda(*, device: bool) -> dict[str, Any]:
    card = {"name": "CUDA0", "description": "RTX 4090", "kind": "gpu", "total_bytes": 24 << 30, "free_bytes": 23 << 30}
    return build(backends=["CUDA", "CPU"], devices=[card] if device else [], can_offload=device)


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """A machine with a CPU of AVX2 and a compiler."""
    made = machine(tmp_path, {"proc/cpuinfo": "flags : avx avx2\n", "etc/os-release": "ID=debian\n"})
    program(made, "cc", "")
    program(made, "c++", "")
    return made


def gpu(built: Mapping[str, Any], found: tuple[Accelerator, ...], n_gpu_layers: int, look: Look, **config: Any) -> Finding:
    (finding,) = checks.gpu(built, found, replace(CONFIG, n_gpu_layers=n_gpu_layers, **config), look)
    return finding


# -- a GPU that was asked for


def test_asked_for_and_absent_in_the_build(look: Look) -> None:
    program(look, "nvcc", "")
    got = gpu(build(), (RTX,), 20, look)
    assert got.level is Level.WARNING
    assert "n_gpu_layers is 20" in got.text and "no back end for a GPU (only CPU): the CPU is used" in got.text
    assert 'CMAKE_ARGS="-DGGML_CUDA=on"' in got.do and f"llama-cpp-python=={VERSION}" in got.do and "n_gpu_layers = 0" in got.do
    assert "first" not in got.do  # nothing is missing


def test_asked_for_and_absent_everywhere(look: Look) -> None:
    got = gpu(build(), (), 20, look)
    assert got.level is Level.WARNING and "the CPU is used" in got.text and got.do == "set n_gpu_layers = 0"


def test_asked_for_and_the_driver_is_broken(look: Look) -> None:
    got = gpu(with_cuda(device=False), (replace(RTX, lacks="no driver; install it"),), 20, look)
    assert got.level is Level.WARNING and "CUDA finds no device" in got.text and "install it" in got.do


def test_asked_for_and_there(look: Look) -> None:
    assert gpu(with_cuda(device=True), (RTX,), 20, look) == Finding(Level.OK, "gpu", "CUDA holds up to 20 layers")
    assert gpu(with_cuda(device=True), (RTX,), -1, look).level is Level.OK


def test_minus_one_asks_only_if_somebody_wrote_it(look: Look) -> None:
    assert gpu(build(), (), -1, look).level is Level.OK
    got = gpu(build(), (), -1, look, explicit=frozenset({"n_gpu_layers"}))
    assert got.level is Level.WARNING and "n_gpu_layers is -1" in got.text


# -- a GPU that was left to us


def test_unused_by_the_build_is_only_a_note(look: Look) -> None:
    got = gpu(build(), (RTX,), -1, look)
    assert got.level is Level.NOTE and "RTX 4090 (CUDA, 25.8 GB)" in got.text and "-DGGML_CUDA=on" in got.do
    assert got.do.startswith("first install the CUDA toolkit, then `CMAKE_ARGS=")  # there is no nvcc


@pytest.mark.parametrize(("kind", "option"), [(Kind.ROCM, "HIP"), (Kind.METAL, "METAL"), (Kind.VULKAN, "VULKAN")])
def test_each_kind_has_its_option(kind: Kind, option: str, look: Look) -> None:
    assert f'CMAKE_ARGS="-DGGML_{option}=on"' in gpu(build(), (replace(RTX, kind=kind),), -1, look).do


def test_a_gpu_that_cant_be_used_yet(look: Look) -> None:
    got = gpu(build(), (replace(RTX, lacks="no driver; install it"),), -1, look)
    assert got.level is Level.NOTE and "the CPU is used" in got.text and got.do == "no driver; install it"


def test_none_anywhere(look: Look) -> None:
    got = gpu(build(), (), -1, look)
    assert got.level is Level.OK and "the CPU is used" in got.text


def test_switched_off(look: Look) -> None:
    assert gpu(build(), (RTX,), 0, look).level is Level.NOTE
    assert gpu(build(), (), 0, look).level is Level.OK


def test_built_for_a_gpu_that_is_not_there(look: Look) -> None:
    got = gpu(with_cuda(device=False), (), -1, look)
    assert got.level is Level.WARNING and "CUDA, which finds no device: the CPU is used" in got.text
    amd = Accelerator(Kind.ROCM, "RX 7900")
    assert "-DGGML_HIP=on" in gpu(with_cuda(device=False), (amd,), -1, look).do


# -- the engine itself


def engine(answer: Answer, look: Look, found: tuple[Accelerator, ...] = (), **config: Any) -> list[Finding]:
    return list(checks.engine(answer, found, replace(CONFIG, **config), look))


def test_a_good_one_names_its_devices(look: Look) -> None:
    first, second = engine(Answer({}, build=with_cuda(device=True)), look)
    assert first.level is Level.OK and first.text == f"llama-cpp-python {VERSION}, built with CUDA, CPU"
    assert "CUDA0" in second.text and "24.7 GB of 25.8 GB free" in second.text
    assert len(engine(Answer({}, build=build()), look)) == 1  # the CPU is no news


def test_another_version_than_the_one_asked_for(look: Look) -> None:
    (got,) = engine(Answer({}, build=build(version="0.0.1")), look)
    assert got.level is Level.WARNING and f"made for {VERSION}" in got.text and "--force-reinstall" in got.do


def test_not_installed(look: Look) -> None:
    error = "ModuleNotFoundError: No module named 'llama_cpp'"
    (got,) = engine(Answer(None, error, is_broken=True), look)
    assert got.level is Level.FAULT and got.text == "llama-cpp-python is not installed"
    assert "--force-reinstall" not in got.do and "--no-deps" not in got.do  # what it needs isn't there either
    (got,) = engine(Answer(None, error, is_broken=True), look, engine_wheels="https://host.test/cpu")
    assert "--extra-index-url https://host.test/cpu" in got.do and "CMAKE_ARGS" not in got.do
    (got,) = engine(Answer(None, error, is_broken=True), look, (RTX,))
    assert "-DGGML_CUDA=on" in got.do  # the right one at once


def test_installed_and_broken(look: Look) -> None:
    (got,) = engine(Answer(None, "while loading llama-cpp-python, it was ended by SIGILL", signal="SIGILL"), look)
    assert got.level is Level.FAULT and "SIGILL" in got.text and "--force-reinstall" in got.do and "-DGGML_NATIVE=on" in got.do


# -- CPU features


def cpu(built: list[str], look: Look) -> Finding:
    (finding,) = checks.cpu(build(cpu_features=built), CONFIG, look)
    return finding


def test_cpu_features_all_used(look: Look) -> None:
    assert cpu(["AVX", "AVX2", "REPACK", "OPENMP"], look).level is Level.OK


def test_cpu_features_the_build_leaves_unused(look: Look) -> None:
    got = cpu(["AVX"], look)
    assert got.level is Level.WARNING and "has AVX2, which" in got.text
    assert 'CMAKE_ARGS="-DGGML_NATIVE=on"' in got.do
    # pip keeps what it has built, whatever the options were: without this the same build would come back
    assert "--no-cache-dir" in got.do and "--no-binary llama-cpp-python" in got.do and "--no-deps" in got.do


def test_small_cpu_features_are_a_note(tmp_path: Path) -> None:
    look = machine(tmp_path / "vnni", {"proc/cpuinfo": "flags : avx avx2 avx_vnni\n"})
    got = cpu(["AVX", "AVX2"], look)
    assert got.level is Level.NOTE and "AVX_VNNI" in got.text


def test_cpu_features_that_the_machine_lacks(look: Look) -> None:
    got = cpu(["AVX", "AVX2", "AVX512"], look)
    assert got.level is Level.FAULT and "AVX512" in got.text and "crash" in got.text


def test_cpu_features_not_known(tmp_path: Path) -> None:
    assert cpu(["AVX"], machine(tmp_path / "bare")).level is Level.NOTE


# -- threads


def threads(n: int, quota: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Finding:
    monkeypatch.setattr(checks, "usable_cpus", lambda: 8)
    look = machine(tmp_path / "threads", {"sys/fs/cgroup/cpu.max": quota})
    (finding,) = checks.threads(replace(CONFIG, n_threads=n), look)
    return finding


@pytest.mark.parametrize(
    ("n", "quota", "level", "do"),
    [
        (0, "max 100000", Level.OK, ""),
        (8, "max 100000", Level.OK, ""),
        (9, "max 100000", Level.WARNING, "set n_threads = 8 or 0"),
        (0, "250000 100000", Level.WARNING, "set n_threads = 2"),
        (3, "250000 100000", Level.WARNING, "set n_threads = 2 or 0"),
        (2, "250000 100000", Level.OK, ""),
        (0, "50000 100000", Level.WARNING, "set n_threads = 1"),
        (0, "900000 100000", Level.OK, ""),
    ],
)
def test_threads(n: int, quota: str, level: Level, do: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    got = threads(n, quota, tmp_path, monkeypatch)
    assert (got.level, got.do) == (level, do), got


# -- compiler and wheels


def test_no_compiler(tmp_path: Path) -> None:
    look = machine(tmp_path / "bare", {"etc/os-release": "ID=fedora\n"})
    (got,) = checks.compiler(look, CONFIG, True)
    assert got.level is Level.NOTE and "dnf install gcc-c++" in got.do and "engine_wheels" in got.do
    (got,) = checks.compiler(look, CONFIG, False)
    assert got.level is Level.FAULT and "dnf install gcc-c++" in got.do
    (got,) = checks.compiler(look, replace(CONFIG, engine_wheels="/wheels"), False)
    assert got.level is Level.NOTE
    (broken,) = engine(Answer(None, "No module named 'llama_cpp'", is_broken=True), look)
    assert broken.do.startswith("first `dnf install gcc-c++`, then `CMAKE_ARGS=")


def test_wheels(tmp_path: Path) -> None:
    def level(directory: str) -> list[Level]:
        return [finding.level for finding in checks.wheels(replace(CONFIG, engine_wheels=directory))]

    assert level("") == [] and level("https://host.test/cpu") == []
    assert level(str(tmp_path / "none")) == [Level.WARNING] and level(str(tmp_path)) == [Level.WARNING]
    (tmp_path / "llama_cpp_python-1-py3-none-any.whl").touch()
    assert level(str(tmp_path)) == [Level.OK]
