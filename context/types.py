"""Frozen values of the context room. Positions are byte offsets into the document's own text unless a name says otherwise.

*Prompt form* of a text: without the CR of CRLF and without a byte order mark at the document's beginning. Prompts, token tables
and healing bytes are of the prompt form; offsets and inserted text are of the document.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from context.text import Text
from context.zones.types import Zones


class Tokenizer(Protocol):
    """What the context room needs of a model's vocabulary. Ids of the control tokens come with it."""

    def encode(self, text: bytes) -> tuple[int, ...]:
        """Tokens of UTF-8 text; never parses control tokens, never adds BOS."""
        ...


Marker = tuple[int, str]  # a control token: its id, and its name for people


@dataclass(frozen=True, slots=True)
class Layout:
    """In which order a prompt is put together.

    name: "anchored", "psm", "spm" or "ltr". order: markers and the names of parts, each part at most once: "header", "prefix",
    "suffix", "typed". What stands before "typed" stays while one types; without "typed" (psm) the prefix ends at the cursor and
    nothing is healed. Behind "typed" there are markers only.
    header: what tells the model the file's path, in front of the prefix's marker: markers, and texts in which {repository} and
    {path} are replaced. title: the same inside the prefix, as text. lead: text in front of every prefix. Both are tokenized
    together with the prefix. placement: how pieces of other files stand in a prompt, see `context.zones.wrapping`.
    """

    name: str
    order: tuple[Marker | str, ...]
    header: tuple[Marker | str, ...] = ()
    title: str = ""
    lead: str = ""
    placement: str = "comments"

    @property
    def is_healed(self) -> bool:
        return "typed" in self.order

    @property
    def stable(self) -> tuple[Marker | str, ...]:
        """The order up to where typed text goes."""
        return self.order[: self.order.index("typed")] if self.is_healed else self.order

    @property
    def tail(self) -> tuple[int, ...]:
        """Control tokens behind the typed text."""
        at = self.order.index("typed") + 1 if self.is_healed else len(self.order)
        return tuple(entry[0] for entry in self.order[at:] if not isinstance(entry, str))

    @property
    def n_markers(self) -> int:
        """Control tokens in every prompt, those of the header not counted."""
        return sum(not isinstance(entry, str) for entry in self.order)


@dataclass(frozen=True, slots=True)
class FileName:
    """What a model may be told about where a text belongs. path: within the repository, with slashes; "" = say nothing."""

    path: str = ""
    repository: str = ""


@dataclass(frozen=True, slots=True)
class DocumentSnapshot:
    """One version of a document. doc_id: normalized URI."""

    doc_id: str
    version: int
    language: str
    text: Text


@dataclass(frozen=True, slots=True)
class Limits:
    """Token limits of one prompt. n_total covers everything: markers, prefix, suffix, typed text.

    fill: use all of it, where a prompt is only a stopgap; otherwise room is left for what will be typed, and the prefix begins
    on a coarse grid.
    """

    n_prefix: int
    n_suffix: int
    n_total: int
    fill: bool = False


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a prompt, for `explain`. start, end: bytes of the document (equal for markers and what stands elsewhere). id:
    of a piece of the zones, with its version; path: the file that it is from."""

    name: str  # "header" | "prefix" | "suffix" | "typed" | "healing" | "marker" | "core" | "reference" | "rolling"
    start: int
    end: int
    n_tokens: int
    why: str
    id: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The stable part of a prompt: window, anchor and frozen suffix.

    prefix = prompt form of text[window_start:anchor]. rest_of_line and suffix_lines = prompt form of what followed the cursor
    when the plan was made: up to the line's end (terminator excluded), and from there on (beginning with the terminator).
    rest_is_cut: the line went on behind rest_of_line but did not fit; suffix_lines is empty then.
    tokens = everything before the typed text. n_header: how many of them are the header's; n_lead: bytes in front of the prefix
    (lead and title) that were tokenized with it and count as its tokens.
    zones: pieces of other places, None = none were asked for; they stand in front of the prefix and count as its tokens, or
    (own files) in the header and count as that's; asked: the digest of those that were asked for, had there been room. heads:
    what encloses the cursor and begins outside the window, right in front of the prefix; n_heads: how many of its tokens
    those are.
    """

    doc_id: str
    layout: Layout
    window_start: int
    anchor: int
    prefix: bytes
    rest_of_line: bytes
    suffix_lines: bytes
    tokens: tuple[int, ...]
    n_prefix: int
    n_suffix: int
    limits: Limits
    notes: tuple[str, ...] = ()
    rest_is_cut: bool = False
    n_header: int = 0
    n_lead: int = 0
    zones: Zones | None = None
    asked: str = ""
    heads: bytes = b""
    n_heads: int = 0

    @property
    def n_zones(self) -> int:
        """Tokens of the zones' pieces."""
        return 0 if self.zones is None else self.zones.n_tokens

    @property
    def state(self) -> dict[str, object]:
        """What the plan was made of, without any text: with the same document, vocabulary and pieces it can be made again."""
        limits = self.limits
        return {
            "window_start": self.window_start,
            "anchor": self.anchor,
            "limits": [limits.n_prefix, limits.n_suffix, limits.n_total],
            "fill": limits.fill,
            "zones": "" if self.zones is None else self.zones.digest,
            "pieces": [] if self.zones is None else [piece.id for piece in self.zones.pieces],
            "n_stable_tokens": len(self.tokens),
        }


@dataclass(frozen=True, slots=True)
class Prompt:
    """tokens: what the model is given. heal: bytes its first tokens must begin with. typed: prompt form of the text between
    anchor and cursor (healing bytes included). n_stable: length of the plan's part; n_typed: tokens of typed text; markers
    behind it make up the rest."""

    tokens: tuple[int, ...]
    heal: bytes
    typed: bytes
    n_stable: int
    n_typed: int
    pieces: tuple[Piece, ...]
