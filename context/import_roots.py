"""Where modules lie in a workspace, as its own project files say; and the folders of a path.

Owns the shapes only. Reading those files is the workspace's affair.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_MAX_ANCESTORS = 12  # folders above an importer that are tried as a root


@dataclass(frozen=True, slots=True)
class ScriptPaths:
    """What a tsconfig.json or jsconfig.json says, in the folder it lies in.

    base: its baseUrl as a workspace path, None without. paths: its patterns with their targets, as written.
    """

    folder: str
    base: str | None = None
    paths: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Roots:
    """What the workspace's own files say of where modules lie. All folders are workspace paths, "" = the root.

    sources: folders in which absolute imports begin. scripts: one per tsconfig. go_modules: (folder, module path) per go.mod.
    crates: (name, folder) per Cargo package. packages: (name, folder) per package.json with a name.
    """

    sources: tuple[str, ...] = ()
    scripts: tuple[ScriptPaths, ...] = ()
    go_modules: tuple[tuple[str, str], ...] = ()
    crates: tuple[tuple[str, str], ...] = ()
    packages: tuple[tuple[str, str], ...] = ()


NOWHERE = Roots()


def folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def ancestors(folder: str) -> Iterator[str]:
    """The folder and those above it, nearest first, the workspace's root last."""
    for _ in range(_MAX_ANCESTORS):
        yield folder
        if not folder:
            return
        folder = folder_of(folder)
    yield ""
