"""A copy of a tree on the disk, in which one hole at a time is cut.

Owns the folder: what is in it before anything looks at it is the tree without the hole's text and without the files that repeat
the lines around it.
"""

from __future__ import annotations

from pathlib import Path

from bench.holes_sites import Hole
from bench.holes_tree import Tree


class Copy:
    """The tree, written below `home` under its name."""

    def __init__(self, tree: Tree, home: Path) -> None:
        self.root = home / tree.name
        self._tree = tree
        self._touched: set[str] = set()
        for file in tree.files.values():
            path = self.path(file.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.text)

    def path(self, name: str) -> Path:
        return self.root / name

    def cut(self, hole: Hole) -> tuple[bytes, list[Path]]:
        """The text of the hole's file with the hole in it, as it is on the disk now; and what has changed there."""
        before = self._touched
        self._touched = {hole.path, *hole.left_out}
        for name in before - self._touched:
            path = self.path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self._tree.files[name].text)
        whole = self._tree.files[hole.path].text
        text = whole[: hole.start] + whole[hole.end :]
        self.path(hole.path).write_bytes(text)
        for name in hole.left_out:
            self.path(name).unlink(missing_ok=True)
        return text, [self.path(name) for name in sorted(before | self._touched)]
