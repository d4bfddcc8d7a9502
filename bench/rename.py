"""A tree of code under other names: the same code, as no model has read it before.

Owns the map, which a seed decides, and its use: every name that the tree itself binds gets another one, the same everywhere, in
identifiers, in strings that are nothing but a name, in comments where a word can only be a name, and in paths. Left alone are
keywords, built-in names, members of built-in types, dunders, and what comes from outside of the tree. Names are put together of
the words that the tree's own names are made of, dealt out anew among words of like length; so a word is renamed alike in every
name, and names stay as long as they were.
"""

from __future__ import annotations
import __future__

import builtins
import keyword
import random
import re
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import tree_sitter

from bench.errors import BenchError
from bench.holes_sites import COMMON, imported, receiver
from bench.holes_tree import SourceFile, Tree
from bench.rename_words import SCRIPT_NAMES
from context.syntax import NoTree, nodes, parse

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|_+|[^\W\d_]+|[^\w]+")
_NAME = re.compile(r"[^\W\d]\w*\Z")
_IN_TEXT = re.compile(rb"(?<![\w$])(?:_\w+|[A-Za-z]\w*(?:_\w+|[a-z\d][A-Z]\w*))(?!\w)")
_PATHS = re.compile(r"\.{1,2}/")
_FIXED = (
    COMMON
    | frozenset(dir(builtins))
    | frozenset((*keyword.kwlist, *keyword.softkwlist, "self", "cls", "args", "kwargs"))
    | frozenset(sys.stdlib_module_names)
    | frozenset(__future__.all_feature_names)
    | SCRIPT_NAMES
)
_LEAVES = frozenset({"identifier", "constant", "name", "variable_name", "simple_identifier"})
_STRINGS = frozenset({"string", "string_fragment", "string_content", "comment", "line_comment", "block_comment"})


@dataclass(frozen=True)
class Renamed:
    """tree: under its new names. names: the map. moves: by old path, the starts and ends of what was replaced, and how far what
    is behind each has moved."""

    tree: Tree
    names: dict[str, str]
    paths: dict[str, str]
    moves: dict[str, tuple[tuple[int, ...], tuple[int, ...]]]

    def place(self, path: str, offset: int) -> int:
        """Where a byte of a file of the old tree is now. Of one inside a name, that name's beginning."""
        ends, shifts = self.moves[path]
        i = bisect_right(ends, offset) - 1
        return offset + (shifts[i] if i >= 0 else 0)


def rename(tree: Tree, seed: int) -> Renamed:
    """Raises BenchError if a file would parse worse than before."""
    leaves = {file.path: tuple(_leaves(file)) for file in tree.files.values()}
    bound, fixed, every = _bound(tree, leaves)
    names = _dealt(bound - fixed, fixed | (every - bound), random.Random(f"rename/{seed}/{tree.name}"))
    paths = {path: _path(path, names) for path in tree.files}
    if len(set(paths.values())) < len(paths):
        raise BenchError(f"two files of {tree.name} would have the same name; take another --seed")
    files: dict[str, SourceFile] = {}
    moves = {}
    for file in tree.files.values():
        text, moves[file.path] = _replaced(file, leaves[file.path], names, tree.name)
        made = SourceFile(paths[file.path], text, file.language)
        if _n_errors(made) > _n_errors(file):
            raise BenchError(f"{tree.name}/{file.path} can't be renamed without breaking its syntax; leave its folder out")
        files[made.path] = made
    root = names.get(tree.name, tree.name)
    return Renamed(Tree(root, dict(sorted(files.items()))), names, paths, moves)


Leaf = tuple[int, int, str]  # bytes [start, end), and "identifier" or "text"


def _leaves(file: SourceFile) -> Iterator[Leaf]:
    """Identifiers and texts, in order."""
    tree = parse(file.language, file.text)
    if isinstance(tree, NoTree):
        return
    for node in nodes(tree.root):
        kind = node.type
        if kind in _STRINGS and not _has_code(node):
            yield node.start_byte, node.end_byte, "text"
        elif not node.child_count and node.is_named and (kind in _LEAVES or kind.endswith("identifier")):
            yield node.start_byte, node.end_byte, "identifier"


def _has_code(node: tree_sitter.Node) -> bool:
    """Its content is told by nodes of its own."""
    return node.type == "string" and node.child_count > 0 and any(child.is_named for child in node.children)


