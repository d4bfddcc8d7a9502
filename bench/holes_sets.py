"""The sets of places of the holes bench: in real trees, and the same places under other names.

Owns which places are in both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.errors import BenchError
from bench.holes_sites import Hole, choose, fairly
from bench.holes_tree import Tree
from bench.rename import Renamed, rename

SETS = ("real", "renamed")


@dataclass(frozen=True)
class Case:
    """A hole of a set: `case` is its name in the results, the same in all sets."""

    case: str
    tree: Tree
    hole: Hole

    @property
    def want(self) -> str:
        return self.tree.files[self.hole.path].text[self.hole.start : self.hole.end].decode()


Sets = dict[str, tuple[Case, ...]]


def sets_of(trees: Sequence[Tree], n: int, seed: int, names: Sequence[str]) -> Sets:
    """The same n places in each set, or as many as are fair in both. Raises BenchError if there are none."""
    by_name = {tree.name: tree for tree in trees}
    others: dict[str, Renamed] = {}

    def moved(hole: Hole) -> Hole | None:
        if hole.tree not in others:
            others[hole.tree] = rename(by_name[hole.tree], seed)
        other = others[hole.tree]
        start, end = other.place(hole.path, hole.start), other.place(hole.path, hole.end)
        path, left_out = other.paths[hole.path], tuple(other.paths[each] for each in hole.left_out)
        name = other.names.get(hole.name, hole.name)
        new = Hole(other.tree.name, path, hole.line, start, end, name, other.paths[hole.origin], hole.form)
        fair = fairly(other.tree, new)
        return fair if fair is not None and set(fair.left_out) <= set(left_out) else None

    wants_renamed = "renamed" in names
    holes = choose(trees, n, seed, lambda hole: not wants_renamed or moved(hole) is not None)
    if not holes:
        raise BenchError(
            "no line of these trees uses a name of another file in a way that can be asked for; name more with --root"
        )
    made: Sets = {}
    for name in names:
        if name == "real":
            made[name] = tuple(Case(hole.case, by_name[hole.tree], hole) for hole in holes)
        else:
            made[name] = tuple(
                Case(hole.case, others[hole.tree].tree, new) for hole in holes if (new := moved(hole)) is not None
            )
    return made


def group(name: str, budget: int) -> str:
    return f"{name}/{budget}"


def by_tree(cases: Sequence[Case]) -> Iterator[tuple[Tree, list[Case]]]:
    """Cases tree by tree, so that each tree is copied and indexed once."""
    found: dict[str, tuple[Tree, list[Case]]] = {}
    for case in cases:
        found.setdefault(case.tree.name, (case.tree, []))[1].append(case)
    yield from found.values()
