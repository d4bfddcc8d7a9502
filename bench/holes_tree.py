"""The code that holes are made in: trees of source files, read once, as values.

Owns which files of a folder count, and the folders that are taken where none is named: some installed Python packages and the
sources of one TypeScript package, which `npm` fetches if it is not there yet.
"""

from __future__ import annotations

import importlib.util
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bench.errors import BenchError
from context.languages import language_of
from context.symbol_types import FileSymbols
from context.symbols import symbols_of

PACKAGES = (
    "aiohttp", "cattrs", "click", "diskcache", "grimp", "hypothesis", "importlinter", "jinja2", "pathspec", "pluggy", "pygls",
    "requests", "rich", "tqdm", "urllib3", "watchdog",
)  # fmt: skip
SCRIPT_PACKAGE = "rxjs@7.8.1"
_SCRIPT_SOURCES = "package/src"
CODE = frozenset({
    "python", "typescript", "typescriptreact", "javascript", "javascriptreact", "go", "rust", "java", "c", "cpp", "csharp",
    "ruby", "php", "kotlin", "swift", "lua", "scala", "zig",
})  # fmt: skip
_MAX_BYTES = 200_000
_LEFT_OUT = frozenset({"__pycache__", "node_modules", ".git", "_vendor", "vendor", "dist", "build"})


@dataclass(frozen=True)
class SourceFile:
    """path: below the tree's root, with slashes. text: UTF-8, LF."""

    path: str
    text: bytes
    language: str

    @cached_property
    def symbols(self) -> FileSymbols:
        return symbols_of(self.language, self.text)

    @cached_property
    def squeezed(self) -> bytes:
        """Without blanks, so that the same code is found however it is laid out."""
        return squeeze(self.text)


@dataclass(frozen=True)
class Tree:
    """name: of its root. files: by path, in order of paths."""

    name: str
    files: dict[str, SourceFile]


def squeeze(text: bytes) -> bytes:
    return b"".join(text.split())


def load_tree(root: Path) -> Tree:
    """All source files below a folder. Raises BenchError."""
    if not root.is_dir():
        raise BenchError(f"--root {root} is no folder; name one that holds source files")
    files: dict[str, SourceFile] = {}
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if not _LEFT_OUT.isdisjoint(relative.parts) or path.is_symlink() or not path.is_file():
            continue
        language = language_of(path.name)
        if language not in CODE or path.suffix in (".pyx", ".pyi") or path.stat().st_size > _MAX_BYTES:
            continue
        data = path.read_bytes()
        try:
            data.decode()
        except UnicodeDecodeError:
            continue
        if b"\r" not in data and b"\0" not in data:
            files[relative.as_posix()] = SourceFile(relative.as_posix(), data, language)
    if not files:
        raise BenchError(f"--root {root} holds no source files that can be read; name another folder")
    return Tree(root.resolve().name, files)


def default_roots(cache: Path) -> list[Path]:
    """Folders of packages that are there. cache: where the TypeScript package is kept. Raises BenchError if there are none."""
    roots = []
    for name in PACKAGES:
        found = importlib.util.find_spec(name)
        if found is not None and found.submodule_search_locations:
            roots.append(Path(next(iter(found.submodule_search_locations))))
    if not roots:
        raise BenchError("none of the packages that are used by default is installed; name folders with --root")
    return [*roots, *_script_root(cache)]


def _script_root(cache: Path) -> list[Path]:
    """The TypeScript package's sources, or nothing where they can't be fetched."""
    name, _, version = SCRIPT_PACKAGE.partition("@")
    home = cache / f"{name}-{version}" / name  # the tree is called after its package
    if not home.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        try:
            done = subprocess.run(["npm", "pack", SCRIPT_PACKAGE], cwd=cache, capture_output=True, timeout=120, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return []
        archive = cache / f"{name}-{version}.tgz"
        if done.returncode or not archive.is_file():
            return []
        with tarfile.open(archive) as packed:
            packed.extractall(cache / f"{name}-{version}.part", filter="data")
        home.parent.mkdir(exist_ok=True)
        (cache / f"{name}-{version}.part" / _SCRIPT_SOURCES).rename(home)
    return [home]


def trees_of(roots: Sequence[Path]) -> tuple[Tree, ...]:
    """Raises BenchError: two of the same name could not be told apart."""
    trees = tuple(load_tree(root) for root in roots)
    names = [tree.name for tree in trees]
    twice = next((name for name in names if names.count(name) > 1), "")
    if twice:
        raise BenchError(f"two roots are called {twice}; their places could not be told apart, so rename one")
    return trees
