"""Cursor places in files of real code, each with what truly stood there: a deterministic sample of five kinds.

Pure. Owns the kinds, what is taken out of the document at each, and which files and places are sampled. Text is cut as somebody
would have typed it up to the cursor into code that exists; what is removed is the *true remainder*, and all else stays:

- `mid_line`: inside a line of code, also inside a word. Removed: the rest of the line.
- `line_start`: at a statement's indentation, another statement before it in its block. Removed: the statement, all its lines.
- `block_start`: on the empty line behind a block's opener, indented. Removed: the whole body; a closing brace stays below.
- `closer`: inside brackets that were opened on this line. Removed: the rest of the line; what an editor has closed by itself,
  the closers of all brackets open on the line, stands behind the cursor. They are part of the true remainder too.
- `comment`: inside a line of a comment. Removed: the rest of the line.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import tree_sitter

from bench.corpus import LANGUAGES, Source
from bench.errors import BenchError
from context.syntax import NoTree, nodes, parse

KINDS = ("mid_line", "line_start", "block_start", "closer", "comment")
MOST_LINES, MOST_CHARS = 12, 420  # of a remainder: what 128 tokens can say
FEWEST_BEFORE = 8  # lines before the cursor's: behind the licence, and with something to go by
SPARE = 5  # places of each kind and language more than its share: where others have too few
MOST_ALIKE = 0.5  # share of equal lines at which two files are one
_BLOCKS = frozenset(
    {"block", "statement_block", "class_body", "compound_statement", "field_declaration_list", "interface_body", "object_type"}
)
_TOPS = frozenset({"module", "program", "translation_unit", "source_file", "statement_list", "declaration_list"})
_PAIRS = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Place:
    """before_line + typed | closers + after is the document; the cursor stands at the bar, before_line ends with a line's end.

    truth: what stood there, without blanks at its end: before_line + typed + truth + after was the file (but for blanks).
    """

    name: str  # language/kind/digest:offset
    kind: str
    language: str
    repository: str
    path: str
    before_line: str
    typed: str
    closers: str
    after: str
    truth: str

    @property
    def before(self) -> str:
        return self.before_line + self.typed

    @property
    def is_line(self) -> bool:
        """A single-line place: only up to the first line's end is compared."""
        return self.kind != "block_start"


@dataclass(frozen=True, slots=True)
class _Code:
    """A file and its tree. Offsets are characters; the tree's are bytes."""

    source: Source
    root: tree_sitter.Node
    lines: tuple[str, ...]
    starts: tuple[int, ...]  # of each line

    def at(self, row: int, column: int) -> int:
        """The offset of a place of the tree: row, and column in bytes."""
        return self.starts[row] + len(self.lines[row].encode()[:column].decode())


def sample(sources: Iterable[Source], n: int, seed: int) -> tuple[Place, ...]:
    """n places, evenly of every kind and language, in an order in which any beginning is even too.

    sources: in the order in which they are to be taken. At most one place of a kind from a file, and no file that is nearly
    another one. Raises BenchError if there are too few.
    """
    cells = [(kind, language) for kind in KINDS for language in LANGUAGES]
    most = -(-n // len(cells)) + SPARE
    found: dict[tuple[str, str], list[Place]] = {cell: [] for cell in cells}
    known: dict[str, list[frozenset[str]]] = {language: [] for language in LANGUAGES}
    for source in sources:
        wanted = [kind for kind in KINDS if len(found[kind, source.language]) < most]
        lines = frozenset(line for line in map(str.strip, source.text.split("\n")) if len(line) > 3)
        if not wanted or any(_alike(lines, other) for other in known[source.language]):
            continue
        code = _read(source)
        if code is None:
            continue
        places = [place for kind in wanted if (place := _pick(code, kind, seed)) is not None]
        for place in places:
            found[place.kind, place.language].append(place)
        if places:
            known[source.language].append(lines)
    rows = [[found[cell][i] for cell in cells if i < len(found[cell])] for i in range(most)]
    places = [place for row in rows for place in row][:n]
    if len(places) < n:
        raise BenchError(f"there are only {len(places)} places in these files; ask for fewer with --n, or name more folders")
    return tuple(places)


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) > MOST_ALIKE * min(len(one), len(other))


