"""Shortening by indentation alone, where there is no tree: an unknown language, a file that is too big or looks minified.

Owns the rule: what stands deeper than the outer levels, over several lines, becomes one line of three dots.
"""

from __future__ import annotations

from context.trim_types import Cut

_FEWEST = 4  # lines; a shorter stretch stays
_OUTER = 2  # levels that stay
_LONGEST = 400  # bytes of a line that stay


def plain_cuts(data: bytes) -> list[Cut]:
    """What is left out, in order. Deeper lines go; of a very long line its beginning stays."""
    lines = data.splitlines(keepends=True)
    depths = _depths(lines)
    cuts: list[Cut] = []
    place = run_start = n_run = 0
    for line, depth in zip(lines, depths, strict=True):
        if depth >= _OUTER:
            run_start = run_start if n_run else place
            n_run += 1
        else:
            _close(cuts, data, run_start, place, n_run)
            n_run = 0
            body = line.rstrip(b"\r\n")
            if len(body) > _LONGEST:
                cuts.append(Cut(_at_border(data, place + _LONGEST), place + len(body), b" ...", "B"))
        place += len(line)
    _close(cuts, data, run_start, place, n_run)
    return cuts


def _close(cuts: list[Cut], data: bytes, start: int, end: int, n_lines: int) -> None:
    if n_lines < _FEWEST and end - start < _LONGEST:
        return
    first = data[start:end]
    indent = first[: len(first) - len(first.lstrip(b" \t"))]
    stop = start + len(first.rstrip())
    if n_lines and stop > start:
        cuts.append(Cut(start, stop, indent + b"...", "B"))


def _depths(lines: list[bytes]) -> list[int]:
    """How many levels of indentation each line is in; blank lines are as deep as the line before."""
    depths: list[int] = []
    levels = [0]
    for line in lines:
        bare = line.strip()
        if not bare:
            depths.append(depths[-1] if depths else 0)
            continue
        width = len(line[: len(line) - len(line.lstrip())].expandtabs(8))
        while len(levels) > 1 and levels[-1] > width:
            levels.pop()
        if width > levels[-1]:
            levels.append(width)
        depths.append(len(levels) - 1)
    return depths


def _at_border(data: bytes, place: int) -> int:
    while 0 < place < len(data) and data[place] & 0xC0 == 0x80:
        place -= 1
    return place