def _bound(tree: Tree, leaves: dict[str, tuple[Leaf, ...]]) -> tuple[set[str], set[str], set[str]]:
    """Names that the tree binds, those that must stay, and all. What stands bare and comes from nowhere else is bound here."""
    bound: set[str] = set()
    every: set[str] = set()
    fixed: set[str] = set(_FIXED)
    for file in tree.files.values():
        inside, outside = imported(tree.name, file)
        fixed |= outside
        for one in file.symbols.imports:
            if (one.alias or one.name) in outside or one.module.partition(".")[0] in outside:
                fixed |= {one.name, *re.split(r"\W+", one.module)}
        bound |= {d.name for d in file.symbols.definitions} | inside
        for start, end, kind in leaves[file.path]:
            if kind != "identifier":
                continue
            name = file.text[start:end].decode()
            every.add(name)
            root = receiver(file.text, start)
            if root is None:
                bound.add(name)
            elif root in outside:
                fixed.add(name)
        for part in file.path.rpartition(".")[0].split("/"):
            bound.add(part)
    bound.add(tree.name)
    fixed |= {name for name in bound if name.startswith("__") and name.endswith("__")}
    return {name for name in bound if _NAME.match(name)} - {"_", ""}, fixed, every


def _dealt(names: Iterable[str], fixed: set[str], dice: random.Random) -> dict[str, str]:
    """Another name for each, none twice and none of those that stay."""
    ordered = sorted(names)
    words = sorted({word.lower() for name in ordered for word in _WORD.findall(name) if word[0].isalpha()})
    other: dict[str, str] = {}
    for group in _alike(words):
        dealt = list(group)
        dice.shuffle(dealt)
        other |= dict(zip(dealt, [*dealt[1:], dealt[0]], strict=True))
    taken = set(fixed)
    made: dict[str, str] = {}
    for name in ordered:
        new = "".join(_like(word, other.get(word.lower(), word)) for word in _WORD.findall(name))
        while new in taken or keyword.iskeyword(new):
            extra = dice.choice(words)
            new += f"_{extra}" if "_" in name or name.islower() else extra.capitalize()
        taken.add(new)
        made[name] = new
    return made


def _alike(words: list[str]) -> list[list[str]]:
    """Words of like length, no word alone if there is another."""
    groups: dict[int, list[str]] = {}
    for word in words:
        groups.setdefault(min((len(word) + 1) // 3, 3) if len(word) > 1 else -1, []).append(word)
    found = [groups[key] for key in sorted(groups)]
    while len(found) > 1 and (small := next((group for group in found if len(group) == 1), None)) is not None:
        found.remove(small)
        found[-1] = sorted([*found[-1], *small])
    return found


def _like(word: str, other: str) -> str:
    if word.isupper() and len(word) > 1:
        return other.upper()
    return other[:1].upper() + other[1:] if word[0].isupper() else other


def _path(path: str, names: dict[str, str]) -> str:
    stem, dot, ending = path.rpartition(".")
    return "/".join(names.get(part, part) for part in stem.split("/")) + dot + ending


def _replaced(
    file: SourceFile, leaves: tuple[Leaf, ...], names: dict[str, str], root: str
) -> tuple[bytes, tuple[tuple[int, ...], tuple[int, ...]]]:
    pieces: list[bytes] = []
    ends: list[int] = []
    shifts: list[int] = []
    place = shift = 0

    def put(start: int, end: int, new: bytes) -> None:
        nonlocal place, shift
        if start < place:
            return
        pieces.extend((file.text[place:start], new))
        place = end
        shift += len(new) - (end - start)
        ends.append(end)
        shifts.append(shift)

    for start, end, kind in leaves:
        old = file.text[start:end]
        if kind == "identifier":
            new = names.get(old.decode())
            if new is not None:
                put(start, end, new.encode())
            continue
        for at, stop, word in _in_text(old, names, root):
            put(start + at, start + stop, word)
    pieces.append(file.text[place:])
    return b"".join(pieces), (tuple(ends), tuple(shifts))


def _in_text(text: bytes, names: dict[str, str], root: str) -> Iterator[tuple[int, int, bytes]]:
    """Names in a string or comment: all of it, or words that no language but code has (and the tree's own name), or the parts
    of a path."""
    bare = text.strip(b"\"'`")
    whole = bare.decode()
    at = text.find(bare)
    if whole in names:
        yield at, at + len(bare), names[whole].encode()
    elif _PATHS.match(whole) and "\n" not in whole:
        parts = [names.get(part, part) for part in whole.split("/")]
        yield at, at + len(bare), "/".join(parts).encode()
    else:
        for found in re.finditer(_IN_TEXT.pattern + rb"|\b" + re.escape(root.encode()) + rb"\b", text):
            new = names.get(found[0].decode())
            if new is not None:
                yield found.start(), found.end(), new.encode()


def _n_errors(file: SourceFile) -> int:
    tree = parse(file.language, file.text)
    if isinstance(tree, NoTree) or not tree.has_error:
        return 0
    return sum(node.is_error or node.is_missing for node in nodes(tree.root))
