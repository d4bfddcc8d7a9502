"""Test fixtures: one string says files and a cursor.

`$0` is the cursor, at most once. A line `//- /path` starts a file; without one the string is a single file. A line break at the
very beginning is dropped, so that a fixture may begin on the line after the quotes. Everything else is taken as it stands.
"""

from __future__ import annotations

from dataclasses import dataclass

CURSOR = "$0"
_START = "//- "


@dataclass(frozen=True, slots=True)
class FixtureFile:
    """path: absolute, with slashes. cursor: byte offset into the UTF-8 text, if the cursor is in this file."""

    path: str
    text: str
    cursor: int | None


@dataclass(frozen=True, slots=True)
class Fixture:
    files: tuple[FixtureFile, ...]

    @property
    def at_cursor(self) -> FixtureFile:
        """The file with the cursor. ValueError if there is none."""
        for file in self.files:
            if file.cursor is not None:
                return file
        raise ValueError(f"no {CURSOR} in the fixture")

    def file(self, path: str) -> FixtureFile:
        for file in self.files:
            if file.path == path:
                return file
        raise ValueError(f"no file {path} in the fixture")


def parse(fixture: str, *, path: str = "/main.py") -> Fixture:
    """Read a fixture. `path` names the file of one without a `//- ` line. ValueError: two cursors, bad or equal paths."""
    if fixture.count(CURSOR) > 1:
        raise ValueError(f"{CURSOR} stands more than once in the fixture")
    lines = _lines(fixture.removeprefix("\n"))
    if not lines or not lines[0].startswith(_START):
        return Fixture((_file(path, "".join(lines)),))
    bodies: dict[str, list[str]] = {}
    body: list[str] = []
    for line in lines:
        if not line.startswith(_START):
            body.append(line)
            continue
        name = line.removeprefix(_START).strip()
        if not name.startswith("/") or name in bodies:
            raise ValueError(f"a file needs its own absolute path, not {name!r}")
        body = bodies[name] = []
    return Fixture(tuple(_file(name, "".join(body)) for name, body in bodies.items()))


def cursor_in(text: str) -> tuple[str, int]:
    """One file's text and cursor, as a byte offset."""
    file = parse(text).at_cursor
    assert file.cursor is not None
    return file.text, file.cursor


def _lines(text: str) -> list[str]:
    """Split behind LF only: other characters that end lines somewhere are text here."""
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _file(path: str, text: str) -> FixtureFile:
    before, found, after = text.partition(CURSOR)
    return FixtureFile(path, before + after, len(before.encode()) if found else None)
