"""Neovim, embedded: keys go through its own input queue, what is shown is read from the marks on its screen lines."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

from tests.editors.editor import ROOT, Action, Command, Scene, until
from tests.editors.installed import Program, pynvim

_KEYS: dict[Action, str] = {
    "accept": "<Tab>",
    "word": "<C-Right>",
    "line": "<C-Down>",
    "dismiss": "<C-]>",
    "next": "<M-]>",
    "previous": "<M-[>",
    "trigger": "<M-\\>",
    "undo": "<C-o>u",
}
_SPACES = ("nvim.lsp.inline_completion", "midfill.ghost")
_HINTS = ("ComplHintMore", "MidfillHint")

INIT = """
vim.opt.runtimepath:append({client!r})
vim.opt.swapfile = false
vim.opt.hidden = true
vim.opt.showmode = false -- after a command of insert mode it would wait three seconds before it shows the mode
told = {{}}
vim.notify = function(sentence) table.insert(told, sentence) end
require('midfill').setup({{ cmd = {command}, renderer = {renderer!r}, patience_s = {patience_s} }})
"""


class Neovim:
    def __init__(self, program: Program, scene: Scene, *, renderer: str = "auto", patience_s: float = 10) -> None:
        sys.path.append(str(pynvim()))
        from pynvim import attach  # type: ignore[import-not-found,import-untyped,unused-ignore]

        init = scene.folder / "init.lua"
        command = "{" + ", ".join(f"{word!r}" for word in scene.server) + "}"
        client = str(ROOT / "editors/neovim")
        init.write_text(INIT.format(client=client, command=command, renderer=renderer, patience_s=patience_s))
        environment = scene.environ(**program.environment)
        words = ["env", "-i", *(f"{name}={value}" for name, value in environment.items()), *program.command]
        self._nvim: Any = attach("child", argv=[*words, "--embed", "--headless", "-i", "NONE", "-n", "-u", str(init)])
        self._scene = scene

    def open(self, path: Path) -> None:
        self._nvim.input("<Esc>")
        self._nvim.api.cmd({"cmd": "edit", "args": [str(path)], "magic": {"file": False}}, {})

    def place(self, line: int, column: int) -> None:
        self._nvim.input("<Esc>")
        text = self._nvim.current.buffer[line]
        is_end = column >= len(text)
        self._nvim.api.win_set_cursor(0, [line + 1, len(text[:column].encode())])
        self._nvim.input("A" if is_end else "i")
        until(lambda: self._nvim.api.get_mode()["mode"] == "i", "insert mode")

    def type(self, text: str, then: Action | None = None) -> None:
        self._input(text.replace("<", "<lt>") + (_KEYS[then] if then else ""))

    def press(self, action: Action) -> None:
        self._input(_KEYS[action])

    def _input(self, keys: str) -> None:
        self._nvim.input(keys)
        # a request is answered only when what was typed before it has been taken
        until(lambda: not self._nvim.eval("getchar(1)") and not self._nvim.api.get_mode()["blocking"], "the keys' end")

    def bracket_pairs(self) -> None:
        for pair in ("()", "[]", "{}"):
            self._nvim.command(f"inoremap {pair[0]} {pair}<Left>")
            self._nvim.command(f"inoremap <expr> {pair[1]} getline('.')[col('.')-1] ==# '{pair[1]}' ? '<Right>' : '{pair[1]}'")

    def ghost(self) -> str:
        lines: list[str] = []
        for name in _SPACES:
            space = self._nvim.api.create_namespace(name)
            for mark in self._nvim.api.buf_get_extmarks(0, space, 0, -1, {"details": True}):
                shown = [mark[3].get("virt_text", []), *mark[3].get("virt_lines", [])]
                lines += ["".join(text for text, *face in line if face[:1] not in [[h] for h in _HINTS]) for line in shown]
        return "\n".join(lines)

    def as_shown(self, ghost: str) -> str:
        return ghost

    def text(self) -> str:
        return "\n".join(self._nvim.current.buffer[:])

    def cursor(self) -> tuple[int, int]:
        row, column = self._nvim.api.win_get_cursor(0)
        return row - 1, len(self._nvim.current.buffer[row - 1].encode()[:column].decode())

    def save(self) -> None:
        self._nvim.input("<Esc>")
        self._nvim.command("write")

    def close(self, path: Path) -> None:
        self._nvim.input("<Esc>")
        self._nvim.command(f"bdelete! {path}")

    def messages(self) -> list[str]:
        told: list[str] = self._nvim.exec_lua("return told")
        return told

    def errors(self) -> str:
        """What Neovim itself complained about."""
        errors: str = self._nvim.eval("v:errmsg")
        return errors

    def status(self) -> str:
        status: str = self._nvim.exec_lua("return require('midfill.status').long(0)")
        return status

    def health(self) -> str:
        self._nvim.input("<Esc>")
        self._nvim.command("checkhealth midfill")
        return self.text()

    def command(self, name: Command) -> None:
        self._nvim.input(f"<Esc>:Midfill {name}<CR>")
        until(lambda: self._nvim.api.get_mode()["mode"] == "n", "normal mode")

    def beside(self) -> str:
        shown = [window.buffer for window in self._nvim.windows]
        return "\n".join("\n".join(buffer[:]) for buffer in shown if buffer.name.startswith("midfill://"))

    def quit(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            self._nvim.command("qa!")
        self._nvim.close()
