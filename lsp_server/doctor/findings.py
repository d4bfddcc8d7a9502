"""What `midfill doctor` found: one line each, and what to do about it.

Owns levels, the order of words in a line, and the exit status. Refuses line ends and control characters, wherever they come
from.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    OK = "ok"
    NOTE = "note"  # good to know
    WARNING = "warning"  # midfill works, but not as well as it could or as it was told to
    FAULT = "fault"  # midfill does not work


@dataclass(frozen=True, slots=True)
class Finding:
    """topic: a word or two. do: what to do, "" if nothing. Both texts are one line."""

    level: Level
    topic: str
    text: str
    do: str = ""


def ok(topic: str, text: str) -> Finding:
    return Finding(Level.OK, topic, text)


def note(topic: str, text: str, do: str = "") -> Finding:
    return Finding(Level.NOTE, topic, text, do)


def warning(topic: str, text: str, do: str = "") -> Finding:
    return Finding(Level.WARNING, topic, text, do)


def fault(topic: str, text: str, do: str = "") -> Finding:
    return Finding(Level.FAULT, topic, text, do)


def as_line(finding: Finding) -> str:
    """Columns for the level and the topic, then the text, then what to do behind an arrow."""
    do = f" -> {finding.do}" if finding.do else ""
    return f"{finding.level:8} {finding.topic:13} {one_line(finding.text + do)}"


def as_json(finding: Finding) -> dict[str, str]:
    """The same as an object."""
    return {"level": str(finding.level), "topic": finding.topic, "text": one_line(finding.text), "do": one_line(finding.do)}


def exit_status(findings: Iterable[Finding]) -> int:
    """1 if anything is a fault."""
    return int(any(finding.level is Level.FAULT for finding in findings))


def summary(findings: Iterable[Finding]) -> str:
    """One sentence for the end."""
    levels = [finding.level for finding in findings]
    counts = [
        f"{n} {level}{'s' if n > 1 else ''}" for level in (Level.FAULT, Level.WARNING, Level.NOTE) if (n := levels.count(level))
    ]
    if Level.FAULT in levels:
        return f"midfill does not work yet: {', '.join(counts)}"
    return f"midfill works: {', '.join(counts)}" if counts else "midfill works"


def one_line(text: str) -> str:
    """Anything that would end the line or move the cursor becomes a blank."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def size(n_bytes: int) -> str:
    """Bytes for people, in decimal units."""
    for unit, n in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= n:
            return f"{n_bytes / n:,.1f} {unit}" if n_bytes < 100 * n else f"{n_bytes / n:,.0f} {unit}"
    return f"{n_bytes} bytes"
