"""`make setup`'s way to the engine, with the real make: which compiler and wheels it asks for. Python and pip are scripts."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# stands for python3, and for the python of the environment that it makes; writes down what it is asked
PYTHON = """#!/bin/sh
echo "$@" >> "$LOG"
case "$2" in venv) mkdir -p .venv/bin; cp "$0" .venv/bin/python;; esac
"""

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")


class Checkout:
    def __init__(self, home: Path) -> None:
        self.home, self.bin, self.log = home, home / "bin", home / "log"
        self.bin.mkdir()
        for name in ("Makefile", "pyproject.toml"):
            shutil.copy(ROOT / name, home)
        for name in ("mkdir", "cp", "touch"):
            found = shutil.which(name)
            assert found
            (self.bin / name).symlink_to(found)
        self.program("python3", PYTHON)

    def program(self, name: str, text: str = "#!/bin/sh\n") -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def make(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [str(shutil.which("make")), "--silent", ".venv/ready", *arguments]
        where = {"PATH": str(self.bin), "LOG": str(self.log), **environment}
        return subprocess.run(command, capture_output=True, text=True, cwd=self.home, env=where, timeout=60, check=False)

    def installed(self) -> str:
        """pip's arguments for midfill itself."""
        return self.log.read_text().splitlines()[-1]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_no_compiler_and_no_wheels_is_one_message(checkout: Checkout) -> None:
    done = checkout.make()
    (line,) = done.stdout.splitlines()
    assert done.returncode != 0
    for word in ("C and a C++ compiler", "apt install build-essential", "dnf install", "xcode-select", "ENGINE_WHEELS="):
        assert word in line
    assert not (checkout.home / ".venv").exists()


def test_half_a_compiler_is_none(checkout: Checkout) -> None:
    checkout.program("cc")
    assert checkout.make().returncode != 0


def test_a_compiler_means_a_source_build(checkout: Checkout) -> None:
    checkout.program("cc")
    checkout.program("c++")
    done = checkout.make()
    assert done.returncode == 0, done.stderr
    assert "built from source" in done.stdout
    assert "--editable .[dev]" in checkout.installed() and "binary" not in checkout.installed()


def test_another_compiler_by_its_name(checkout: Checkout) -> None:
    checkout.program("my-cc")
    checkout.program("my-c++")
    assert checkout.make(CC="my-cc", CXX="my-c++").returncode == 0


@pytest.mark.parametrize(
    ("wheels", "option"),
    [
        ("/some where/wheels", "--prefer-binary --find-links /some where/wheels"),
        ("wheels", "--prefer-binary --find-links wheels"),
        ("https://host.test/whl/cpu", "--prefer-binary --extra-index-url https://host.test/whl/cpu"),
        ("pip", ""),
    ],
)
def test_wheels_need_no_compiler(wheels: str, option: str, checkout: Checkout) -> None:
    done = checkout.make(f"ENGINE_WHEELS={wheels}")
    assert done.returncode == 0, done.stderr
    got = checkout.installed()
    assert option in got and ("find-links" in got or "index-url" in got) == bool(option)
    assert "--only-binary llama-cpp-python" in got  # it could not build, so it must not begin to
    assert "built from source" not in done.stdout


def test_wheels_with_a_compiler_may_still_be_built(checkout: Checkout) -> None:
    checkout.program("cc")
    checkout.program("c++")
    assert checkout.make(ENGINE_WHEELS="/wheels").returncode == 0  # the environment's variable counts as well
    assert "--find-links /wheels" in checkout.installed() and "--only-binary" not in checkout.installed()


def test_a_wheel_holds_every_module() -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]
    rooms = ("lsp_server", "context", "inference")
    assert options == {"include": [f"{room}*" for room in rooms]}
    homes = {path.parent for room in rooms for path in (ROOT / room).rglob("*.py")}
    assert not [home for home in homes if not (home / "__init__.py").exists()], "what is no package is not found"
