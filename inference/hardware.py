"""What this machine has: CPU features, CPU quota and memory, as far as files and small programs tell.

Owns the reading of them. Refuses to fail and to wait: what can't be found out in time is "not known" (empty, None or 0). Knows
nothing of what llama.cpp was built for (`inference.llama.devices`) nor of graphics cards (`inference.accelerators`).
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from platform import machine as machine_name

import psutil

from inference import child

_MOST_BYTES = 1 << 20
NO_LIMIT = 1 << 60  # control groups of version 1 write a huge number where there is no limit

# Feature as llama.cpp names it: what the kernel calls what it needs.
_X86 = {
    "SSE3": ("pni",),
    "SSSE3": ("ssse3",),
    "AVX": ("avx",),
    "AVX2": ("avx2",),
    "F16C": ("f16c",),
    "FMA": ("fma",),
    "BMI2": ("bmi2",),
    "AVX_VNNI": ("avx_vnni",),
    "AVX512": ("avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"),
    "AVX512_VBMI": ("avx512vbmi",),
    "AVX512_VNNI": ("avx512_vnni",),
    "AVX512_BF16": ("avx512_bf16",),
    "AMX_INT8": ("amx_tile", "amx_int8"),
}
_ARM = {
    "NEON": ("asimd",),
    "ARM_FMA": ("asimd",),
    "FP16_VA": ("asimdhp",),
    "DOTPROD": ("asimddp",),
    "MATMUL_INT8": ("i8mm",),
    "SVE": ("sve",),
    "SME": ("sme",),
}
_MAC_ARM = {
    "NEON": "hw.optional.AdvSIMD",
    "FP16_VA": "hw.optional.arm.FEAT_FP16",
    "DOTPROD": "hw.optional.arm.FEAT_DotProd",
    "MATMUL_INT8": "hw.optional.arm.FEAT_I8MM",
    "SME": "hw.optional.arm.FEAT_SME",
}
KNOWN_FEATURES = frozenset(_X86) | frozenset(_ARM)


@dataclass(frozen=True, slots=True)
class Look:
    """How the machine is looked at. root: where its files are. environment: PATH and what else names places.

    Paths are given without the leading slash.
    """

    root: Path = Path("/")
    platform: str = sys.platform
    machine: str = field(default_factory=machine_name)
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    timeout_s: float = 5.0

    def text(self, path: str) -> str:
        """The file's text, "" if it can't be read."""
        try:
            with open(self.root / path, "rb") as file:
                return file.read(_MOST_BYTES).decode("utf-8", "replace")
        except OSError:
            return ""

    def names(self, directory: str) -> tuple[str, ...]:
        """Sorted names in a directory; none if it can't be listed."""
        try:
            return tuple(sorted(os.listdir(self.root / directory)))
        except OSError:
            return ()

    def has(self, path: str) -> bool:
        return os.path.exists(self.root / path)

    def tool(self, name: str, *directories: str) -> str:
        """Path of a program on PATH or in one of the directories; "" if there is none."""
        found = shutil.which(name, path=self.environment.get("PATH", ""))
        for directory in () if found else directories:
            found = found or shutil.which(name, path=str(self.root / directory))
        return found or ""

    def ask(self, *command: str) -> str:
        """What a program writes; "" if it isn't there, fails or takes too long."""
        ended = child.run(command, self.timeout_s, {**self.environment, "LC_ALL": "C"})
        return ended.output.decode("utf-8", "replace").strip() if ended.is_good else ""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes; 0 = not known. A limit of the control group counts as the total."""

    total: int = 0
    available: int = 0


def cpu_features(look: Look) -> frozenset[str]:
    """Those of `KNOWN_FEATURES` that the CPU and the kernel offer; empty = not known."""
    if look.platform == "darwin":
        return _mac_features(look)
    flags: frozenset[str] = frozenset()
    for line in look.text("proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip().lower() in ("flags", "features"):
            flags = frozenset(value.split())
            break
    wanted = _ARM if _is_arm(look) else _X86
    return frozenset(feature for feature, needs in wanted.items() if flags.issuperset(needs))


def _is_arm(look: Look) -> bool:
    return look.machine.lower() in ("arm64", "aarch64")


def _mac_features(look: Look) -> frozenset[str]:
    if _is_arm(look):
        has = {feature for feature, key in _MAC_ARM.items() if look.ask("sysctl", "-n", key) == "1"}
        return frozenset(has | {"ARM_FMA"}) if has else frozenset()
    said = look.ask("sysctl", "-n", "machdep.cpu.features", "machdep.cpu.leaf7_features").lower()
    names = {"sse3": "pni", "avx1.0": "avx", "avx512vnni": "avx512_vnni"}
    flags = {names.get(flag, flag) for flag in said.split()}
    return frozenset(feature for feature, needs in _X86.items() if flags.issuperset(needs))


def cpu_quota(look: Look) -> float | None:
    """CPUs' worth of time that the control group allows, in whichever version and at whatever depth; None = no quota."""
    quotas = []
    for group in groups(look, "cpu"):
        used = look.text(f"{group}/cpu.max").split() or [
            look.text(f"{group}/cpu.cfs_quota_us").strip(),
            look.text(f"{group}/cpu.cfs_period_us").strip(),
        ]
        if len(used) == 2 and used[0].isdecimal() and used[1].isdecimal() and int(used[1]):
            quotas.append(int(used[0]) / int(used[1]))
    return min(quotas, default=None)