def _read(source: Source) -> _Code | None:
    """The file with its tree; None if it does not parse without an error."""
    tree = parse(source.language, source.text.encode())
    if isinstance(tree, NoTree) or tree.has_error:
        return None
    lines = tuple(source.text.split("\n"))
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    return _Code(source, tree.root, lines, tuple(starts))


def _pick(code: _Code, kind: str, seed: int) -> Place | None:
    chance = random.Random(f"{seed}:{kind}:{code.source.digest}")
    candidates = [place for place in _FINDERS[kind](code, chance) if place.before.count("\n") >= FEWEST_BEFORE]
    return chance.choice(candidates) if candidates else None


def _place(code: _Code, kind: str, row: int, cursor: int, end: int, closers: str = "") -> Place:
    """The cursor stands in a row; what stood between it and end is removed, with blanks to the line's end."""
    text, source = code.source.text, code.source
    line_end = text.find("\n", end)
    line_end = len(text) if line_end < 0 else line_end
    return Place(
        f"{source.language}/{kind}/{source.digest[:12]}:{cursor}",
        kind,
        source.language,
        source.repository,
        source.path,
        text[: code.starts[row]],
        text[code.starts[row] : cursor],
        closers,
        text[line_end:],
        text[cursor:end].rstrip(),
    )


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_fit(text: str) -> bool:
    return 3 <= len(text) <= MOST_CHARS and text.count("\n") < MOST_LINES


def _line_starts(code: _Code, chance: random.Random) -> Iterator[Place]:
    for node in nodes(code.root):
        parent, (row, column), (end_row, end_column) = node.parent, node.start_point, node.end_point
        if parent is None or parent.type not in _BLOCKS | _TOPS or not node.is_named or _is_comment(node):
            continue
        before = node.prev_named_sibling
        if before is None or before.type in ("comment", "import_statement", "preproc_include") or before.end_point[0] >= row:
            continue
        start, end = code.at(row, column), code.at(end_row, end_column)
        text = code.source.text[start:end].rstrip()
        if code.lines[row][: start - code.starts[row]].strip() or not _is_fit(text):
            continue
        end = start + len(text)
        rest = code.source.text[end : (code.source.text + "\n").find("\n", end)]
        if rest.strip() in ("", ";", ","):
            yield _place(code, "line_start", row, start, end + len(rest))


def _block_starts(code: _Code, chance: random.Random) -> Iterator[Place]:
    for node in nodes(code.root):
        if node.type not in _BLOCKS or node.end_point[0] <= node.start_point[0]:
            continue
        first, last = (node.children[0], node.children[-1]) if node.children else (node, node)
        if first.type == "{" and last.type == "}":
            row, end_row = first.end_point[0] + 1, last.start_point[0] - 1
            is_clean = not code.lines[last.start_point[0]].encode()[: last.start_point[1]].strip()
            opener = code.lines[first.start_point[0]].rstrip()
            if not is_clean or not opener.endswith("{"):
                continue
        else:
            row, end_row = node.start_point[0], node.end_point[0]
            if node.end_point[1] == 0:
                end_row -= 1
            if row == 0 or not code.lines[row - 1].rstrip().endswith(":"):
                continue
            if code.lines[row].encode()[: node.start_point[1]].strip():
                continue
        while end_row > row and not code.lines[end_row].strip():
            end_row -= 1
        if end_row < row or not code.lines[row].strip():
            continue
        cursor = code.starts[row] + _indent(code.lines[row])
        end = code.starts[end_row] + len(code.lines[end_row])
        if _is_fit(code.source.text[cursor:end]):
            yield _place(code, "block_start", row, cursor, end)


