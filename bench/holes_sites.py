"""Where holes are: lines that use a name which another file of the tree defines.

Owns the choice, which a seed decides, and what makes a place fair: what is cut out of its line stands nowhere else in the tree,
once the files that repeat five lines around it are left out.
"""

from __future__ import annotations

import builtins
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from bench.holes_tree import SourceFile, Tree, squeeze

T = TypeVar("T")
RUN = 5  # lines
PER_FILE = 2
_FEWEST, _MOST = 8, 100  # characters that are cut out
_MOST_OWNERS = 2
_BEFORE = 3  # characters in front of the hole, without blanks
_NOT_IN = re.compile(
    rb"\s*(?:(?:import|from|def|class|async def|export|function|interface|type|enum|package|using|use)\b|[@#*]|//|/\*)"
)
_REMARK = re.compile(rb"\s(?:#|//|/\*)")
_CHAIN = re.compile(rb"(\w*)(?:[\])](?=\.|\?))?(?:\??\.\w+)*\??(?:\.|->|::)\Z")
_CHECKED = frozenset({"python", "typescript", "typescriptreact", "javascript", "javascriptreact"})
_PAIRS = {ord(")"): ord("("), ord("]"): ord("["), ord("}"): ord("{")}
COMMON = frozenset(
    name for kind in (str, bytes, list, dict, set, int, tuple, object, type, BaseException) for name in dir(kind)
) | frozenset(dir(builtins))


@dataclass(frozen=True, slots=True)
class Hole:
    """Bytes [start, end) of a file: the rest of a line, blanks at its end left out.

    line: from 1. name: defined in the file `origin`. form: "name" (the hole begins with it) or "arguments" (it begins behind
    the bracket of its call). left_out: files that repeat the lines around it.
    """

    tree: str
    path: str
    line: int
    start: int
    end: int
    name: str
    origin: str
    form: str
    left_out: tuple[str, ...] = ()

    @property
    def case(self) -> str:
        return f"{self.tree}/{self.path}:{self.line}:{self.form}"


def choose(trees: Sequence[Tree], n: int, seed: int, is_fair: Callable[[Hole], bool] = lambda hole: True) -> tuple[Hole, ...]:
    """n holes, or as many as there are: one of each tree in turn; fewer are the first of more. is_fair: further wishes."""
    return in_turn([filter(is_fair, holes_of(tree, seed)) for tree in trees], n)


def in_turn(sources: Sequence[Iterator[T]], n: int) -> tuple[T, ...]:
    """n of what the sources have, or as much as there is: one of each in turn, so that fewer are the first of more."""
    left, found = list(sources), list[T]()
    while left and len(found) < n:
        for source in list(left):
            try:
                found.append(next(source))
            except StopIteration:
                left.remove(source)
    return tuple(found[:n])


def stands_once(tree: Tree, hole: Hole) -> bool:
    """Is the hole's text nowhere else in its own file, blanks aside?"""
    file = tree.files[hole.path]
    return file.squeezed.count(squeeze(file.text[hole.start : hole.end])) == 1


def holes_of(tree: Tree, seed: int) -> Iterator[Hole]:
    """The fair holes of a tree, in an order that the seed decides; at most PER_FILE in one file."""
    found = candidates(tree)
    random.Random(f"{seed}/{tree.name}").shuffle(found)
    n_in: Counter[str] = Counter()
    for hole in found:
        if n_in[hole.path] < PER_FILE:
            fair = fairly(tree, hole)
            if fair is not None:
                n_in[hole.path] += 1
                yield fair


def fairly(tree: Tree, hole: Hole) -> Hole | None:
    """The hole, with the files to leave out; None if its text stands elsewhere all the same."""
    text = squeeze(tree.files[hole.path].text[hole.start : hole.end])
    if not stands_once(tree, hole):
        return None
    others = [file for file in tree.files.values() if file.path != hole.path and text in file.squeezed]
    if not others:
        return hole
    runs = runs_around(tree.files[hole.path].text, hole.line)
    if hole.origin in {file.path for file in others} or not all(repeats(file.text, runs) for file in others):
        return None
    return Hole(**{**{name: getattr(hole, name) for name in Hole.__slots__}, "left_out": tuple(file.path for file in others)})


