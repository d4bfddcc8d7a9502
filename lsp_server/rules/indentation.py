"""Blanks at the beginning of lines, as the document has them: its tabs or its blanks, and none too many at the cursor.

Owns the change of a text's indentation. Refuses to indent where the text does not: how deep a line is stays as it was said.
"""

from __future__ import annotations

from lsp_server.rules.place import Place, width

_UNITS = (4, 2, 8, 3)  # blanks that a model may mean by a level, most usual first


def adapted(place: Place, text: str) -> str:
    """The text with the document's indentation."""
    text = _without_lead(place, text)
    lines = text.split("\n")
    begin = 0 if not place.line.strip() else 1
    if not any(line.startswith((" ", "\t")) for line in lines[begin:]) or not (right := place.unit):
        return text
    wrong = " " if right == "\t" else "\t"
    if not any(line.startswith(wrong) for line in lines[begin:]) or (wrong == " " and _has_blanks(place)):
        return text
    unit = _unit_said(place, lines[begin:]) if wrong == " " else 1
    scanner = place.scanner()
    made: list[str] = []
    for i, line in enumerate(lines):
        is_code = i >= begin and not scanner.in_long
        scanner.feed_all(line + "\n")
        made.append(_converted(line, wrong, unit, right) if is_code else line)
    return "\n".join(made)


def _without_lead(place: Place, text: str) -> str:
    """Without blanks in front of the first line that make its indentation none of the document's levels."""
    lead = len(text) - len(text.lstrip(" "))
    if not lead or lead == len(text) or text[lead] == "\n":
        return text
    return text[n_extra(place, lead) :]


def n_extra(place: Place, lead: int) -> int:
    """How many of the blanks that a text begins with are too many."""
    if place.line.strip() or not lead:
        return 0
    unit, scanner = place.unit, place.scanner()
    level = len(unit) if unit.startswith(" ") else 4
    if lead >= level or scanner.inside or scanner.open:
        return 0
    return lead if width(place.line + " " * lead) % level else 0


def _has_blanks(place: Place) -> bool:
    """Are lines around the cursor indented by blanks alone, beside others with tabs?"""
    return any(line.startswith("  ") for line in (place.before + place.after).split("\n"))


def _unit_said(place: Place, lines: list[str]) -> int:
    """How many blanks the text means by a level: those by which its lines lie nearest to the cursor's."""
    widths = [len(line) - len(line.lstrip(" ")) for line in lines if line.startswith(" ") and line.strip()]
    level = place.line.count("\t") + bool(place.line.strip())
    fitting = [unit for unit in _UNITS if all(w % unit == 0 for w in widths)] or [1]
    return min(fitting, key=lambda unit: abs(widths[0] // unit - level)) if widths else 4


def _converted(line: str, wrong: str, unit: int, right: str) -> str:
    n = len(line) - len(line.lstrip(wrong))
    levels, odd = divmod(n, unit)
    return right * levels + " " * odd + line[n:]
