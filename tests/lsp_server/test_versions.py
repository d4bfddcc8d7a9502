"""What a prompt held of other places, judged without any document but the one at hand."""

from __future__ import annotations

from dataclasses import replace

from context.text import Text
from context.types import Layout, Limits, Plan
from context.zones.types import ZonePiece, Zones
from lsp_server.answers.versions import Versions

TEXT = Text.of("class A:\n    def b(self):\n        x = 1\n" + "        y = 2\n" * 9)
PLAN = Plan("file:///a", Layout("psm", ()), 60, 80, b"", b"", b"", (), 0, 0, Limits(9, 9, 9))


def piece(kind: str, name: str, version: str, source: str = "file:///b") -> ZonePiece:
    return ZonePiece("reference", kind, "b.py", name, ("x",), 1, "why", version, 3, source=source)


def test_a_piece_in_another_version_or_of_an_edited_file_is_outdated() -> None:
    versions = Versions()
    held = replace(PLAN, zones=Zones((piece("definition", "f", "1"), piece("edit", "g", "1"))))
    same, other = Zones((piece("definition", "f", "1"),)), Zones((piece("definition", "f", "2"),))
    assert versions.are_current(held, 10.0, same, TEXT) and not versions.are_current(held, 10.0, other, TEXT)
    assert versions.are_current(held, 10.0, None, TEXT) and versions.are_current(held, 10.0, Zones(), TEXT)
    versions.edited("file:///b", 9.0)
    assert versions.are_current(held, 10.0, Zones(), TEXT), "edited before the prompt was made"
    versions.edited("file:///b", 11.0)
    assert not versions.are_current(held, 10.0, Zones(), TEXT) and not versions.are_current(held, 10.0, None, TEXT)
    assert versions.are_current(held, 10.0, same, TEXT), "edited, but this piece is what it was"
    assert versions.are_current(PLAN, 0.0, other, TEXT)


def test_the_heads_of_what_encloses_a_place_have_to_stand_above_the_window() -> None:
    held = replace(PLAN, heads=b"class A:\n    def b(self):\n        # ...\n")
    assert Versions().are_current(held, 0.0, None, TEXT)
    assert not Versions().are_current(replace(held, heads=held.heads.replace(b"A", b"B")), 0.0, None, TEXT)
    assert not Versions().are_current(replace(held, window_start=9), 0.0, None, TEXT)
