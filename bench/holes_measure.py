"""What a completion of a hole is worth: equal, alike, and which of its names exist nowhere.

Pure. A name is undefined if the file does not have it anywhere, the tree neither defines it nor takes it as a parameter nor
asks it of anything, no import brings it along, and it is no word of the language.
"""

from __future__ import annotations

import functools
import keyword
import re
from dataclasses import dataclass

import tree_sitter

from bench.holes_sites import COMMON
from bench.holes_tree import SourceFile, Tree
from bench.rename_words import SCRIPT_NAMES
from context.queries import compiled
from context.syntax import NoTree, parse

_NAME = re.compile(r"(?<![\w$])[^\W\d]\w*")
_MEMBER = re.compile(rb"\.\s*([^\W\d]\w*)")
_STRING = re.compile(r"\"(?:\\.|[^\"\\])*\"?|'(?:\\.|[^'\\])*'?|`[^`]*`?")
_REMARK = re.compile(r"(?:#|//).*")
_WORDS = {
    "python": frozenset(keyword.kwlist) | COMMON | {"self", "cls", "match", "case", "type"},
    "": COMMON | SCRIPT_NAMES,
}


def rest_of_line(text: str) -> str:
    """Of what was generated: its first line, without blanks at the end."""
    return text.split("\n", 1)[0].rstrip()


def similarity(a: str, b: str) -> float:
    """1 = equal, 0 = nothing in common: 1 − the fewest single changes between them / the longer one's length."""
    if a == b:
        return 1.0
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y))
    return 1.0 - row[-1] / max(len(a), len(b))


@dataclass(frozen=True)
class Names:
    """What exists in a tree."""

    tree: Tree

    @functools.cached_property
    def shared(self) -> frozenset[str]:
        """Names that any file may ask for."""
        found: set[str] = set()
        for file in self.tree.files.values():
            found |= {d.name for d in file.symbols.definitions}
            for one in file.symbols.imports:
                found |= {one.alias, one.name, *re.split(r"\W+", one.module)}
            found |= {name.decode() for name in _MEMBER.findall(file.text)}
            found |= _parameters(file)
        return frozenset(found)

    def undefined(self, path: str, completion: str) -> tuple[str, ...]:
        """Names of a completion that exist nowhere, each once, in order. Strings and comments aside."""
        file = self.tree.files[path]
        words = _WORDS["python"] if file.language == "python" else _WORDS[""]
        own = set(_NAME.findall(file.text.decode()))
        said = _NAME.findall(_REMARK.sub("", _STRING.sub('""', completion)))
        return tuple(name for name in dict.fromkeys(said) if name not in own | words and name not in self.shared)


def _parameters(file: SourceFile) -> set[str]:
    """Names of parameters, and of arguments that are named."""
    tree = parse(file.language, file.text)
    if isinstance(tree, NoTree):
        return set()
    found = tree_sitter.QueryCursor(compiled(file.language).uses).captures(tree.root).get("skip", [])
    return {file.text[node.start_byte : node.end_byte].decode() for node in found}
