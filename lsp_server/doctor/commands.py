"""The exact command that gets another build of the engine, and the package that brings a compiler.

Owns how pip is told: an index or a directory of built wheels, or a source build with options. Refuses to run anything.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from importlib import metadata

from inference.accelerators import Kind
from inference.hardware import Look, has_compiler, system_name

PACKAGE = "llama-cpp-python"
_OPTIONS = {
    Kind.CUDA: "-DGGML_CUDA=on",
    Kind.ROCM: "-DGGML_HIP=on",
    Kind.METAL: "-DGGML_METAL=on",
    Kind.VULKAN: "-DGGML_VULKAN=on",
}
NATIVE = "-DGGML_NATIVE=on"
# (program that a source build needs, places beside PATH, what brings it)
_BUILD_TOOLS = {
    Kind.CUDA: ("nvcc", ("usr/local/cuda/bin", "opt/cuda/bin"), "the CUDA toolkit"),
    Kind.ROCM: ("hipcc", ("opt/rocm/bin",), "the ROCm development packages"),
    Kind.VULKAN: ("glslc", (), "the Vulkan SDK (headers, loader and glslc)"),
}
_COMPILERS = {
    "debian": "apt install build-essential",
    "ubuntu": "apt install build-essential",
    "fedora": "dnf install gcc-c++",
    "rhel": "dnf install gcc-c++",
    "centos": "dnf install gcc-c++",
    "suse": "zypper install gcc-c++",
    "opensuse": "zypper install gcc-c++",
    "arch": "pacman -S base-devel",
    "alpine": "apk add build-base",
    "darwin": "xcode-select --install",
    "win32": "install the Build Tools for Visual Studio, with C++",
}


def requirement() -> str:
    """The engine's package as midfill pins it, else as it is installed, else by name."""
    try:
        for line in metadata.requires("midfill") or ():
            if match := re.match(rf"{PACKAGE}\s*(==[\w.]+)", line):
                return PACKAGE + match.group(1)
    except metadata.PackageNotFoundError:
        pass  # run from its source
    try:
        return f"{PACKAGE}=={metadata.version(PACKAGE)}"
    except metadata.PackageNotFoundError:
        return PACKAGE


def get_engine(look: Look, wheels: str, *, kind: Kind | None = None, again: bool = True) -> str:
    """The command that installs the engine: from `wheels` (setting `engine_wheels`) if given, else built from source.

    kind: the back end it must have; None = built for this CPU. again: another build of it is installed, whose dependencies
    are there.
    """
    arguments = ["-m", "pip", "install"]
    if again:
        arguments += ["--force-reinstall", "--no-deps"]
    if wheels:
        # A wheel and nothing else: without this pip would quietly build from source where the wheel doesn't fit.
        arguments += ["--only-binary", PACKAGE, wheels_option(wheels), wheels]
        return _shown(look, [sys.executable, *arguments, requirement()])
    # pip keeps what it has built whatever the options were, and --no-binary doesn't keep it from using that.
    arguments += ["--no-cache-dir", "--no-binary", PACKAGE, requirement()]
    return _with_options(look, _OPTIONS[kind] if kind else NATIVE, [sys.executable, *arguments])


def wheels_option(wheels: str) -> str:
    """pip's option for an address or a directory."""
    return "--extra-index-url" if "://" in wheels else "--find-links"


def before_building(look: Look, wheels: str, kind: Kind | None = None) -> str:
    """What must be installed before `get_engine`'s command can work, as a clause that ends with a comma; "" if nothing."""
    if wheels:
        return ""
    missing = [] if has_compiler(look) else [compiler_command(look)]
    if kind in _BUILD_TOOLS:
        program, places, package = _BUILD_TOOLS[kind]
        if not look.tool(program, *places):
            missing.append(f"install {package}")
    return f"first {' and '.join(missing)}, then " if missing else ""


def compiler_command(look: Look) -> str:
    """How a C and a C++ compiler are got on this system."""
    for name in system_name(look):
        for known, command in _COMPILERS.items():
            if name == known or name.startswith(known + "-"):
                return f"`{command}`" if look.platform != "win32" else command
    return "install a C and a C++ compiler (gcc and g++, or clang)"


def _with_options(look: Look, options: str, command: list[str]) -> str:
    if look.platform == "win32":
        return f'`$env:CMAKE_ARGS = "{options}"; & {subprocess.list2cmdline(command)}` (PowerShell)'
    return f'`CMAKE_ARGS="{options}" {shlex.join(command)}`'


def _shown(look: Look, command: list[str]) -> str:
    return f"`{subprocess.list2cmdline(command) if look.platform == 'win32' else shlex.join(command)}`"
