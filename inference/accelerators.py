"""Graphics hardware that llama.cpp could use, found without llama.cpp: what is there, and what it still lacks.

Owns the signs of NVIDIA (CUDA), AMD (ROCm), Apple (Metal) and Vulkan. Refuses to fail, to wait and to load a driver: only
files are read and `nvidia-smi` or `sysctl` asked.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from enum import StrEnum

from inference.hardware import Look

_DISPLAY = "0x03"  # PCI class
_NVIDIA, _AMD = "0x10de", "0x1002"
_LIBRARIES = ("usr/lib", "usr/lib64", "lib", "lib64", "usr/local/lib", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu")
_DRIVERS = ("usr/share/vulkan/icd.d", "usr/local/share/vulkan/icd.d", "etc/vulkan/icd.d")
_SOFTWARE = re.compile(r"lvp|llvmpipe|swiftshader|swrast", re.IGNORECASE)  # Vulkan drivers that compute on the CPU


class Kind(StrEnum):
    """How llama.cpp reaches a device, best first."""

    CUDA = "CUDA"
    ROCM = "ROCm"
    METAL = "Metal"
    VULKAN = "Vulkan"


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A device, or a way to devices. Bytes: 0 = not known. lacks: what keeps it from being used; "" = nothing is known to."""

    kind: Kind
    name: str
    total_bytes: int = 0
    free_bytes: int = 0
    driver: str = ""
    lacks: str = ""

    @property
    def is_usable(self) -> bool:
        return not self.lacks


def find(look: Look) -> tuple[Accelerator, ...]:
    """Everything found, best way first."""
    return (*_nvidia(look), *_amd(look), *_apple(look), *_vulkan(look))


def _nvidia(look: Look) -> list[Accelerator]:
    tool = look.tool("nvidia-smi", "usr/bin", "usr/lib/wsl/lib", "Windows/System32")
    query = ("--query-gpu=name,memory.total,memory.free,driver_version", "--format=csv,noheader,nounits")
    found = [device for line in look.ask(tool, *query).splitlines() if (device := _from_line(line))] if tool else []
    if found:
        return found
    version = re.search(r"Kernel Module(?: for \S+)?\s+([\d.]+)", look.text("proc/driver/nvidia/version"))
    if version or look.has("dev/nvidiactl"):
        lacks = "its driver is loaded but nvidia-smi is missing or doesn't answer; reinstall the driver's tools"
        return [Accelerator(Kind.CUDA, "an NVIDIA card", driver=version.group(1) if version else "", lacks=lacks)]
    if _cards(look, _NVIDIA):
        lacks = "no NVIDIA driver is loaded; install it (in a container, pass the device in)"
        return [Accelerator(Kind.CUDA, "an NVIDIA card", lacks=lacks)]
    return []


def _from_line(line: str) -> Accelerator | None:
    """`NAME, MEBIBYTES, MEBIBYTES, DRIVER`; memory may be `[N/A]` where it is the machine's own."""
    parts = [part.strip() for part in line.rsplit(",", 3)]
    if len(parts) != 4 or not parts[0]:
        return None
    total, free = (int(part) << 20 if part.isdecimal() else 0 for part in parts[1:3])
    return Accelerator(Kind.CUDA, parts[0], total, free, driver=parts[3])


def _amd(look: Look) -> list[Accelerator]:
    found = []
    for card in _cards(look, _AMD):
        total, used = (look.text(f"{card}/mem_info_vram_{name}").strip() for name in ("total", "used"))
        n_total = int(total) if total.isdecimal() else 0
        n_free = max(0, n_total - int(used)) if used.isdecimal() else 0
        name = look.text(f"{card}/product_name").strip() or f"an AMD card ({look.text(f'{card}/device').strip()})"
        found.append(Accelerator(Kind.ROCM, name, n_total, n_free, lacks=_rocm_lacks(look)))
    return found


def _rocm_lacks(look: Look) -> str:
    if not look.has("dev/kfd"):
        return "there is no /dev/kfd; load the amdgpu driver (in a container, pass the device in)"
    if not os.access(look.root / "dev/kfd", os.R_OK | os.W_OK):
        return "you may not open /dev/kfd; join the group that owns it (render or video)"
    return ""


def _apple(look: Look) -> list[Accelerator]:
    """Macs with Apple's own chips. Those with others are left on the CPU: their cards seldom gain anything."""
    if look.platform != "darwin" or look.machine != "arm64":
        return []
    memory = look.ask("sysctl", "-n", "hw.memsize")
    name = look.ask("sysctl", "-n", "machdep.cpu.brand_string") or "an Apple chip"
    return [Accelerator(Kind.METAL, name, int(memory) if memory.isdecimal() else 0)]


def _vulkan(look: Look) -> list[Accelerator]:
    if look.platform == "win32":
        return [Accelerator(Kind.VULKAN, "a Vulkan driver")] if look.has("Windows/System32/vulkan-1.dll") else []
    if look.platform != "linux":
        return []
    drivers = [name for name in _vulkan_drivers(look) if not _SOFTWARE.search(name)]
    has_device = any(name.startswith("renderD") for name in look.names("dev/dri"))
    if not drivers or not (has_device or look.has("dev/nvidia0") or look.has("dev/dxg")):
        return []  # drivers come along with desktop packages: without a device they say nothing
    has_loader = any(name.startswith("libvulkan.so.1") for directory in _LIBRARIES for name in look.names(directory))
    lacks = "" if has_loader else "the Vulkan loader (libvulkan.so.1) is missing; install it"
    return [Accelerator(Kind.VULKAN, f"a card with the Vulkan driver {drivers[0].removesuffix('.json')}", lacks=lacks)]


def _vulkan_drivers(look: Look) -> list[str]:
    for variable in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES"):
        if named := look.environment.get(variable, ""):
            return [os.path.basename(path) for path in named.split(os.pathsep)]
    return [name for directory in _DRIVERS for name in look.names(directory) if name.endswith(".json")]


def _cards(look: Look, vendor: str) -> list[str]:
    """PCI devices of a vendor that are display controllers."""
    top = "sys/bus/pci/devices"
    return [
        f"{top}/{name}"
        for name in look.names(top)
        if look.text(f"{top}/{name}/vendor").strip() == vendor and look.text(f"{top}/{name}/class").startswith(_DISPLAY)
    ]
