"""The facts of a machine: memory under limits, and what was measured on it before."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from inference import accelerators, hardware
from inference.accelerators import Accelerator, Kind
from inference.hardware import Look, Memory
from inference.measure import MachineKey, Measured, cpu_name, save_measured, usable_cpus
from inference.models import machine
from inference.models.machine import Step, free_ram, look_at_machine, measured_steps

KEY = MachineKey("m.gguf", 1000, usable_cpus(), cpu_name(), "0.3 x86_64 CPU : AVX = 1", -1)


def keep(cache: Path, key: MachineKey, step_ms: float, *, at: int = 0) -> None:
    before = set(cache.glob("*"))
    save_measured(cache, key, Measured(2, 5.0, step_ms, ((1, step_ms), (2, 2 * step_ms))))
    for path in set(cache.glob("*")) - before:
        os.utime(path, (at, at))


def test_what_was_measured_here_is_found(tmp_path: Path) -> None:
    keep(tmp_path, KEY, 12.5)
    keep(tmp_path, replace(KEY, model_name="n.gguf", model_bytes=2000), 20.0)
    found = sorted(measured_steps(tmp_path, is_gpu=False), key=lambda step: step.n_bytes)
    assert found == [Step(1000, 12.5, 25.0), Step(2000, 20.0, 40.0)]


@pytest.mark.parametrize("change", [{"n_cpus": 1000}, {"cpu": "another"}, {"build": "0.3 CUDA : ARCHS = 900 | CPU : AVX = 1"}])
def test_what_was_measured_on_another_machine_does_not_count(tmp_path: Path, change: dict[str, object]) -> None:
    keep(tmp_path, replace(KEY, **change), 12.5)
    assert measured_steps(tmp_path, is_gpu=False) == ()


def test_processor_and_graphics_card_are_told_apart(tmp_path: Path) -> None:
    on_card = replace(KEY, build="0.3 x86_64 CUDA : ARCHS = 900 | CPU : AVX = 1")
    keep(tmp_path, on_card, 2.0)
    keep(tmp_path, replace(on_card, n_gpu_layers=0), 30.0)
    assert measured_steps(tmp_path, is_gpu=True) == (Step(1000, 2.0, 4.0),)
    assert measured_steps(tmp_path, is_gpu=False) == (Step(1000, 30.0, 60.0),)


def test_the_latest_of_two_builds_counts(tmp_path: Path) -> None:
    keep(tmp_path, KEY, 12.5, at=2000)
    keep(tmp_path, replace(KEY, build="0.2 x86_64 CPU : AVX = 1"), 99.0, at=1000)
    assert measured_steps(tmp_path, is_gpu=False) == (Step(1000, 12.5, 25.0),)


def test_a_measurement_without_a_step_of_two_rows(tmp_path: Path) -> None:
    save_measured(tmp_path, KEY, Measured(2, 5.0, 12.5, ((1, 12.5),)))
    assert measured_steps(tmp_path, is_gpu=False) == (Step(1000, 12.5, 0.0),)


def test_what_an_older_version_kept_is_passed_over_in_silence(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keep(tmp_path, KEY, 12.5)
    (path,) = tmp_path.glob("*.json")
    kept = json.loads(path.read_text())
    del kept["measured"]["rows"]
    path.write_text(json.dumps(kept))
    assert measured_steps(tmp_path, is_gpu=False) == ()
    assert caplog.records == []


@pytest.mark.parametrize("text", ["", "{", "null", "{}", '{"key": {}}', '{"key": {"model_name": 1}}', "[" * 100_000])
def test_damaged_files_are_passed_over(tmp_path: Path, text: str) -> None:
    (tmp_path / "measured-0.json").write_text(text)
    keep(tmp_path, KEY, 12.5)
    assert measured_steps(tmp_path, is_gpu=False) == (Step(1000, 12.5, 25.0),)
    assert measured_steps(tmp_path / "none", is_gpu=False) == ()


def group(root: Path, path: str, **files: str) -> None:
    directory = root / "sys/fs/cgroup" / path
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / f"memory.{name}").write_text(text + "\n")


def test_the_control_groups_limit_and_what_it_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "memory", lambda look: Memory(32 << 30, 20 << 30))
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/outer/inner\n")
    look = Look(root=tmp_path)
    assert free_ram(look) == 20 << 30
    group(tmp_path, "outer/inner", max="max", current="123")
    assert free_ram(look) == 20 << 30
    group(tmp_path, "outer", max=str(8 << 30), current=str(6 << 30), stat=f"anon 5\ninactive_file {1 << 30}\nactive_file 7")
    assert free_ram(look) == (3 << 30) + 7
    group(tmp_path, "outer/inner", max=str(4 << 30), current=str(5 << 30))
    assert free_ram(look) == 0


def test_this_machine() -> None:
    found = look_at_machine(0, Path("none"))
    assert found.free_bytes > 0
    assert (found.is_gpu, found.n_cpus, found.steps, found.memory) == (False, usable_cpus(), (), "memory")


def test_llama_cpp_is_asked_only_where_there_are_signs_of_a_card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from inference.llama import devices
    from inference.llama.devices import Build, Device, DeviceKind

    card = Device("CUDA0", "a card", DeviceKind.GPU, 80 << 30, 70 << 30)
    processor = Device("CPU", "a processor", DeviceKind.CPU, 32 << 30, 20 << 30)
    build = Build("0.3", ("CUDA", "CPU"), (card, processor, replace(card, free_bytes=1 << 30)), frozenset(), True, "")
    asked: list[None] = []

    def look_at_build() -> Build:
        asked.append(None)
        return build

    monkeypatch.setattr(devices, "look_at_build", look_at_build)
    monkeypatch.setattr(accelerators, "find", lambda look: ())
    assert not look_at_machine(-1, tmp_path).is_gpu and not asked
    monkeypatch.setattr(accelerators, "find", lambda look: (Accelerator(Kind.CUDA, "a card", lacks="a driver"),))
    assert not look_at_machine(-1, tmp_path).is_gpu and not asked
    monkeypatch.setattr(accelerators, "find", lambda look: (Accelerator(Kind.CUDA, "a card"),))
    found = look_at_machine(-1, tmp_path)
    assert (found.free_bytes, found.is_gpu, found.memory) == (71 << 30, True, "GPU memory")
    assert not look_at_machine(0, tmp_path).is_gpu  # the setting keeps it out
    build = replace(build, can_offload=False)
    assert not look_at_machine(-1, tmp_path).is_gpu


def test_a_native_library_that_does_not_load_is_no_reason_to_fail(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from inference.llama import devices

    def broken() -> None:
        raise OSError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(accelerators, "find", lambda look: (Accelerator(Kind.CUDA, "a card"),))
    monkeypatch.setattr(devices, "look_at_build", broken)
    assert not look_at_machine(-1, tmp_path).is_gpu
    assert machine.free_ram(Look()) > 0
