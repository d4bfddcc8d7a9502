"""What this machine has for a model: memory, CPUs, and what was measured here.

Owns how these facts are come by. Refuses every conclusion (see `choice`). A graphics card is asked after through llama.cpp,
which is loaded for that only where there are signs of one.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference import accelerators, hardware
from inference.hardware import Look
from inference.measure import MachineKey, cpu_name, load_measured, usable_cpus

_log = logging.getLogger(__name__)
_MOST_FILES = 1000
_MOST_BYTES = 1 << 16
_GPU_BACKENDS = ("CUDA", "ROCm", "HIP", "Metal", "MTL", "Vulkan", "SYCL", "MUSA")


@dataclass(frozen=True, slots=True)
class Step:
    """A step of one row and one of two (0 = not known), as they were measured here for a model of that size in bytes."""

    n_bytes: int
    ms: float
    two_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Machine:
    """free_bytes: of the memory that a model's weights would lie in. is_gpu: that is a graphics card's."""

    free_bytes: int
    is_gpu: bool
    n_cpus: int
    steps: tuple[Step, ...] = ()

    @property
    def memory(self) -> str:
        return "GPU memory" if self.is_gpu else "memory"


def look_at_machine(n_gpu_layers: int, cache_dir: Path) -> Machine:
    """The facts of this moment. n_gpu_layers: the setting; 0 keeps the graphics card out."""
    gpu_bytes = _gpu_bytes() if n_gpu_layers else 0
    is_gpu = gpu_bytes > 0
    return Machine(
        free_bytes=gpu_bytes or free_ram(Look()),
        is_gpu=is_gpu,
        n_cpus=usable_cpus(),
        steps=measured_steps(cache_dir, is_gpu=is_gpu),
    )


def free_ram(look: Look) -> int:
    """RAM in bytes that can be had without pushing others out, under the limits of the control group; 0 = not known."""
    available = hardware.memory(look).available
    for group in hardware.groups(look, "memory"):
        for most, current in (("max", "current"), ("limit_in_bytes", "usage_in_bytes")):  # of the second version, and the first
            limit, used = (look.text(f"{group}/memory.{name}").strip() for name in (most, current))
            if limit.isdecimal() and used.isdecimal() and int(limit) < hardware.NO_LIMIT:
                free = max(0, int(limit) - int(used) + _reclaimable(look.text(f"{group}/memory.stat")))
                available = min(available, free)
    return available


def _reclaimable(stat: str) -> int:
    """Bytes of files in memory, which make room when it is needed."""
    values = dict(line.split(" ", 1) for line in stat.splitlines() if " " in line)
    total = "total_" if "total_inactive_file" in values else ""  # the first version tells those of groups below apart
    names = (f"{total}active_file", f"{total}inactive_file")
    return sum(int(values.get(name, "0")) for name in names if values.get(name, "0").isdecimal())


def _gpu_bytes() -> int:
    """Free memory of the graphics cards that this build of llama.cpp can use; 0 = none."""
    if not any(found.is_usable for found in accelerators.find(Look())):
        return 0
    try:
        from inference.llama.devices import DeviceKind, look_at_build

        build = look_at_build()
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        _log.info("the graphics card can't be asked after (%s); the choice is made for the CPU", error)
        return 0
    if not build.can_offload:
        return 0
    return sum(device.free_bytes for device in build.devices if device.kind in (DeviceKind.GPU, DeviceKind.IGPU))


def measured_steps(cache_dir: Path, *, is_gpu: bool) -> tuple[Step, ...]:
    """What was kept of measurements on this machine as it is now, latest first; one for each size of a model's file."""
    try:
        files = sorted(cache_dir.glob("measured-*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    except OSError:
        return ()
    found: dict[int, Step] = {}
    for path in files[:_MOST_FILES]:
        key = _key(path)
        if key is None or (key.n_cpus, key.cpu) != (usable_cpus(), cpu_name()) or _is_of_gpu(key) != is_gpu:
            continue
        measured = load_measured(cache_dir, key)
        if measured is not None:
            found.setdefault(key.model_bytes, Step(key.model_bytes, measured.step_ms, dict(measured.rows).get(2, 0.0)))
    return tuple(found.values())


def _key(path: Path) -> MachineKey | None:
    try:
        with open(path, encoding="utf-8") as file:
            kept: Any = json.loads(file.read(_MOST_BYTES))
        if not kept["measured"]["rows"]:  # an older version's: measured anew at the next start
            return None
        key = MachineKey(**kept["key"])
        return key if isinstance(key.model_bytes, int) and isinstance(key.build, str) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _is_of_gpu(key: MachineKey) -> bool:
    return key.n_gpu_layers != 0 and any(f"{backend} :" in key.build for backend in _GPU_BACKENDS)
