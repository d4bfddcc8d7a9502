"""Emacs in a terminal of its own: keys are bytes on the terminal, what is shown is read from the overlays through a socket."""

from __future__ import annotations

import contextlib
import json
import socket
from pathlib import Path
from typing import Any

from tests.editors.editor import ROOT, Action, Command, Scene, until
from tests.editors.installed import Program
from tests.editors.terminal import Terminal

_KEYS: dict[Action, str] = {
    "accept": "\t",
    "word": "\x1bf",
    "line": "\x1be",
    "dismiss": "\x07",
    "next": "\x1bn",
    "previous": "\x1bp",
    "trigger": "\x1b\\",
    "undo": "\x1f",  # C-/
}

INIT = Path(__file__).with_name("init.el")


class Emacs:
    def __init__(self, program: Program, scene: Scene, *, patience_s: float = 10) -> None:
        self._scene = scene
        self._socket_path = scene.folder / "emacs.sock"
        environment = scene.environ(
            **program.environment, TERM="xterm", MIDFILL_TEST_SOCKET=str(self._socket_path), MIDFILL_TEST_SERVER=scene.command,
            MIDFILL_TEST_CLIENT=str(ROOT / "editors/emacs"), MIDFILL_TEST_PATIENCE=str(patience_s),
        )  # fmt: skip
        command = [*program.command, "-nw", "-Q", "-l", str(INIT)]
        self._terminal = Terminal(command, environment, scene.workspace)
        self._wire = socket.socket(socket.AF_UNIX)
        until(self._is_connected, "Emacs", wait_s=200)
        self._answers = self._wire.makefile("r", encoding="utf-8")

    def _is_connected(self) -> bool:
        """The socket's path is there a moment before Emacs listens on it."""
        return self._wire.connect_ex(str(self._socket_path)) == 0

    def _eval(self, form: str) -> Any:
        self._wire.sendall((form.replace("\n", " ") + "\n").encode())
        line = self._answers.readline()
        if not line:
            raise AssertionError(f"Emacs has gone; the screen ends with {bytes(self._terminal.screen[-400:])!r}")
        answer = json.loads(line)
        assert "error" not in answer, answer
        return answer["value"]

    def open(self, path: Path) -> None:
        self._eval(f"(progn (midfill-test-visit {_string(str(path))}) t)")
        self._settle()

    def place(self, line: int, column: int) -> None:
        self._eval(
            f"(progn (goto-char (point-min)) (forward-line {line}) (forward-char {column}) (set-window-point nil (point)) t)"
        )
        self._settle()

    def type(self, text: str, then: Action | None = None) -> None:
        self._send(text.replace("\n", "\r") + (_KEYS[then] if then else ""))

    def press(self, action: Action) -> None:
        self._send(_KEYS[action])

    def _settle(self) -> None:
        """A command of no effect has been run: hooks that wait for one have, too."""
        self._send("\x1b[24~")

    def _send(self, keys: str) -> None:
        done = self._eval("midfill-test-marks")
        self._terminal.send(keys + "\x1b[23~")  # <f11> counts
        until(lambda: self._eval("midfill-test-marks") > done, "the keys' end")

    def bracket_pairs(self) -> None:
        self._eval("(progn (electric-pair-mode 1) t)")

    def ghost(self) -> str:
        return str(self._eval("(midfill-test-ghost)"))

    def as_shown(self, ghost: str) -> str:
        return ghost

    def text(self) -> str:
        return str(self._eval("(buffer-substring-no-properties (point-min) (point-max))"))

    def cursor(self) -> tuple[int, int]:
        line, column = self._eval("(list (1- (line-number-at-pos)) (- (point) (line-beginning-position)))")
        return line, column

    def save(self) -> None:
        self._send("\x18\x13")
        until(lambda: self._eval("(if (buffer-modified-p) :json-false t)"), "the file")

    def close(self, path: Path) -> None:
        self._eval(f"(with-current-buffer (get-file-buffer {_string(str(path))}) (set-buffer-modified-p nil) (kill-buffer) t)")

    def messages(self) -> list[str]:
        return list(self._eval("(midfill-test-messages)"))

    def status(self) -> str:
        return str(self._eval("(midfill--sentence)"))

    def command(self, name: Command) -> None:
        self._send(f"\x1bxmidfill-{name}\r")

    def beside(self) -> str:
        others = "(cdr (window-list))"
        return str(self._eval(f'(mapconcat (lambda (w) (with-current-buffer (window-buffer w) (buffer-string))) {others} "")'))

    def quit(self) -> None:
        with contextlib.suppress(OSError, AssertionError):
            self._wire.sendall(b"(let ((kill-emacs-hook nil)) (kill-emacs 0))\n")
        self._terminal.close()
        self._answers.close()
        self._wire.close()


def _string(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
