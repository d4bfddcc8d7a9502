"""What memory this process can still have: of the machine, of its control group, of its own limits, and of devices.

Owns how these are read. Refuses to load native code: devices are given by whoever has asked llama.cpp after them.
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass

import psutil

from inference import hardware
from inference.hardware import Look
from inference.models.machine import free_ram


@dataclass(frozen=True, slots=True)
class DeviceFree:
    """is_shared: its memory is the machine's own, as on chips with one memory for both."""

    name: str
    free_bytes: int
    total_bytes: int = 0
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class Free:
    """Bytes. ram: that can be had without pushing others out; 0 = not known. total: of the machine or its control group; 0 =
    not known. address: what the limits of this process let it map besides (`ulimit -v`); None = no limit."""

    ram: int
    total: int = 0
    address: int | None = None
    devices: tuple[DeviceFree, ...] = ()

    @property
    def device(self) -> int:
        return sum(device.free_bytes for device in self.devices)

    @property
    def is_shared(self) -> bool:
        return any(device.is_shared for device in self.devices)


def look_free(look: Look | None = None, devices: tuple[DeviceFree, ...] = ()) -> Free:
    """The facts of this moment."""
    look = look or Look()
    return Free(free_ram(look), hardware.memory(look).total, free_address(), devices)


def free_address() -> int | None:
    """Bytes of address space that the limits of this process leave; None = there is no such limit."""
    if sys.platform == "win32":
        return None
    import resource

    left: list[int] = []
    with contextlib.suppress(psutil.Error, OSError, ValueError):
        used = psutil.Process().memory_info()
        for limit, n_used in ((resource.RLIMIT_AS, used.vms), (resource.RLIMIT_DATA, getattr(used, "data", 0))):
            most = resource.getrlimit(limit)[0]
            if most != resource.RLIM_INFINITY:
                left.append(max(0, most - n_used))
    return min(left, default=None)
