"""Layouts and markers for tests: the plain family with three markers, and where they are in a vocabulary's format."""

from __future__ import annotations

from typing import NamedTuple

from context.types import Layout
from inference.types import FimTokens


class Markers(NamedTuple):
    prefix: int
    suffix: int
    middle: int


def markers_of(fim: FimTokens | None) -> Markers:
    """Ids of a prefix-first format."""
    assert fim is not None and fim.psm is not None
    ids = [entry[0] for entry in fim.psm if not isinstance(entry, str)]
    return Markers(*ids)


def both_ways(prefix: int, suffix: int, middle: int) -> FimTokens:
    """A family that was trained on both orders, for the fake."""
    names = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
    p, s, m = zip((prefix, suffix, middle), names, strict=True)
    return FimTokens("fake", ("header", p, "prefix", s, "suffix", m), ("header", s, "suffix", p, "prefix", m))


def layout(name: str = "anchored", *, prefix: int = 1, suffix: int = 2, middle: int = 3, bos: int | None = None) -> Layout:
    """PRE prefix SUF suffix MID, with the typed text behind it ("anchored") or without ("psm"); SUF suffix PRE prefix typed MID
    ("spm"); prefix typed ("ltr")."""
    head = () if bos is None else ((bos, "BOS"),)
    p, s, m = (prefix, "PRE"), (suffix, "SUF"), (middle, "MID")
    orders = {
        "anchored": ("header", p, "prefix", s, "suffix", m, "typed"),
        "psm": ("header", p, "prefix", s, "suffix", m),
        "spm": ("header", s, "suffix", p, "prefix", "typed", m),
        "ltr": ("prefix", "typed"),
    }
    return Layout(name, (*head, *orders[name]))
