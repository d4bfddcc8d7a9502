"""Frozen values of the zones: what may go into a prompt, and what did.

Three zones: *core* (heads of what encloses the cursor, the functions edited last), *reference* (definitions of names used
near the cursor, callers, pieces of files that are open), *rolling* (project rules, recent edits). What goes in comes in parts
of three grades: A is never cut while the piece is there (signatures), B is cut line by line (a body), C is folded into one
line before anything else is cut (helpers, constants, other members). Documentation is a grade of its own, D, which goes after
bodies, and so is the signature of a class's constructor, E, which goes last.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

ZONES = ("core", "reference", "rolling")


@dataclass(frozen=True, slots=True)
class Part:
    """Whole lines of one grade, without line ends. names: what stands for a part of grade C when it is folded."""

    grade: str  # "A" | "B" | "C" | "D" | "E"
    lines: tuple[str, ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A piece that may go into a prompt.

    zone: one of ZONES. kind: "definition" (of another file) | "own" (of this one) | "caller" | "open" | "edit" | "rules" |
    "edited". path: as the model is told it. name: with what encloses it ("Cart.total"). points: more is better, comparable
    within one choice only; why: for people. source: the document id of the file, for whoever has to know whether it may still
    be used. start: byte in its file. of_text: what its parts are cut from, as a digest; "" = its parts are all there is of
    it. members: what is used of it here, with the points of each.
    """

    zone: str
    kind: str
    path: str
    name: str
    parts: tuple[Part, ...]
    points: int
    why: str
    source: str = ""
    start: int = 0
    of_text: str = ""
    members: tuple[tuple[str, int], ...] = ()

    @property
    def key(self) -> tuple[str, str, str]:
        """The same piece, whatever its text has become."""
        return self.kind, self.path, self.name

    @property
    def version(self) -> str:
        """The same text, however much of it is shown."""
        if self.of_text:
            return self.of_text
        lines = "\n".join(line for part in self.parts for line in (part.grade, *part.lines))
        return digest_of(lines)


def digest_of(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()


@dataclass(frozen=True, slots=True)
class ZonePiece:
    """A piece of a prompt. lines: what of it is sent. n_tokens: of these lines as they stand in the prompt, its share of the
    file's name included. version: of the candidate, not of the lines. cut: what of it was left out, "" if nothing."""

    zone: str
    kind: str
    path: str
    name: str
    lines: tuple[str, ...]
    points: int
    why: str
    version: str
    n_tokens: int
    cut: str = ""
    source: str = ""
    start: int = 0

    @property
    def key(self) -> tuple[str, str, str]:
        return self.kind, self.path, self.name

    @property
    def id(self) -> str:
        """For people and reports: the piece and its version."""
        return f"{self.kind}:{self.path}:{self.name}@{self.version}"


@dataclass(frozen=True, slots=True)
class Zones:
    """Pieces in the order in which they stand in the prompt. files: path and text of each run of pieces of one file, as they
    are sent. n_tokens: of all of them. cuts: what was left out and why, a sentence each."""

    pieces: tuple[ZonePiece, ...] = ()
    files: tuple[tuple[str, bytes], ...] = ()
    n_tokens: int = 0
    cuts: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Two choices with the same digest are the same text."""
        data = b"\0".join(part for path, text in self.files for part in (path.encode("utf-8", "replace"), text))
        return hashlib.blake2b(data, digest_size=8).hexdigest() if self.files else ""


@dataclass(frozen=True, slots=True)
class ZoneLimits:
    """Most tokens of each zone, and of all together."""

    n_core: int
    n_reference: int
    n_rolling: int
    n_total: int

    def of(self, zone: str) -> int:
        return {"core": self.n_core, "reference": self.n_reference, "rolling": self.n_rolling}[zone]


@dataclass(frozen=True, slots=True)
class Around:
    """The place that pieces are chosen for. text: what stands around the cursor, near-duplicates of which stay out. names: used
    there; lines with one of them are not cut."""

    text: str = ""
    names: frozenset[str] = field(default_factory=frozenset)
