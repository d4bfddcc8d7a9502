"""Which lines of a body say least.

Owns the measure: a line is worth what its rarest words say, in bits, in the text at hand. A line is dropped where it stays
below a share of what the lines before it said, weighted exponentially. A line that denies something, holds a name in use or a
signature is never among them. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from math import log2

_WORD = re.compile(r"\w+")
_DENIES = re.compile(
    r"\b(?:not|no|never|none|nor|without|unless|except|raise[sd]?|throws?|deny|denied|forbid(?:den)?|must|mustn|cannot|can't|don't"
    r"|won't|only|assert\w*|panic|unwrap|return(?:s|ed)?|yield|invalid|unsafe|deprecated|nil|null|undefined)\b|!",
    re.I,
)
_SIGNATURE = re.compile(
    r"^\s*(?:@|#\[|(?:pub(?:lic)?|private|protected|static|async|export|default|abstract|final|override|virtual|inline|const|"
    r"unsafe|extern|open|internal|sealed|func|fn|def|class|struct|enum|trait|impl|interface|type|function|fun|module|namespace"
    r")\b)"
)
_KEEP = 0.3  # of the average so far that a new line adds to it
_ENOUGH = 0.85  # share of that average below which a line is dropped
_MOST_BITS = 12.0


def is_protected(line: str, names: frozenset[str]) -> bool:
    """A line that is never dropped alone: negations, what fails or is given back, signatures, names in use."""
    return bool(_DENIES.search(line) or _SIGNATURE.match(line)) or not names.isdisjoint(_WORD.findall(line))


def bits(lines: Sequence[str]) -> list[float]:
    """What each line says in bits: the mean over its words of -log2 of their share of all words; 0 for a line without any."""
    words = [_WORD.findall(line) for line in lines]
    counts = Counter(word for line in words for word in line)
    total = sum(counts.values())
    return [
        min(_MOST_BITS, sum(-log2(counts[word] / total) for word in line) / len(line) * log2(1 + len(line))) if line else 0.0
        for line in words
    ]


def droppable(lines: Sequence[str], names: frozenset[str]) -> list[int]:
    """Indexes of the lines that may be dropped, what says least first."""
    said = bits(lines)
    average = sum(said) / len(said) if said else 0.0
    found: list[tuple[float, int]] = []
    for i, (line, worth) in enumerate(zip(lines, said, strict=True)):
        if worth < _ENOUGH * average and not is_protected(line, names):
            found.append((worth, i))
        average = (1 - _KEEP) * average + _KEEP * worth
    return [i for _, i in sorted(found)]
