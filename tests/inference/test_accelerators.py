"""Graphics hardware, found by files and small programs: real ones, broken ones, and what only looks like it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from inference.accelerators import Kind, find
from inference.hardware import Look
from tests.inference.machine import machine, program

MB = 1 << 20
RADV = {"usr/share/vulkan/icd.d/radeon_icd.x86_64.json": "{}", "usr/lib/x86_64-linux-gnu/libvulkan.so.1.3.239": ""}


def card(vendor: str, number: int = 1, kind: str = "0x030000") -> dict[str, str]:
    at = f"sys/bus/pci/devices/0000:0{number}:00.0/"
    return {at + "vendor": vendor + "\n", at + "class": kind + "\n", at + "device": "0x744c\n"}


def test_nvidia(tmp_path: Path) -> None:
    look = machine(tmp_path)
    lines = ("NVIDIA RTX 4090, 24564, 23000, 560.35", "NVIDIA GH, [N/A], [N/A], 560.35", "A, B, 9, 8, 7")
    program(look, "nvidia-smi", "".join(f'echo "{line}";' for line in lines))
    first, second, third = find(look)
    assert (first.kind, first.name, first.driver, first.is_usable) == (Kind.CUDA, "NVIDIA RTX 4090", "560.35", True)
    assert (first.total_bytes, first.free_bytes) == (24564 * MB, 23000 * MB)
    assert (second.name, second.total_bytes) == ("NVIDIA GH", 0)
    assert (third.name, third.total_bytes) == ("A, B", 9 * MB)


@pytest.mark.parametrize(
    "script", ["echo 'NVIDIA-SMI has failed: no driver answers'; exit 9", "/bin/sleep 600", "echo nonsense", ""]
)
def test_a_broken_nvidia_driver(script: str, tmp_path: Path) -> None:
    look = machine(tmp_path, {"proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu"})
    program(look, "nvidia-smi", script)
    (found,) = find(replace(look, timeout_s=1))
    assert found.kind is Kind.CUDA and found.driver == "550.54.14" and "nvidia-smi" in found.lacks


def test_nvidia_without_driver(tmp_path: Path) -> None:
    (found,) = find(machine(tmp_path, card("0x10de")))
    assert not found.is_usable and "install it" in found.lacks


def test_an_nvidia_sound_device_is_no_card(tmp_path: Path) -> None:
    assert find(machine(tmp_path, card("0x10de", kind="0x040300"))) == ()


def test_amd(tmp_path: Path) -> None:
    at = "sys/bus/pci/devices/0000:01:00.0/"
    files = {**card("0x1002"), at + "mem_info_vram_total": f"{1024 * MB}\n", at + "mem_info_vram_used": f"{24 * MB}\n"}
    (found,) = find(machine(tmp_path, files))
    assert found.kind is Kind.ROCM and "/dev/kfd" in found.lacks
    (found,) = find(machine(tmp_path, {"dev/kfd": ""}))
    assert found.is_usable and (found.total_bytes, found.free_bytes) == (1024 * MB, 1000 * MB) and "0x744c" in found.name


def test_amd_that_one_may_not_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # injected: root may open everything
    look = machine(tmp_path, {**card("0x1002"), "dev/kfd": ""})
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("kfd"))
    (found,) = find(look)
    assert "join the group" in found.lacks


def test_apple(tmp_path: Path) -> None:
    look = machine(tmp_path, platform="darwin", arch="arm64")
    program(look, "sysctl", 'case "$2" in hw.memsize) echo 17179869184;; *) echo Apple M2;; esac')
    (found,) = find(look)
    assert (found.kind, found.name, found.total_bytes) == (Kind.METAL, "Apple M2", 16 << 30)
    assert find(machine(tmp_path, platform="darwin", arch="x86_64")) == ()


def test_vulkan(tmp_path: Path) -> None:
    assert find(machine(tmp_path, RADV)) == ()  # a driver, but no device
    (found,) = find(machine(tmp_path, {"dev/dri/renderD128": ""}))
    assert found.kind is Kind.VULKAN and found.is_usable and "radeon_icd" in found.name
    (tmp_path / "usr/lib/x86_64-linux-gnu/libvulkan.so.1.3.239").unlink()
    (found,) = find(machine(tmp_path))
    assert "libvulkan" in found.lacks


def test_vulkan_on_the_cpu_is_none(tmp_path: Path) -> None:
    files = {"usr/share/vulkan/icd.d/lvp_icd.x86_64.json": "{}", "usr/lib/libvulkan.so.1": "", "dev/dri/renderD128": ""}
    look = machine(tmp_path, files)
    assert find(look) == ()
    named = Look(look.root, look.platform, look.machine, {**look.environment, "VK_DRIVER_FILES": "/x/nvidia_icd.json"})
    assert [each.kind for each in find(named)] == [Kind.VULKAN]


def test_the_best_way_comes_first(tmp_path: Path) -> None:
    look = machine(tmp_path, {**RADV, **card("0x1002"), "dev/kfd": "", "dev/dri/renderD128": ""})
    program(look, "nvidia-smi", 'echo "NVIDIA T4, 16000, 15000, 1"')
    assert [each.kind for each in find(look)] == [Kind.CUDA, Kind.ROCM, Kind.VULKAN]


def test_none(tmp_path: Path) -> None:
    assert find(machine(tmp_path)) == () and find(machine(tmp_path, platform="win32")) == ()
