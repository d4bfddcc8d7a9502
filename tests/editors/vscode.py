"""VS Code's workbench in a real browser, with the packaged extension in it: keys are the browser's, what is shown is read from
the page. Of the editor itself (its text, the cursor) a small extension of the tests tells, through a socket.

One browser serves all windows of a test run, and one code-server those that have no machine of their own; each window has a
workspace, and a process with extensions.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import tempfile
import threading
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

from tests.editors import installed
from tests.editors.editor import Action, Command, Scene, until
from tests.editors.installed import Program

HERE = Path(__file__).with_name("workbench")
TAB = 4

_KEYS: dict[Action, str] = {
    "accept": "Tab",
    "word": "Control+ArrowRight",
    "line": "Control+ArrowDown",
    "dismiss": "Escape",
    "next": "Alt+]",
    "previous": "Alt+[",
    "trigger": "Alt+\\",
    "undo": "Control+z",
}
# what a notification says of something that goes on, instead of telling it
_WORK = re.compile(r"midfill (is being set up|is being updated|gets [^ :]*|checks itself)(: .*)?")
_TYPED = {"\n": "Enter", "\x08": "Backspace", "\x7f": "Backspace", "\t": "Tab"}
_TITLES: dict[Command, tuple[str, list[str]]] = {
    "pause": ("midfill: Snooze", ["Until I resume"]),
    "resume": ("midfill: Resume", []),
    "restart": ("midfill: Restart Server", []),
    "explain": ("midfill: Show the Context of the Last Suggestion", []),
}


class Workbench:
    """The processes, and their answers one at a time."""

    def __init__(self, program: Program) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="mfvs"))
        modules = installed.code_server()
        companion = self._folder / "companion.vsix"
        with zipfile.ZipFile(companion, "w") as archive:
            for file in (HERE / "companion").iterdir():
                archive.write(file, f"extension/{file.name}")
        setup = self._folder / "setup.json"
        setup.write_text(
            json.dumps({
                "folder": str(self._folder), "data": self._data("data"), "modules": str(modules),
                "chromium": program.command[0], "browser": program.environment, "vsix": [str(installed.VSIX), str(companion)],
                "version": installed.VSCODE, "environment": self._environment(),
                "scale": float(os.environ.get("MIDFILL_TEST_SCALE", "1")),
            })
        )  # fmt: skip
        self._lock = threading.Lock()
        self._node = subprocess.Popen(
            ["node", str(HERE / "driver.mjs"), str(setup)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip
        self.version = self._answer()

    def _environment(self) -> dict[str, str]:
        """Without a midfill on the PATH, and with a home of its own."""
        path = [one for one in os.environ["PATH"].split(":") if not (Path(one) / "midfill").exists()]
        home = {f"XDG_{name}_HOME": str(self._folder / "home") for name in ("CONFIG", "DATA", "CACHE")}
        kept = {name: value for name, value in os.environ.items() if name not in ("NODE_OPTIONS", "PYTHONPATH")}
        return {**kept, **home, "HOME": str(self._folder / "home"), "PATH": ":".join(path), "LANG": "C.UTF-8"}

    def _data(self, name: str) -> str:
        """Where a code-server keeps what it knows: nothing yet, but the settings."""
        data = self._folder / name
        for kind in ("User", "Machine"):
            (data / kind).mkdir(parents=True)
            shutil.copy(HERE / "settings.json", data / kind / "settings.json")
        return str(data)

    def machine(self, name: str, environment: dict[str, str]) -> None:
        """A code-server of its own, in which the extension was never used."""
        self.ask("machine", name=name, data=self._data(f"data-{Path(name).name}"), environment=environment)

    def ask(self, do: str, **more: Any) -> Any:
        with self._lock:
            assert self._node.stdin is not None
            self._node.stdin.write(json.dumps({"do": do, **more}) + "\n")
            self._node.stdin.flush()
            return self._answer()

    def _answer(self) -> Any:
        assert self._node.stdout is not None
        line = self._node.stdout.readline()
        if not line:
            log = (self._folder / "code-server.log").read_text(errors="replace")[-2000:]
            raise AssertionError(f"the workbench has ended; code-server says: {log}")
        answer = json.loads(line)
        if "error" in answer:
            raise AssertionError(answer["error"])
        return answer["value"]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            assert self._node.stdin is not None
            self._node.stdin.close()
        try:
            self._node.wait(20)
        except subprocess.TimeoutExpired:
            self._node.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


@cache
def workbench(program_path: str) -> Workbench:
    bench = Workbench(installed.PROGRAMS["vscode"]())
    atexit.register(bench.close)
    return bench


class VSCode:
    """machine: the environment of a code-server for this window alone."""

    def __init__(
        self, program: Program, scene: Scene, *, patience_s: float = 10, settings: dict[str, Any] | None = None,
        machine: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        self._bench = workbench(program.command[0])
        self._window = str(scene.folder)
        self._machine = self._window if machine is not None else ""
        if machine is not None:
            self._bench.machine(self._machine, machine)
        self._socket_path = scene.folder / "code.sock"
        folder = scene.workspace / ".vscode"
        folder.mkdir(exist_ok=True)
        chosen = {"midfill.server.path": self._server(scene), "midfill.server.patienceSeconds": patience_s}
        (folder / "settings.json").write_text(json.dumps(chosen if settings is None else settings))
        self._bench.ask("open", window=self._window, name=self._machine, workspace=str(scene.workspace))
        self._wire = socket.socket(socket.AF_UNIX)
        until(self._connected, "the window's extensions", wait_s=180)
        self._answers = self._wire.makefile("r", encoding="utf-8")

    def _server(self, scene: Scene) -> str:
        """A program that has the scene's environment; one that is missing stays so."""
        if not Path(scene.server[0]).exists():
            return scene.server[0]
        script = scene.folder / "midfill"
        values = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in scene.environment.items())
        # the client adds the command `lsp` by itself; a script of the tests takes no words
        command = scene.command.removesuffix(" lsp")
        words = ' "$@"' if scene.command.endswith(" lsp") else ""
        script.write_text(f"#!/bin/sh\n{values}\nexec {command}{words}\n")
        script.chmod(0o755)
        return str(script)

    def _connected(self) -> bool:
        try:
            self._wire.connect(str(self._socket_path))
        except OSError:
            return False
        return True

    def _page(self, do: str, **more: Any) -> Any:
        return self._bench.ask(do, window=self._window, **more)

    def _host(self, do: str, **more: Any) -> Any:
        self._wire.sendall((json.dumps({"do": do, **more}) + "\n").encode())
        line = self._answers.readline()
        assert line, "the window's extensions have ended"
        answer = json.loads(line)
        assert "error" not in answer, answer
        return answer["value"]

    def open(self, path: Path) -> None:
        until(lambda: self._host("open", path=str(path)) == str(path), f"{path.name} in front")
        self._page("focus")

    def place(self, line: int, column: int) -> None:
        self._host("place", line=line, column=column)
        self._page("focus")

    def type(self, text: str, then: Action | None = None) -> None:
        keys: list[dict[str, str]] = []
        for character in text:
            keys.append({"press": _TYPED[character]} if character in _TYPED else {"text": character})
        self._page("keys", keys=[*keys, *([{"press": _KEYS[then]}] if then else [])])

    def press(self, action: Action) -> None:
        self._page("keys", keys=[{"press": _KEYS[action]}])

    def bracket_pairs(self) -> None:
        self._host("set", name="editor.autoClosingBrackets", value="always")
        until(lambda: self._host("get", name="editor.autoClosingBrackets") == "always", "the setting")

    def ghost(self) -> str:
        shown: str = self._page("ghost")
        return shown

    def as_shown(self, ghost: str) -> str:
        """Tabs are drawn as blanks."""
        if "\t" not in ghost:
            return ghost
        line, column = self.cursor()
        before = self.text().split("\n")[line][:column]
        return (before + ghost).expandtabs(TAB)[len(before.expandtabs(TAB)) :]

    def text(self) -> str:
        text: str = self._host("text")
        return text.replace("\r\n", "\n")

    def cursor(self) -> tuple[int, int]:
        line, column = self._host("cursor")
        return line, column

    def save(self) -> None:
        self._page("keys", keys=[{"press": "Control+s"}])
        until(lambda: not self._host("isDirty"), "the file")

    def close(self, path: Path) -> None:
        self._host("close", path=str(path))

    def messages(self) -> list[str]:
        return [said for said in self._page("said") if not _WORK.fullmatch(said)]

    def status(self) -> str:
        return str(self._page("status"))

    def command(self, name: Command) -> None:
        title, then = _TITLES[name]
        self._page("palette", title=title, then=then)

    def palette(self, title: str, *then: str) -> None:
        """Run the command with that title; then choose a row of each list that opens."""
        self._page("palette", title=title, then=then)
        self._page("focus")

    def set(self, name: str, value: Any) -> None:
        """A setting of the workspace."""
        self._host("set", name=name, value=value)

    def choose(self, button: str) -> None:
        """Press a button of a notification."""
        self._page("press", button=button)

    def progress(self) -> list[str]:
        """What notifications have told of how far something is, oldest first."""
        return [said for said in self._page("said") if _WORK.fullmatch(said)]

    def rows(self) -> list[str]:
        """What a list that is open offers."""
        return list(self._page("rows"))

    def picture(self, file: Path, clip: dict[str, int] | None = None) -> None:
        self._page("picture", file=str(file), clip=clip)

    def beside(self) -> str:
        return str(self._host("beside"))

    def quit(self) -> None:
        self._page("close")
        self._wire.settimeout(60)
        with contextlib.suppress(OSError):
            while self._wire.recv(4096):  # until its extensions have ended
                pass
        self._answers.close()
        self._wire.close()
        if self._machine:
            self._bench.ask("leave", name=self._machine)
