"""CPU features, quotas, memory, compilers: read from a machine made of files, and once from the real one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from inference.hardware import KNOWN_FEATURES, Look, cpu_features, cpu_quota, has_compiler, memory, system_name
from tests.inference.machine import machine, program

TOP = "sys/fs/cgroup"
ZEN4 = (
    "fpu sse2 pni ssse3 fma avx f16c avx2 bmi2 avx512f avx512dq avx512cd avx512bw avx512vl "
    "avx512_bf16 avx512vbmi avx512_vnni"
)


def x86(flags: str) -> dict[str, str]:
    return {"proc/cpuinfo": f"processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: {flags}\n\nprocessor\t: 1\nflags\t\t: fpu\n"}


def test_x86_features(tmp_path: Path) -> None:
    got = cpu_features(machine(tmp_path, x86(ZEN4)))
    assert got == {"SSE3", "SSSE3", "FMA", "AVX", "F16C", "AVX2", "BMI2", "AVX512", "AVX512_BF16", "AVX512_VBMI", "AVX512_VNNI"}


def test_avx512_needs_all_its_parts(tmp_path: Path) -> None:
    got = cpu_features(machine(tmp_path, x86("avx2 avx512f avx512dq")))
    assert got == {"AVX2"}


def test_arm_features(tmp_path: Path) -> None:
    files = {"proc/cpuinfo": "processor : 0\nFeatures : fp asimd asimdhp asimddp i8mm\n"}
    got = cpu_features(machine(tmp_path, files, arch="aarch64"))
    assert got == {"NEON", "ARM_FMA", "FP16_VA", "DOTPROD", "MATMUL_INT8"}


def test_mac_features(tmp_path: Path) -> None:
    look = machine(tmp_path, platform="darwin", arch="arm64")
    program(look, "sysctl", 'case "$2" in *DotProd|*AdvSIMD) echo 1;; *I8MM) echo 0;; *) exit 1;; esac')
    assert cpu_features(look) == {"NEON", "ARM_FMA", "DOTPROD"}
    intel = machine(tmp_path, platform="darwin", arch="x86_64")
    program(intel, "sysctl", "echo FPU SSE3 SSSE3 FMA F16C AVX1.0; echo AVX2 BMI2")
    assert cpu_features(intel) == {"SSE3", "SSSE3", "FMA", "F16C", "AVX", "AVX2", "BMI2"}


def test_nothing_is_known_of_an_empty_machine(tmp_path: Path) -> None:
    for platform in ("linux", "darwin", "win32"):
        look = machine(tmp_path, platform=platform)
        assert cpu_features(look) == frozenset() and cpu_quota(look) is None and not has_compiler(look)


def test_a_program_that_hangs_or_fails_says_nothing(tmp_path: Path) -> None:
    look = replace(machine(tmp_path), timeout_s=0.5)
    assert look.ask(str(program(look, "hangs", "/bin/sleep 600; echo late"))) == ""
    look = replace(look, timeout_s=60)
    assert look.ask(str(program(look, "fails", "echo something; exit 9"))) == ""
    assert look.ask(str(program(look, "works", "echo something"))) == "something"
    assert look.ask(str(tmp_path / "absent")) == ""


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        ({"sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5),
        ({"proc/self/cgroup": "0::/a/b\n", f"{TOP}/a/cpu.max": "50000 100000\n", f"{TOP}/a/b/cpu.max": "max 1"}, 0.5),
        ({"proc/self/cgroup": "0::/a\n", f"{TOP}/cpu.max": "300000 100000", f"{TOP}/a/cpu.max": "400000 100000"}, 3),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/x\n",
                "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us": "200000\n",
                "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us": "100000\n",
            },
            2,
        ),
        (
            {
                "proc/self/cgroup": "1:cpu:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
        ({"sys/fs/cgroup/cpu.max": "garbage"}, None),
        ({"proc/self/cgroup": "0::/../..\n", "sys/cpu.max": "100 1000", f"{TOP}/": ""}, None),
    ],
)
def test_quota(files: dict[str, str], quota: float | None, tmp_path: Path) -> None:
    assert cpu_quota(machine(tmp_path, files)) == quota


def test_memory_is_what_the_control_group_leaves(tmp_path: Path) -> None:
    whole = memory(machine(tmp_path / "free"))
    assert whole.total >= whole.available > 0
    files = {"proc/self/cgroup": "0::/box\n", "sys/fs/cgroup/box/memory.max": "1000000\n", "sys/fs/cgroup/memory.max": "max\n"}
    cut = memory(machine(tmp_path / "cut", files))
    assert (cut.total, cut.available) == (1_000_000, 1_000_000)
    files = {"proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}
    assert memory(machine(tmp_path / "old", files)).total == whole.total


def test_memory_that_cant_be_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("no /proc")

    monkeypatch.setattr("psutil.virtual_memory", broken)
    files = {"proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}
    assert memory(machine(tmp_path, files)).total == 0


def test_compilers(tmp_path: Path) -> None:
    look = machine(tmp_path)
    program(look, "cc", "")
    assert not has_compiler(look)  # C++ is missing
    program(look, "g++", "")
    assert has_compiler(look)
    named = replace(look, environment={**look.environment, "CXX": "my-c++ -O2"})
    assert not has_compiler(named)  # what CXX names isn't there
    program(look, "my-c++", "")
    assert has_compiler(named)


def test_system_names(tmp_path: Path) -> None:
    files = {"etc/os-release": 'NAME="X"\nID=linuxmint\nID_LIKE="ubuntu debian"\n'}
    assert system_name(machine(tmp_path, files)) == ("linuxmint", "ubuntu", "debian")
    assert system_name(machine(tmp_path, platform="darwin")) == ("darwin",)


def test_the_real_machine() -> None:
    look = Look()
    assert cpu_features(look) <= KNOWN_FEATURES
    assert look.text("no/such/file") == "" and look.names("no/such/directory") == ()
