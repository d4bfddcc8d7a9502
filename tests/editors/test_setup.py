"""VS Code on a machine where midfill was never installed: what is missing is told, one thing at a time, and set up is what is
there. Nothing is played: the code-server has programs, an index and a cache of pip of its own, and pip does what it does.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.editors import installed
from tests.editors.editor import ROOT, Scene, until
from tests.editors.vscode import VSCode
from tests.support.ended import all_ended

MAKEFILE = (ROOT / "Makefile").read_text()
BUILT = re.search(r"the engine is built from source, which takes [^;,]* on two cores", MAKEFILE)
NEEDED = re.search(r"The engine \(llama\.cpp\) is built from source and needs .*?--install\.", MAKEFILE)
MODEL = "qwen2.5-coder-0.5b"
INSTALL_S = 600
UNREACHABLE = "[global]\nindex-url = http://127.0.0.1:9/simple\nextra-index-url =\nfind-links =\nretries = 1\ntimeout = 5\n"


class Machine:
    """What a code-server finds: `programs` is all that is on its PATH, `pip.conf` is read in addition to pip's own."""

    def __init__(self, scene: Scene, *, pip_cache: Path) -> None:
        self.scene = scene
        self.programs = scene.folder / "programs"
        self.programs.mkdir()
        self.pip_settings = scene.folder / "pip.conf"
        self.pip_settings.touch()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NODE_", "MIDFILL_"))}
        ours = {name: value for name, value in scene.environment.items() if name != "PYTHONPATH"}
        pip = {"PIP_CACHE_DIR": str(pip_cache), "PIP_CONFIG_FILE": str(self.pip_settings)}
        self.environment = {**kept, **ours, **pip, "PATH": str(self.programs), "SHELL": "/bin/sh"}
        # VS Code asks the login shell for the PATH
        (scene.folder / "home/.profile").write_text(f"PATH={shlex.quote(str(self.programs))}; export PATH\n")
        for name in ("CC", "CXX"):
            self.environment.pop(name, None)

    def has(self, name: str, program: Path) -> None:
        """From now on the program is on the PATH by that name, run from where it lies."""
        script = self.programs / name
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(str(program))} "$@"\n')
        script.chmod(0o755)


def _python() -> Path:
    """The one that this venv was made with."""
    return Path(os.path.realpath(sys.executable))


def _old_python() -> Path | None:
    """One that is too old for midfill."""
    folders = [Path(folder) for folder in os.environ["PATH"].split(":")]
    folders += sorted(Path.home().glob(".pyenv/versions/3.*/bin"))
    for program in [folder / f"python3.{minor}" for minor in (10, 9, 8) for folder in folders]:
        if program.exists():
            asked = [str(program), "-c", "import sys; sys.exit(sys.version_info >= (3, 11))"]
            if subprocess.run(asked, capture_output=True, check=False).returncode == 0:
                return program
    return None


