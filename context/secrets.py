"""Secrets in a text, and the text without them.

Owns the question what of a file must not leave it (into a prompt about another file, a cache, a log), and what stands there
instead. Three sources: formats that are told by themselves (`secret_formats`), values under names (`secret_assignments`), and
what is told by its surroundings (`secret_blocks`). Refuses to read files or to know languages.

detect-secrets was judged for this and not taken: it reports values, not places; looks at single lines, of a private key at the
first one only; asks the vendors over the network whether a secret is valid unless told not to, which a private tool must not
even be able to; keeps its settings in globals; and costs 170 ms and `requests` at import. What its and gitleaks' lists know of
formats is in the table here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from context.secret_assignments import Found, named_secrets
from context.secret_blocks import block_secrets
from context.secret_formats import FORMATS, Format
from context.secret_values import entropy, is_placeholder

SHORT = "***"  # stands for what had at most as many characters as LONG has
LONG = "REDACTED"
_EXAMPLE = re.compile(r"EXAMPLE|[xX]{6}|\*{3}|0{8}|REDACTED")


@dataclass(frozen=True, slots=True)
class Secret:
    """text[start:end] is one, or one line of one. Offsets in characters; kind: what told it, for reports."""

    start: int
    end: int
    kind: str


def find_secrets(text: str) -> tuple[Secret, ...]:
    """The secrets of a text, in order; none is empty, overlaps another or goes over a line's end. Never raises; linear."""
    found = [*_formatted(text), *named_secrets(text), *block_secrets(text)]
    found.sort(key=lambda each: (each[0], -each[1]))
    merged: list[Secret] = []
    for start, end, kind in found:
        if merged and start < merged[-1].end:
            last = merged[-1]
            merged[-1] = Secret(last.start, max(last.end, end), last.kind)
        elif end > start and text[start:end] not in (SHORT, LONG):
            merged.append(Secret(start, end, kind))
    return tuple(merged)


def redact(text: str) -> str:
    """The text with each secret replaced by *** or, a long one, by REDACTED. Lines, quotes and names stay; doing it twice is
    doing it once."""
    secrets = find_secrets(text)
    if not secrets:
        return text
    parts: list[str] = []
    at = 0
    for secret in secrets:
        parts += (text[at : secret.start], LONG if secret.end - secret.start > len(LONG) else SHORT)
        at = secret.end
    return "".join((*parts, text[at:]))


def _formatted(text: str) -> Iterator[Found]:
    for row in FORMATS:
        at = text.find(row.cue)
        while at >= 0:
            match = _match(text, at - row.lead, row)
            if match is not None:
                group = 1 if row.pattern.groups else 0
                yield match.start(group), match.end(group), row.kind
            at = text.find(row.cue, max(at + 1, match.end() if match is not None else 0))


def _match(text: str, start: int, row: Format) -> re.Match[str] | None:
    if start < 0 or (row.is_bounded and not _is_border(text, start)):
        return None
    match = row.pattern.match(text, start)
    if match is None or _EXAMPLE.search(match[0]):
        return None
    secret = match[match.re.groups and 1]
    return match if entropy(secret[-512:]) >= row.bits and not is_placeholder(secret) else None


def _is_border(text: str, start: int) -> bool:
    """Whether a word may begin here: no word character in front, but for the end of an escape (\\n, %3D)."""
    before = text[start - 1 : start]
    if not before or not (before.isalnum() or before == "_"):
        return True
    return (text[start - 2 : start - 1] == "\\" and before in "nrt") or text[start - 3 : start - 2] == "%"
