"""What of a file is left out, by its tree: bodies, long values, comments.

Owns the grades. A (whole): signatures, classes, short bodies, functions that are wanted or stand at the focus, and in other
bodies what gives an object its fields and what calls a wanted name. B (cut): bodies of the other functions. C (one line):
functions that nobody else calls, long values, comments, imports. Linear in the file; walks by cursor.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from itertools import islice

import tree_sitter

from context.queries import QUERIES, compiled
from context.queries.trimming import CompiledTrim
from context.scopes import FUNCTION_LIKE
from context.symbol_types import Definition, FileSymbols
from context.syntax import SyntaxTree
from context.trim_comments import CommentCuts
from context.trim_marks import Marks
from context.trim_types import Cut

SHORT_LINES = 1  # a body of no more lines stays
SMALLEST = 32  # bytes; less is not worth a mark
LONG_LINES = 2  # values and texts of no more lines stay
MOST_WANTED = 10  # lines of a wanted function; the rest of a longer one is cut
_MOST_CALLS = 3  # statements of one body that stay because they call a wanted name
_CONSTRUCTORS = frozenset({"__init__", "__new__", "constructor", "initialize", "__construct", "init", "new"})

Span = tuple[int, int]


class TreeCuts:
    """What is left out of one file. keep: wanted names. calls: names whose calls are. focus: bytes whose functions stay whole.
    grades: which may be cut."""

    def __init__(
        self,
        tree: SyntaxTree,
        data: bytes,
        symbols: FileSymbols,
        trim: CompiledTrim,
        keep: frozenset[str],
        calls: frozenset[str],
        focus: Span | None,
        grades: str,
    ) -> None:
        self._data = data
        self._keep = keep
        self._focus = focus
        self._grades = grades
        self._trim = trim
        self._marks = Marks(data, trim.marks)
        self._blocks = frozenset(QUERIES[tree.language].blocks)
        self._is_called = (
            re.compile(rb"(?<![\w$])(?:" + rb"|".join(re.escape(name.encode()) for name in sorted(calls)) + rb")(?![\w$])")
            if calls
            else None
        )
        self._by_body = {each.body_start: each for each in symbols.definitions if _is_function(each)}
        self._outlines = sorted(
            each.name_start for each in symbols.definitions if each.kind not in ("field", "variable", "constant")
        )
        self._names = sorted(each.name_start for each in symbols.definitions)
        self._fields = sorted(each.name_start for each in symbols.definitions if each.kind == "field")
        self._wanted = sorted(each.name_start for each in symbols.definitions if each.name in keep)
        found = tree_sitter.QueryCursor(trim.cuts).captures(tree.root) if trim.cuts is not None else {}
        self._kinds = {node.id: kind for kind in ("text", "doc", "literal", "body") for node in found.get(kind, ())}
        self._comments = {node.id for node in _comments(tree)}
        self._remarks = CommentCuts(data, self._marks)
        self._helpers: list[int] = []  # where definitions of grade C begin
        self.graded: list[tuple[int, int, str]] = []  # bytes and the grade of what is in them, in order
        self.cuts: list[Cut] = []
        self._walk(tree.root)
        if "C" in grades:
            self.cuts += self._remarks.cuts(frozenset(self._helpers))

    # -- the walk

    def _walk(self, root: tree_sitter.Node) -> None:
        cursor = root.walk()
        while True:
            node = cursor.node
            if node is not None and self._goes_into(node, node.id == root.id) and cursor.goto_first_child():
                continue
            while not cursor.goto_next_sibling():
                if not cursor.goto_parent():
                    return

    def _goes_into(self, node: tree_sitter.Node, is_root: bool) -> bool:
        """False: what is to be done with it is done."""
        if node.id in self._comments:
            self._remarks.add(node.start_byte, node.end_byte)
            return False
        kind = self._kinds.get(node.id)
        if kind == "body":
            return self._enter_body(node)
        if kind == "doc":
            self._shorten(node.start_byte, node.end_byte, is_brief=False)
            return False
        n_lines = _n_lines(node)
        if kind in ("literal", "text"):
            if n_lines <= LONG_LINES or self._any(self._names, node.start_byte, node.end_byte):
                return True
            if "C" in self._grades:
                self._add(self._marks.entries(node) if kind == "literal" else self._marks.text(node), "C")
            return False
        is_plain_block = node.type in self._blocks and not is_root and n_lines > LONG_LINES
        if is_plain_block and "B" in self._grades and not self._any(self._names, node.start_byte, node.end_byte):
            self._cut_statements(node, node.named_children, (), "B")
            return False
        return True

    def _enter_body(self, body: tree_sitter.Node) -> bool:
        start, end = body.start_byte, body.end_byte
        definition = self._by_body.get(start)
        if definition is None:
            if self._any(self._outlines, start, end):
                return True  # a function around a whole file, or around its classes
            head, grade = start, "B"
        else:
            head = definition.start
            grade = self._grade(definition)
        is_cut = grade == "A" or grade in self._grades
        if self._is_at_focus(head, end):
            grade = "A"
        else:
            self._cut_body(body, grade, None if not is_cut else MOST_WANTED if grade == "A" else SHORT_LINES)
        self.graded.append((self._line_start(head), end, grade))
        if grade == "C":
            self._helpers.append(head)
        return False

    def _is_at_focus(self, start: int, end: int) -> bool:
        if self._focus is None:
            return False
        first, last = self._focus
        return start < max(last, first + 1) and first < max(end, start + 1)

    def _grade(self, definition: Definition) -> str:
        owner = definition.scope[-1] if definition.scope else ""
        if definition.name in self._keep or (owner in self._keep and definition.name in {*_CONSTRUCTORS, owner}):
            return "A"
        head = self._data[self._line_start(definition.start) : definition.name_start] + definition.name.encode()
        name = definition.name
        is_dunder = name.startswith("__") and name.endswith("__")
        is_helper = (name.startswith("_") and not is_dunder) or self._trim.helper.search(head.decode(errors="replace"))
        return "C" if is_helper else "B"

    # -- bodies

    def _cut_body(self, body: tree_sitter.Node, grade: str, most: int | None) -> None:
        """most: lines that stay, None: all of them."""
        block = self._block_of(body)
        statements = block.named_children
        doc = None
        if statements and statements[0].named_children and self._kinds.get(statements[0].named_children[0].id) == "doc":
            doc = statements[0]
            statements = statements[1:]
        is_long = False
        if statements and most is not None:
            n_lines = statements[-1].end_point.row - statements[0].start_point.row + 1
            is_long = n_lines > most and statements[-1].end_byte - statements[0].start_byte > SMALLEST
        if doc is not None and not self._says(doc, is_brief=grade == "C" and is_long):
            doc = None
        elif doc is not None:
            self._shorten(doc.start_byte, doc.end_byte, is_brief=grade == "C" and is_long)
        if not is_long or most is None:
            return
        if grade == "A":
            first = statements[0].start_point.row
            last = next((i for i, each in enumerate(statements) if each.end_point.row - first >= most), 0)
            if last:
                self._cut_run(statements[last:], "B")
            return
        keepers = self._keepers(statements[0].start_byte, statements[-1].end_byte)
        if not keepers and doc is None:
            self._add(self._marks.whole(block), grade)
            return
        self._cut_statements(block, statements, keepers, grade, is_whole=False)

    def _keepers(self, start: int, end: int) -> tuple[int, ...]:
        """Places in a body whose statements stay."""
        places = self._fields[bisect_left(self._fields, start) : bisect_left(self._fields, end)]
        places += self._wanted[bisect_left(self._wanted, start) : bisect_left(self._wanted, end)]
        if self._is_called is not None:
            calls = self._is_called.finditer(self._data, start, end)
            places += [match.start() for match in islice(calls, _MOST_CALLS)]
        return tuple(sorted(set(places)))

    def _cut_statements(
        self,
        block: tree_sitter.Node,
        statements: list[tree_sitter.Node],
        keepers: tuple[int, ...],
        grade: str,
        *,
        is_whole: bool = True,
    ) -> None:
        """Leave out the statements without a keeper; of those with one that hold blocks, the same in these."""
        todo = [(block, statements, is_whole)]
        while todo:
            block, statements, is_whole = todo.pop()
            held = [each for each in statements if _holds(keepers, each)]
            if not held and is_whole:
                self._add(self._marks.whole(block), grade)
                continue
            run: list[tree_sitter.Node] = []
            for each in statements:
                if not _holds(keepers, each):
                    run.append(each)
                    continue
                self._cut_run(run, grade)
                run = []
                todo += [
                    (inner, inner.named_children, True) for inner in self._blocks_in(each) if _n_lines(inner) > SHORT_LINES
                ]
            self._cut_run(run, grade)

    def _cut_run(self, run: list[tree_sitter.Node], grade: str) -> None:
        """Statements in a row, with comments between them. One behind the statement in front of them is not theirs."""
        while run and run[0].id in self._comments and self._remarks.is_behind_code(run[0].start_byte):
            run = run[1:]
        if all(each.id in self._comments for each in run):
            for each in run:
                self._remarks.add(each.start_byte, each.end_byte)
        elif run[-1].end_byte - run[0].start_byte > SMALLEST:
            self._add(self._marks.run(run[0].start_byte, run[-1].end_byte), grade)

    def _block_of(self, body: tree_sitter.Node) -> tree_sitter.Node:
        """The node whose children are the statements."""
        node = body
        for _ in range(4):
            inner = [child for child in node.named_children if child.type in self._blocks]
            if len(inner) != 1 or node.named_child_count != 1:
                return node
            node = inner[0]
        return node

    def _blocks_in(self, statement: tree_sitter.Node) -> list[tree_sitter.Node]:
        """The outermost blocks in a statement."""
        found = []
        cursor = statement.walk()
        while True:
            node = cursor.node
            is_block = node is not None and node.type in self._blocks
            if node is not None and is_block:
                found.append(node)
            elif cursor.goto_first_child():
                continue
            while not cursor.goto_next_sibling():
                if not cursor.goto_parent():
                    return found

    # -- places

    def _add(self, cut: tuple[int, int, bytes], grade: str) -> None:
        self.cuts.append(Cut(*cut, grade))

    def _says(self, doc: tree_sitter.Node, *, is_brief: bool) -> bool:
        """Does something of a doc string stay?"""
        return "C" not in self._grades or self._remarks.shorten(doc.start_byte, doc.end_byte, is_brief=is_brief)[0]

    def _shorten(self, start: int, end: int, *, is_brief: bool) -> None:
        """A doc string in fewer lines, if something of it stays at all."""
        if "C" in self._grades:
            stays, cuts = self._remarks.shorten(start, end, is_brief=is_brief)
            self.cuts += cuts if stays else []

    def _line_start(self, place: int) -> int:
        return self._data.rfind(b"\n", 0, place) + 1

    @staticmethod
    def _any(places: list[int], start: int, end: int) -> bool:
        i = bisect_left(places, start)
        return i < len(places) and places[i] < end


def _is_function(each: Definition) -> bool:
    return each.kind in FUNCTION_LIKE and each.body_start < each.end


def _comments(tree: SyntaxTree) -> list[tree_sitter.Node]:
    return tree_sitter.QueryCursor(compiled(tree.language).uses).captures(tree.root).get("comment", [])


def _n_lines(node: tree_sitter.Node) -> int:
    return node.end_point.row - node.start_point.row + 1


def _holds(places: tuple[int, ...], node: tree_sitter.Node) -> bool:
    i = bisect_left(places, node.start_byte)
    return i < len(places) and places[i] < node.end_byte
