"""The files that the bench types into, written for it: each some 300 lines, with a block between two marker lines.

Owns the cutting. Nothing here is run; `load` takes the markers and the block out and says where the block was.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
LANGUAGE_OF = {".py": "python", ".ts": "typescript"}
BEGIN, END = "block begins here", "block ends here"


@dataclass(frozen=True, slots=True)
class Material:
    """text: the file without the block. offset: where the block goes, at a line's end; block begins with that end."""

    name: str
    language: str
    text: str
    block: str
    offset: int


def names() -> tuple[str, ...]:
    return tuple(sorted(path.name for path in FOLDER.iterdir() if path.suffix in LANGUAGE_OF and path.stem != "__init__"))


def load(name: str) -> Material:
    """Raises FileNotFoundError, or ValueError if the file has not exactly one block."""
    path = FOLDER / name
    lines = path.read_text(encoding="utf-8").split("\n")
    begins = [i for i, line in enumerate(lines) if line.strip(" #/") == BEGIN]
    ends = [i for i, line in enumerate(lines) if line.strip(" #/") == END]
    if len(begins) != 1 or len(ends) != 1 or not 0 < begins[0] < ends[0]:
        raise ValueError(f"{name} must have one block between its two marker lines")
    before, block, after = lines[: begins[0]], lines[begins[0] + 1 : ends[0]], lines[ends[0] + 1 :]
    head = "\n".join(before)
    return Material(
        name=name,
        language=LANGUAGE_OF[path.suffix],
        text=head + "\n" + "\n".join(after),
        block="".join("\n" + line for line in block),
        offset=len(head),
    )