def _python_without_ensurepip(folder: Path) -> Path:
    """As Debian has it before python3-venv is installed."""
    subprocess.run([_python(), "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "lacking.pth").write_text("import sys; sys.modules['ensurepip'] = None\n")
    return folder / "bin/python"


def _pip_cache() -> Path:
    """The user's own, where pip keeps what it has built."""
    done = subprocess.run([sys.executable, "-m", "pip", "cache", "dir"], capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())


def _is_engine_kept() -> bool:
    listed = [sys.executable, "-m", "pip", "cache", "list", "llama_cpp_python"]
    return "llama_cpp_python" in subprocess.run(listed, capture_output=True, text=True, check=False).stdout


def _open(machine: Machine) -> VSCode:
    return VSCode(installed.PROGRAMS["vscode"](), machine.scene, settings={}, machine=machine.environment)


class _Told:
    """What the user was told, one sentence after the other, each of them once."""

    def __init__(self, editor: VSCode, scene: Scene) -> None:
        self._editor, self._scene = editor, scene
        self._sentences: list[str] = []
        self._files = (f"file{number}.py" for number in range(100))

    def next(self) -> str:
        before = len(self._sentences)
        until(lambda: len(self._editor.messages()) > before, "a sentence", wait_s=INSTALL_S)
        self._is_usable()
        said = self._editor.messages()
        assert said[:before] == self._sentences and len(said) == before + 1, said
        self._sentences = said
        return said[-1]

    def _is_usable(self) -> None:
        path = self._scene.file("\n", next(self._files))
        self._editor.open(path)
        self._editor.place(0, 0)
        self._editor.type("value = 1")
        self._editor.save()
        assert path.read_text() == "value = 1\n"


@pytest.fixture
def bare(scene: Scene) -> Iterator[tuple[Machine, VSCode, _Told]]:
    """Neither a Python nor a compiler nor anything that pip has kept; a file is open."""
    machine = Machine(scene, pip_cache=scene.folder / "pip-cache")
    editor = _open(machine)
    try:
        editor.open(scene.file("\n"))
        yield machine, editor, _Told(editor, scene)
    finally:
        editor.quit()


def test_what_is_missing_is_told_one_after_the_other(bare: tuple[Machine, VSCode, _Told], tmp_path: Path) -> None:
    machine, editor, told = bare
    assert NEEDED is not None
    assert NEEDED[0] in told.next()
    assert "not set up" in editor.status()
    editor.choose("Set Up Anyway")
    assert re.search(r"needs Python 3\.11 or newer, and none was found; install it, .* midfill\.server\.python", told.next())
    if old := _old_python():
        machine.has("python3", old)
        editor.choose("Try Again")
        assert re.search(r"needs Python 3\.11 or newer, and \S*/programs/python3 is older", told.next())
    machine.has("python3", _python_without_ensurepip(tmp_path / "lacking"))
    editor.choose("Try Again")
    assert "apt install python3-venv" in told.next()
    machine.has("python3", _python())
    machine.pip_settings.write_text(UNREACHABLE)
    editor.choose("Try Again")
    sentence = told.next()
    assert "http://127.0.0.1:9" in sentence and "network" in sentence and "compiler" not in sentence
    machine.pip_settings.write_text("")
    editor.choose("Try Again")
    sentence = told.next()
    assert NEEDED[0] in sentence and "no built wheel of llama-cpp-python was found" in sentence
    assert sentence.removeprefix("midfill: ") in editor.status()
    assert not (machine.scene.folder / "home/midfill").exists()


def test_a_cancelled_one_leaves_no_process_and_can_be_tried_again(bare: tuple[Machine, VSCode, _Told]) -> None:
    machine, editor, told = bare
    told.next()
    machine.has("python3", _python())
    with socket.create_server(("127.0.0.1", 0)) as silent:  # pip waits for what this index says
        index = f"http://127.0.0.1:{silent.getsockname()[1]}/simple"
        machine.pip_settings.write_text(UNREACHABLE.replace("http://127.0.0.1:9/simple", index).replace("= 5", "= 600"))
        editor.choose("Set Up Anyway")
        until(lambda: any("pip" in step for step in editor.progress()), "pip", wait_s=INSTALL_S)
        until(lambda: _processes(machine), "a process of pip")
        editor.choose("Cancel")
        assert "was stopped" in told.next()
    until(lambda: not _processes(machine), "the end of pip")
    machine.pip_settings.write_text(UNREACHABLE)
    editor.choose("Try Again")
    assert "http://127.0.0.1:9" in told.next()


def _processes(machine: Machine) -> list[str]:
    """The command lines of those that work on the environment that is being made."""
    lines = [" ".join(one.info["cmdline"] or []) for one in psutil.process_iter(["cmdline"])]
    return [line for line in lines if f"/data-{machine.scene.folder.name}/" in line and " -m pip " in line]


@pytest.fixture
def whole(scene: Scene, real_model_path: Path, tmp_path: Path) -> Iterator[Machine]:
    """A Python and a compiler, what pip has kept, and a mirror that has the model."""
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    (mirror / f"{MODEL}.gguf").symlink_to(real_model_path)
    settings = Path(scene.environment["MIDFILL_CONFIG"])
    more = f'models_mirror = "{mirror}"\nlinger_s = 1\nmax_tokens = 16\nn_threads = 1\n'
    # so that the smallest is the automatic choice, however fast this machine is
    settings.write_text(settings.read_text().replace("reply_deadline_ms = 0", "reply_deadline_ms = 1") + more)
    machine = Machine(scene, pip_cache=_pip_cache())
    machine.has("python3", _python())
    for name in ("cc", "c++"):
        machine.has(name, Path(shutil.which(name) or "/nowhere"))
    yield machine
    all_ended(scene.folder / "run")


def _suggests(editor: VSCode, path: Path) -> None:
    """What is shown behind the second line is what is on disk after accepting it. Asked by hand: the deadline that makes the
    smallest model the automatic choice would leave keys with a warm prompt without an answer."""

    def shown() -> str:
        ghost = editor.ghost()
        time.sleep(0.3)  # what comes of a key before may be replaced
        return ghost if ghost == editor.ghost() else ""

    before = path.read_text().rstrip("\n")
    editor.place(1, len(before.split("\n")[1]))
    editor.type("ret")
    editor.press("trigger")
    ghost = until(shown, "a suggestion", wait_s=200)
    editor.press("accept")
    editor.save()
    assert path.read_text() == f"{before}ret{ghost}\n"


@pytest.mark.real_model
def test_from_nothing_to_the_first_suggestion_by_agreeing_once(whole: Machine) -> None:
    if not _is_engine_kept():
        pytest.skip("pip's cache holds no engine that it has built (`make setup` leaves one there): it would take ten minutes")
    editor = _open(whole)
    try:
        path = whole.scene.file("def add(a, b):\n    \n")
        editor.open(path)
        (asked,) = until(editor.messages, "the question")
        assert BUILT is not None and BUILT[0] in asked
        editor.choose("Set Up")
        until(lambda: "ready" in editor.status() or len(editor.messages()) > 1, "the model", wait_s=INSTALL_S)
        assert editor.messages() == [asked]
        progress = "\n".join(editor.progress())
        for step in ("making a Python environment", "getting pygls", "installing", f"downloading {MODEL}"):
            assert step in progress, progress
        _suggests(editor, path)
        assert editor.messages() == [asked]
    finally:
        editor.quit()


@pytest.mark.real_model
def test_the_one_on_the_path_is_used_and_the_model_is_chosen_and_the_engine_restarted(whole: Machine) -> None:
    settings = Path(whole.scene.environment["MIDFILL_CONFIG"])
    settings.write_text(settings.read_text() + 'model = "qwen2.5-coder-14b"\n')
    whole.has("midfill", Path(whole.scene.midfill()))
    editor = _open(whole)
    try:
        path = whole.scene.file("def add(a, b):\n    \n")
        editor.open(path)
        lacking = "qwen2.5-coder-14b is not on disk"
        until(lambda: any(lacking in told for told in editor.messages()), "what is missing", wait_s=200)
        editor.palette("midfill: Choose the Model", "491 MB to download")
        until(lambda: "ready" in editor.status(), "the model", wait_s=300)
        percents = re.findall(rf"downloading {MODEL}: ([\d,]+) of", "\n".join(editor.progress()))
        assert len(set(percents)) > 1, editor.progress()
        _suggests(editor, path)
        before = _engines(whole.scene)
        editor.palette("midfill: Restart Engine")
        until(lambda: any(f"{MODEL} is ready" in told for told in editor.messages()), "that it is ready", wait_s=200)
        assert len(before) == 1 and len(_engines(whole.scene)) == 1 and not before & _engines(whole.scene)
        path = whole.scene.file("def add(a, b):\n    \n", "another.py")
        editor.open(path)
        _suggests(editor, path)
    finally:
        editor.quit()


def _engines(scene: Scene) -> set[int]:
    """The processes that run one."""
    found = (json.loads(file.read_text()) for file in (scene.folder / "run").glob("*.json"))
    return {one["pid"] for one in found if "pid" in one}