def _mid_lines(code: _Code, chance: random.Random) -> Iterator[Place]:
    for row, line in enumerate(code.lines):
        first, end = _indent(line) + 2, len(line.rstrip())
        if end - first < 10:
            continue
        column = chance.randint(first, end - 3)
        if not _is_inside(code, row, column, (*_COMMENTS, *_TEXTS)):
            yield _place(code, "mid_line", row, code.starts[row] + column, code.starts[row] + end)


def _closers(code: _Code, chance: random.Random) -> Iterator[Place]:
    by_row: dict[int, list[tuple[int, str]]] = {}
    for node in nodes(code.root):
        if not node.is_named and node.type in "()[]{}" and node.end_byte > node.start_byte:
            by_row.setdefault(node.start_point[0], []).append((node.start_point[1], node.type))
    for row, brackets in by_row.items():
        line = code.lines[row]
        if not line.isascii():
            continue
        pairs = list(_closed(brackets))
        wide = [(start, end) for start, end in pairs if len(line[start + 1 : end].strip()) > 2]
        if not wide:
            continue
        start, end = chance.choice(wide)
        column = chance.randint(start + 1, end - 2)
        behind = sorted(close for opened, close in pairs if opened < column <= close)
        n_open = sum(column > at for at, kind in brackets if kind in _PAIRS) - sum(
            column > at for at, kind in brackets if kind not in _PAIRS
        )
        if n_open == len(behind) and not _is_inside(code, row, column, (*_COMMENTS, *_TEXTS)):
            closers = "".join(line[at] for at in behind)
            yield _place(code, "closer", row, code.starts[row] + column, code.starts[row] + len(line), closers)


def _closed(brackets: Sequence[tuple[int, str]]) -> Iterator[tuple[int, int]]:
    """Pairs (opener, closer) that lie on one line."""
    stack: list[tuple[int, str]] = []
    for at, kind in sorted(brackets):
        if kind in _PAIRS:
            stack.append((at, kind))
        elif stack and _PAIRS[stack[-1][1]] == kind:
            yield stack.pop()[0], at
        else:
            stack.clear()


_COMMENTS = ("comment", "line_comment", "block_comment")
_TEXTS = ("string", "template_string", "raw_string_literal", "interpreted_string_literal", "string_literal", "char_literal")


def _is_comment(node: tree_sitter.Node) -> bool:
    return node.type in _COMMENTS


def _comments(code: _Code, chance: random.Random) -> Iterator[Place]:
    for node in nodes(code.root):
        if not _is_comment(node):
            continue
        for row in range(node.start_point[0], node.end_point[0] + 1):
            line = code.lines[row]
            words = line.split()
            is_own = row > node.start_point[0] or not line.encode()[: node.start_point[1]].strip()
            if len(words) < 6 or not is_own or "*/" in line or not any(word.isalpha() for word in words[:4]):
                continue
            first, end = _indent(line), len(line.rstrip())
            column = chance.randint(first + (end - first) // 3, first + 2 * (end - first) // 3)
            yield _place(code, "comment", row, code.starts[row] + column, code.starts[row] + end)


def _is_inside(code: _Code, row: int, column: int, kinds: Sequence[str]) -> bool:
    """Does the byte before the place, or the one behind it, lie in such a node?"""
    at = len(code.lines[row][:column].encode())
    node = code.root.descendant_for_point_range((row, max(at - 1, 0)), (row, at))
    while node is not None:
        if node.type in kinds:
            return True
        node = node.parent
    here = code.root.descendant_for_point_range((row, at), (row, at))
    return here is not None and here.type in kinds


_FINDERS: dict[str, Callable[[_Code, random.Random], Iterator[Place]]] = {
    "mid_line": _mid_lines,
    "line_start": _line_starts,
    "block_start": _block_starts,
    "closer": _closers,
    "comment": _comments,
}
