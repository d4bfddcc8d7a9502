"""The editors that the tests drive, fetched once into a cache directory (MIDFILL_EDITORS names another one).

An editor is a command line and an environment. One that can't be had is an error with its reason, never left out in silence.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.editors.debian import Unavailable, unpack

PYNVIM = "pynvim==0.6.0"


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

    def make(place: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(place), PYNVIM]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"{PYNVIM}: {(done.stderr.strip().splitlines() or ['pip gave no reason'])[-1]}")

    return _once(f"pynvim-{sys.version_info.major}.{sys.version_info.minor}", make)


# by the name (Helix has no ghost text, and a test of its own) that the tests use
PROGRAMS: dict[str, Callable[[], Program]] = {
    "neovim-0.12": lambda: neovim("testing"),
    "neovim-0.10": lambda: neovim("trixie"),
    "emacs-30": lambda: emacs("trixie"),
    "emacs-28": lambda: emacs("bookworm", "elpa-eglot", "emacs-el"),  # 28 warns of missing sources, for ever
}
