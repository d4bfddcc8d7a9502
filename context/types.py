"""Frozen values of the context room. Positions are byte offsets into the document's own text unless a name says otherwise.

*Prompt form* of a text: without the CR of CRLF and without a byte order mark at the document's beginning. Prompts, token tables
and healing bytes are of the prompt form; offsets and inserted text are of the document.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from context.text import Text


class Tokenizer(Protocol):
    """What the context room needs of a model's vocabulary. Ids of the control tokens come with it."""

    def encode(self, text: bytes) -> tuple[int, ...]:
        """Tokens of UTF-8 text; never parses control tokens, never adds BOS."""
        ...


@dataclass(frozen=True, slots=True)
class FimIds:
    prefix: int
    suffix: int
    middle: int
    bos: int | None = None


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
    """A part of a prompt, for `explain`. start, end: bytes of the document (equal for markers)."""

    name: str  # "prefix" | "suffix" | "typed" | "healing" | "marker"
    start: int
    end: int
    n_tokens: int
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The stable part of a prompt: window, anchor and frozen suffix.

    prefix = prompt form of text[window_start:anchor]. rest_of_line and suffix_lines = prompt form of what followed the cursor
    when the plan was made: up to the line's end (terminator excluded), and from there on (beginning with the terminator).
    tokens = everything up to and including the middle marker. rest_is_cut: the line went on behind rest_of_line but did not
    fit; suffix_lines is empty then.
    """

    doc_id: str
    layout: str  # "anchored" | "psm"
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


@dataclass(frozen=True, slots=True)
class Prompt:
    """tokens: what the model is given. heal: bytes its first tokens must begin with. typed: prompt form of the text between
    anchor and cursor (healing bytes included). n_stable: length of the plan's part; n_typed: tokens of typed text."""

    tokens: tuple[int, ...]
    heal: bytes
    typed: bytes
    n_stable: int
    n_typed: int
    pieces: tuple[Piece, ...]
