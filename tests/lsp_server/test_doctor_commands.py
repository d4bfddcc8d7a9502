"""The commands that doctor gives: run by the real pip in an environment of their own, and spelt right on each system."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pip
import pytest

from inference.accelerators import Kind
from inference.hardware import Look
from lsp_server.doctor import commands
from lsp_server.doctor.commands import before_building, compiler_command, get_engine, requirement
from tests.inference.machine import machine, program

VERSION = requirement().partition("==")[2]


def test_the_requirement_is_the_one_that_midfill_pins() -> None:
    text = (Path(__file__).resolve().parent.parent.parent / "pyproject.toml").read_text()
    assert f'"{requirement()}"' in text


@pytest.mark.parametrize(
    ("system", "command"),
    [
        ("ID=debian", "`apt install build-essential`"),
        ("ID=linuxmint\nID_LIKE=ubuntu", "`apt install build-essential`"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"', "`dnf install gcc-c++`"),
        ('ID="opensuse-leap"\nID_LIKE="suse opensuse"', "`zypper install gcc-c++`"),
        ("ID=arch", "`pacman -S base-devel`"),
        ("ID=alpine", "`apk add build-base`"),
        ("ID=unheardof", "install a C and a C++ compiler (gcc and g++, or clang)"),
        ("", "install a C and a C++ compiler (gcc and g++, or clang)"),
    ],
)
def test_the_package_with_a_compiler(system: str, command: str, tmp_path: Path) -> None:
    assert compiler_command(machine(tmp_path, {"etc/os-release": system})) == command


def test_other_systems(tmp_path: Path) -> None:
    mac = machine(tmp_path, platform="darwin", arch="arm64")
    assert compiler_command(mac) == "`xcode-select --install`"
    windows = machine(tmp_path, platform="win32")
    assert "Visual Studio" in compiler_command(windows)
    assert get_engine(windows, "", kind=Kind.CUDA).startswith('`$env:CMAKE_ARGS = "-DGGML_CUDA=on"; & ')


def test_what_comes_first(tmp_path: Path) -> None:
    look = machine(tmp_path, {"etc/os-release": "ID=debian"})
    both = "first `apt install build-essential` and install the CUDA toolkit, then "
    assert before_building(look, "", Kind.CUDA) == both
    assert before_building(look, "/wheels", Kind.CUDA) == ""  # nothing is built
    program(look, "cc", "")
    program(look, "c++", "")
    assert before_building(look, "") == "" and "CUDA toolkit" in before_building(look, "", Kind.CUDA)
    (look.root / "usr/local/cuda/bin").mkdir(parents=True)
    program(look, "nvcc", "").rename(look.root / "usr/local/cuda/bin/nvcc")
    assert before_building(look, "", Kind.CUDA) == ""


def _wheel(directory: Path, text: str) -> None:
    """A wheel of the engine's name and version that holds one module."""
    info = f"llama_cpp_python-{VERSION}.dist-info"
    files = {
        "llama_cpp/__init__.py": f"CAME_FROM = {text!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: llama-cpp-python\nVersion: {VERSION}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    directory.mkdir(exist_ok=True)
    with zipfile.ZipFile(directory / f"llama_cpp_python-{VERSION}-py3-none-any.whl", "w") as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)
        wheel.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"]))


@pytest.fixture
def python(tmp_path: Path) -> str:
    """Of an empty environment, which has no more than pip."""
    home = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True, timeout=120)
    packages = next(home.glob("lib/python*/site-packages"))
    (packages / "pip").symlink_to(Path(pip.__file__).parent, target_is_directory=True)
    return str(home / "bin" / "python")


@pytest.mark.skipif(os.name == "nt", reason="the command is for a POSIX shell")
def test_a_directory_of_wheels_for_real(python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory with a blank in its name; first where nothing is installed, then over another build of the same version."""
    monkeypatch.setattr(commands.sys, "executable", python)
    environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    environment.pop("PIP_FIND_LINKS", None)
    wheels = tmp_path / "my wheels"
    for text, again in (("first", False), ("second", True)):
        _wheel(wheels, text)
        command = get_engine(Look(), str(wheels), again=again)
        assert command[0] == command[-1] == "`" and python in shlex.split(command.strip("`"))
        done = subprocess.run(["sh", "-c", command.strip("`")], capture_output=True, text=True, env=environment, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        told = subprocess.run(
            [python, "-c", "import llama_cpp; print(llama_cpp.CAME_FROM)"], capture_output=True, text=True, timeout=60
        )
        assert told.stdout.strip() == text