def runs_around(text: bytes, line: int) -> frozenset[tuple[bytes, ...]]:
    """Every run of RUN lines with that line in it, blanks at both ends of lines and blank lines aside."""
    lines = [(number, each.strip()) for number, each in enumerate(text.split(b"\n"), 1) if each.strip()]
    at = next(i for i, (number, _) in enumerate(lines) if number == line)
    bare = [each for _, each in lines]
    starts = range(max(at - RUN + 1, 0), min(at, len(bare) - RUN) + 1)
    return frozenset(tuple(bare[start : start + RUN]) for start in starts)


def repeats(text: bytes, runs: frozenset[tuple[bytes, ...]]) -> bool:
    """Does a text hold one of the runs?"""
    bare = [line.strip() for line in text.split(b"\n") if line.strip()]
    return any(tuple(bare[start : start + RUN]) in runs for start in range(len(bare) - RUN + 1))


def candidates(tree: Tree) -> list[Hole]:
    """Every line that uses a name of another file, fair or not; one place on each."""
    owners: dict[str, set[str]] = defaultdict(set)
    for file in tree.files.values():
        functions = {(*d.scope, d.name) for d in file.symbols.definitions if d.kind in ("function", "method")}
        for d in file.symbols.definitions:
            is_local = any(d.scope[: i + 1] in functions for i in range(len(d.scope)))
            if not is_local and d.kind not in ("field", "module") and not (d.kind == "variable" and d.scope):
                owners[d.name].add(file.path)
    found = []
    for file in tree.files.values():
        own = {d.name for d in file.symbols.definitions}
        inside, outside = imported(tree.name, file)
        taken_lines: set[int] = set()
        for use in file.symbols.uses:
            known = owners.get(use.name)
            if known is None or file.path in known or use.name in own or len(known) > _MOST_OWNERS:
                continue
            if len(use.name) < 4 or use.name in COMMON or use.name.startswith("__"):
                continue
            root = receiver(file.text, use.start)
            if root in outside or (root is None and use.name not in inside):
                continue
            hole = _hole(tree, file, use.name, use.start, sorted(known)[0], use.is_call)
            if hole is not None and hole.line not in taken_lines:
                taken_lines.add(hole.line)
                found.append(hole)
    return found


def imported(tree: str, file: SourceFile) -> tuple[frozenset[str], frozenset[str]]:
    """Names that a file takes from its own tree, and those that it takes from elsewhere."""
    inside: set[str] = set()
    outside: set[str] = set()
    for one in file.symbols.imports:
        first = re.split(r"[./:\\\\]", one.module, maxsplit=1)[0]
        is_own = one.level > 0 or first == tree or one.module.startswith(".")
        called = one.alias or (one.name if one.name not in ("", "*", "default") else first)
        (inside if is_own or file.language not in _CHECKED else outside).add(called)
    return frozenset(inside), frozenset(outside - inside)


def receiver(text: bytes, at: int) -> str | None:
    """What a member is asked of: the first name of its chain, "" if that is no name; None: what stands there is no member."""
    found = _CHAIN.search(text[max(at - 200, 0) : at])
    return found[1].decode(errors="replace") if found is not None else None


def _hole(tree: Tree, file: SourceFile, name: str, at: int, origin: str, is_call: bool) -> Hole | None:
    text = file.text
    line_start = text.rfind(b"\n", 0, at) + 1
    line_end = text.find(b"\n", at)
    line_end = len(text) if line_end < 0 else line_end
    line = text[line_start:line_end]
    if _NOT_IN.match(line) or _REMARK.search(line) or not _is_whole(line) or not line.isascii():
        return None
    behind = at + len(name)
    number = text.count(b"\n", 0, line_start) + 1
    forms = [("arguments", behind + 1)] if is_call and text[behind : behind + 1] == b"(" else []
    forms.append(("name", at))
    if number % 3 == 0:
        forms.reverse()
    for form, start in forms:
        end = line_start + len(line.rstrip())
        n_cut, n_before = len(squeeze(text[start:end])), len(squeeze(text[line_start:start]))
        if n_cut >= _FEWEST and end - start <= _MOST and n_before >= _BEFORE:
            return Hole(tree.name, file.path, number, start, end, name, origin, form)
    return None


def _is_whole(line: bytes) -> bool:
    """Are the line's brackets and quotes closed on it?"""
    opened: list[int] = []
    for byte in line:
        if byte in _PAIRS.values():
            opened.append(byte)
        elif byte in _PAIRS and (not opened or opened.pop() != _PAIRS[byte]):
            return False
    code = line.rstrip()
    return not opened and code.count(b'"') % 2 == 0 and code.count(b"'") % 2 == 0 and not code.endswith((b"\\", b","))
