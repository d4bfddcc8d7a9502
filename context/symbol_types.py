"""What is known of a file's symbols: definitions, imports and names used, as frozen values.

Owns the shapes only. Offsets are bytes of the file; every text is a str, UTF-8 with replacement.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_SIGNATURE = 400  # characters
MAX_DOC = 200  # characters

KINDS = (
    "function",
    "method",
    "class",
    "interface",
    "enum",
    "type",
    "constant",
    "variable",
    "module",
    "field",
)


@dataclass(frozen=True, slots=True)
class Definition:
    """Something with a name: bytes [start, end) of the file.

    kind: one of KINDS. name_start: where the name stands. body_start: where the body begins, `end` if there is none.
    signature: as written up to the body, blanks folded, at most MAX_SIGNATURE characters. doc: the first line of its doc string
    or comment, at most MAX_DOC characters. scope: the names of what encloses it, outermost first.
    """

    name: str
    kind: str
    start: int
    end: int
    name_start: int
    body_start: int
    signature: str
    doc: str
    scope: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name. name: "" = the module itself, "*" = everything in it. alias: what the file calls it, "" = the same.

    level: leading dots (Python). module: as written in the file, without Python's leading dots and without quotes; a C header
    in angle brackets keeps them.
    """

    module: str
    name: str
    alias: str
    level: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Use:
    """A name used: an identifier that defines nothing. is_call: it is called there. scope: as for definitions."""

    name: str
    start: int
    is_call: bool
    scope: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FileSymbols:
    """All of a file, each in its order. Without a grammar there are none. is_broken: the tree holds errors."""

    language: str
    definitions: tuple[Definition, ...]
    imports: tuple[Import, ...]
    uses: tuple[Use, ...]
    n_bytes: int
    is_broken: bool