def memory(look: Look) -> Memory:
    """RAM of the machine, or what the control group lets this process have of it."""
    try:
        whole = psutil.virtual_memory()
        total, available = int(whole.total), int(whole.available)
    except (OSError, RuntimeError, AttributeError):
        total = available = 0
    for group in groups(look, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = look.text(f"{group}/{name}").strip()
            if limit.isdecimal() and 0 < int(limit) < NO_LIMIT:
                total = min(total or int(limit), int(limit))
                available = min(available or total, total)
    return Memory(total, available)


def groups(look: Look, controller: str) -> list[str]:
    """Directories of this process's control groups, from its own one up to the root."""
    top = "sys/fs/cgroup"
    found: list[str] = [top]
    for line in look.text("proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            bases = [top, f"{top}/unified"]
        elif controller in controllers.split(","):
            bases = [f"{top}/{controllers}", f"{top}/{controller}"]
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", ".", "..")]
        for base in bases:
            found += ["/".join([base, *parts[:n]]) for n in range(len(parts), -1, -1)]
    return list(dict.fromkeys(found))


def system_name(look: Look) -> tuple[str, ...]:
    """Names of the system, nearest first: `ID` and `ID_LIKE` of os-release, or "darwin", "win32"."""
    if look.platform != "linux":
        return (look.platform,)
    values: dict[str, str] = {}
    for line in (look.text("etc/os-release") or look.text("usr/lib/os-release")).splitlines():
        name, _, value = line.partition("=")
        values[name.strip()] = value.strip().strip("\"'").lower()
    return tuple(f"{values.get('ID', '')} {values.get('ID_LIKE', '')}".split())


def has_compiler(look: Look) -> bool:
    """Whether a C and a C++ compiler can be started: what CC and CXX name, or the usual names."""

    def found(variable: str, *usual: str) -> bool:
        named = look.environment.get(variable, "").split()
        return any(look.tool(name) for name in (named[:1] or usual))

    if look.platform == "win32":
        programs = [look.environment.get(name, "") for name in ("ProgramFiles", "ProgramFiles(x86)")]
        studio = any(os.path.isdir(os.path.join(each, "Microsoft Visual Studio")) for each in programs if each)
        return studio or found("CXX", "cl", "clang++", "g++")
    return found("CC", "cc", "gcc", "clang") and found("CXX", "c++", "g++", "clang++")
