"""Trimming: a file as its skeleton, with flesh where it is wanted.

Owns the door, and the promise that the skeleton parses no worse than the file: where a cut would break that, the text stays.
Pure and deterministic; never raises, for any bytes. What goes and what stays is `trim_cuts`; without a tree, `trim_plain`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from context.grammars import NoGrammar
from context.queries import compiled
from context.queries.trimming import compiled_trim
from context.symbol_types import FileSymbols
from context.symbols import symbols_of_tree
from context.syntax import NoTree, SyntaxTree, nodes, parse
from context.trim_cuts import Span, TreeCuts
from context.trim_plain import plain_cuts
from context.trim_types import GRADES, Cut, Trimmed, TrimPiece

__all__ = ["GRADES", "Cut", "TrimPiece", "Trimmed", "skeleton", "whole"]

_ROUNDS = 4  # of taking back cuts that broke something
_WORD = re.compile(rb"[^\W\d]\w*")


def skeleton(
    text: bytes,
    language: str,
    *,
    keep: frozenset[str] = frozenset(),
    calls: frozenset[str] = frozenset(),
    focus: Span | None = None,
    grades: str = "BC",
    tree: SyntaxTree | None = None,
) -> Trimmed:
    """The skeleton of a file. language: LSP's id. keep: names whose definitions stay (the first lines of a long one); of a
    class named there the constructor does. calls: names whose calls are shown in other bodies. focus: bytes [start, end); the
    functions that touch them stay whole. grades: which may be cut: "C" alone leaves other functions' bodies. tree: that of the
    text, if there is one already.

    Names that others can use, their signatures and lines of comments that say "not" are always there.
    """
    if not text:
        return whole(text)
    made = tree if tree is not None else parse(language, text)
    if isinstance(made, NoTree):
        return _assembled(text, plain_cuts(text) if "B" in grades else [], [], (f"by indentation: {made.reason}",))
    trim = compiled_trim(language)
    try:
        compiled(language)
    except NoGrammar as error:
        return _assembled(text, plain_cuts(text) if "B" in grades else [], [], (f"by indentation: {error}",))
    if trim is None:
        return _assembled(text, plain_cuts(text) if "B" in grades else [], [], ("by indentation",))
    symbols = symbols_of_tree(made, text)
    found = TreeCuts(made, text, symbols, trim, keep, calls, focus, grades)
    cuts = _apart(found.cuts)
    if "C" in grades:
        cuts = _apart([*cuts, *_idle_imports(text, made, symbols, cuts)])
    return _checked(text, made, cuts, found.graded)


def whole(text: bytes, note: str = "") -> Trimmed:
    """A file that stays as it is."""
    return Trimmed((TrimPiece(0, len(text), "A", text, 1, False),) if text else (), (note,) if note else ())


def _checked(text: bytes, tree: SyntaxTree, cuts: list[Cut], graded: Sequence[tuple[int, int, str]]) -> Trimmed:
    """The skeleton; cuts after which it parses worse than the file are taken back."""
    n_before = _n_errors(tree)
    taken_back = 0
    for _ in range(_ROUNDS):
        made = _assembled(text, cuts, graded, _said(taken_back))
        after = parse(tree.language, made.text)
        if isinstance(after, NoTree):
            break
        if not after.has_error or _n_errors(after) <= n_before:
            return made
        bad = _broken(made, after)
        left = [cut for cut in cuts if not any(start <= cut.start <= end for start, end in bad)]
        if len(left) == len(cuts):
            break
        taken_back += len(cuts) - len(left)
        cuts = left
    return whole(text, "whole: nothing could be left out without breaking its syntax")


def _said(n: int) -> tuple[str, ...]:
    return (f"{n} cuts would have broken its syntax and were not made",) if n else ()


def _n_errors(tree: SyntaxTree) -> int:
    return sum(node.is_error or node.is_missing for node in nodes(tree.root)) if tree.has_error else 0


def _broken(made: Trimmed, after: SyntaxTree) -> list[Span]:
    """Bytes of the file around the skeleton's errors: from the cut before each to the cut behind it."""
    spots = [node.byte_range for node in nodes(after.root) if node.is_error or node.is_missing]
    found: list[Span] = []
    for start, end in spots:
        place = first = 0
        last = made.pieces[-1].end
        for piece in made.pieces:
            stop = place + len(piece.text)
            if piece.is_cut and stop <= start:
                first = piece.start
            if piece.is_cut and place >= end:
                last = piece.start
                break
            place = stop
        found.append((first, last))
    return found


def _apart(cuts: Iterable[Cut]) -> list[Cut]:
    """In order, without those that lie in others."""
    made: list[Cut] = []
    for cut in sorted(cuts, key=lambda cut: (cut.start, -cut.end)):
        if cut.end > cut.start and (not made or cut.start >= made[-1].end):
            made.append(cut)
    return made


def _idle_imports(text: bytes, tree: SyntaxTree, symbols: FileSymbols, cuts: Sequence[Cut]) -> list[Cut]:
    """Imports of which nothing that stays makes use: whole statements, each on lines of its own."""
    spans: dict[Span, set[str]] = {}
    for each in symbols.imports:
        names = {each.alias, each.name, each.module, each.module.rpartition(".")[2], each.module.partition(".")[0]}
        spans.setdefault((each.start, each.end), set()).update(name for name in names if name)
    statements = {child.byte_range for child in tree.root.named_children}
    spans = {span: names for span, names in spans.items() if span in statements and "*" not in names}
    words: set[bytes] = set()
    place = 0
    for start, end, shown in sorted([*((c.start, c.end, c.text) for c in cuts), *((*span, b"") for span in spans)]):
        words.update(_WORD.findall(text, place, max(start, place)))
        words.update(_WORD.findall(shown))
        place = max(place, end)
    words.update(_WORD.findall(text, place))
    found = []
    for (start, end), names in spans.items():
        last = start + len(text[start:end].rstrip())
        line_start = text.rfind(b"\n", 0, start) + 1
        line_end = text.find(b"\n", last) + 1 or len(text)
        if text[line_start:start].strip() or text[last:line_end].strip():
            continue
        if not any(name.encode() in words for name in names):
            found.append(Cut(line_start, line_end, b"", "C"))
    return found


def _assembled(
    text: bytes, cuts: Sequence[Cut], graded: Sequence[tuple[int, int, str]], notes: tuple[str, ...] = ()
) -> Trimmed:
    """Pieces from cuts, which are in order and apart. graded: bytes with a grade of their own; the others are A."""
    ranges = sorted(graded)  # none lies in another
    starts = [start for start, _, _ in ranges]
    borders = sorted({place for start, end, _ in ranges for place in (start, end)})
    pieces: list[TrimPiece] = []
    place, line = 0, 1
    for cut in (*cuts, Cut(len(text), len(text), b"", "A")):
        while place < cut.start:
            next_border = bisect_right(borders, place)
            end = min(cut.start, borders[next_border]) if next_border < len(borders) else cut.start
            at = bisect_right(starts, place) - 1
            grade = ranges[at][2] if at >= 0 and place < ranges[at][1] else "A"
            pieces.append(TrimPiece(place, end, grade, text[place:end], line, False))
            line += text.count(b"\n", place, end)
            place = end
        if cut.end > cut.start:
            pieces.append(TrimPiece(cut.start, cut.end, cut.grade, cut.text, line, True))
            line += text.count(b"\n", cut.start, cut.end)
            place = cut.end
    return Trimmed(tuple(pieces), notes)
