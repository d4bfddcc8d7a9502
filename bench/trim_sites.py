"""Files to be trimmed, each with places in other files that use what it defines.

Owns the choice, which a seed decides: files of 300 to 500 lines, three places each, and no place whose text stands in the file
itself or twice in its own.
"""

from __future__ import annotations

import importlib.util
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.errors import BenchError
from bench.holes_sites import COMMON, Hole, candidates, in_turn, stands_once
from bench.holes_tree import SourceFile, Tree, default_roots, squeeze

LINES = (300, 500)
MOST_BYTES = 20_000  # a file of so many lines seldom has more, and a prompt has to hold it
N_PLACES = 3
MORE_PACKAGES = (
    "mypy", "pip", "numpy", "setuptools", "pygments", "asyncio", "concurrent", "distutils", "email", "http", "idlelib",
    "importlib", "lib2to3", "logging", "multiprocessing", "tkinter", "unittest", "urllib", "xml",
)  # fmt: skip
_WORD = re.compile(rb"[^\W\d]\w*")
_NEAR_BYTES = (300, 100)  # before and behind a place


@dataclass(frozen=True)
class Reference:
    """A file, and places in others that use it. keep: names that it defines and that stand near the places, the holes aside."""

    tree: Tree
    file: SourceFile
    places: tuple[Hole, ...]
    keep: frozenset[str]

    @property
    def name(self) -> str:
        return f"{self.tree.name}/{self.file.path}"


def more_roots(cache: Path) -> list[Path]:
    """The folders that are taken where none is named."""
    roots = default_roots(cache)
    for name in MORE_PACKAGES:
        found = importlib.util.find_spec(name)
        if found is not None and found.submodule_search_locations:
            roots.append(Path(next(iter(found.submodule_search_locations))))
    return roots


def references(trees: Sequence[Tree], n: int, seed: int) -> tuple[Reference, ...]:
    """n of them, or as many as there are: one of each tree in turn; fewer are the first of more. Raises BenchError."""
    found = in_turn([references_of(tree, seed) for tree in trees], n)
    if not found:
        raise BenchError(
            f"no file of {LINES[0]} to {LINES[1]} lines is used at {N_PLACES} places of others; name more folders with --root"
        )
    return found


def references_of(tree: Tree, seed: int) -> Iterator[Reference]:
    by_origin: dict[str, list[Hole]] = defaultdict(list)
    for hole in candidates(tree):
        by_origin[hole.origin].append(hole)
    paths = [path for path in sorted(by_origin) if _is_meant(tree.files[path].text)]
    random.Random(f"{seed}/{tree.name}").shuffle(paths)
    for path in paths:
        places = _places(tree, path, by_origin[path], random.Random(f"{seed}/{tree.name}/{path}"))
        if len(places) == N_PLACES:
            yield Reference(tree, tree.files[path], places, _keep(tree, path, places))


def _is_meant(text: bytes) -> bool:
    return LINES[0] <= text.count(b"\n") <= LINES[1] and len(text) <= MOST_BYTES


def _places(tree: Tree, path: str, holes: Sequence[Hole], dice: random.Random) -> tuple[Hole, ...]:
    """In different files and of different names where there are such."""
    left = list(holes)
    dice.shuffle(left)
    chosen: list[Hole] = []
    while left and len(chosen) < N_PLACES:
        paths, names = [hole.path for hole in chosen], [hole.name for hole in chosen]
        best = min(left, key=lambda hole: paths.count(hole.path) + names.count(hole.name))
        left.remove(best)
        text = squeeze(tree.files[best.path].text[best.start : best.end])
        if text not in tree.files[path].squeezed and stands_once(tree, best):
            chosen.append(best)
    return tuple(chosen)


def _keep(tree: Tree, path: str, places: Sequence[Hole]) -> frozenset[str]:
    near: set[bytes] = set()
    for hole in places:
        text = tree.files[hole.path].text
        near.update(_WORD.findall(text, max(hole.start - _NEAR_BYTES[0], 0), hole.start))
        near.update(_WORD.findall(text, hole.end, hole.end + _NEAR_BYTES[1]))
    defined = {d.name for d in tree.files[path].symbols.definitions if d.kind in ("function", "class") and not d.scope}
    return frozenset(name for name in defined - COMMON if name.encode() in near)
