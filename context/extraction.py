"""Symbols out of a tree: runs a language's queries and puts their captures together.

Owns what captures mean (`context.queries.language` lists them). Linear in the file; walks no tree itself but for a declarator's
few levels.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

import tree_sitter

from context.comments import Comments, doc_string
from context.import_paths import imported
from context.queries import Compiled
from context.queries.language import WORDS
from context.scopes import CLASS_LIKE, FUNCTION_LIKE, Region, Scope, ScopeSweep
from context.symbol_types import MAX_DOC, MAX_SIGNATURE, Definition, Import, Use

Captures = dict[str, list[tree_sitter.Node]]

_UPPER = re.compile(r"_*[A-Z][A-Z0-9_]+\Z")
# Words in front of a definition on its line that the grammar keeps in a node around it: `export default`, `type`, `const`.
_LEAD = re.compile(rb"(?:^|\n)[ \t]*((?:[A-Za-z_]+[ \t]+)+)\Z")
_NAME = re.compile(r"[@$#]*[^\W\d]")  # a shell calls its arguments by number
_MAX_LEAD = 80
_MOST_IN_PROGRESS = 256  # matches; of code that holds more open at once, some are missed
_MAX_DECLARATORS = 32


class Extraction:
    """Symbols of one tree. data: the file's bytes, of which the tree is."""

    def __init__(self, compiled: Compiled, root: tree_sitter.Node, data: bytes) -> None:
        self._language = compiled.language
        self._data = data
        found = tree_sitter.QueryCursor(compiled.definitions, match_limit=_MOST_IN_PROGRESS).matches(root)
        self._matches = sorted(found, key=lambda match: match[0])  # the first pattern that finds a name counts
        self._said = tree_sitter.QueryCursor(compiled.uses, match_limit=_MOST_IN_PROGRESS).captures(root)
        comments = sorted((node.start_byte, node.end_byte) for node in self._said.get("comment", ()))
        self._comments = Comments(data, comments)
        self._skipped: list[tuple[int, int]] = []  # byte ranges of imports
        self._defined: list[tuple[int, int]] = []  # and of defined names
        self._bodies: dict[int, tree_sitter.Node | None] = {}  # by the id of the node they belong to
        self.imports = self._imports()
        self.definitions, self._regions = self._definitions()
        self.uses = self._uses()

    def _text(self, node: tree_sitter.Node) -> str:
        return self._data[node.start_byte : node.end_byte].decode(errors="replace")

    def _is_meant(self, captures: Captures) -> bool:
        """Do all words that a pattern depends on stand there?"""
        return all(
            self._text(nodes[0]) in WORDS[name[3:]] for name, nodes in captures.items() if name.startswith("is.") and nodes
        )

    def _imports(self) -> tuple[Import, ...]:
        made: dict[tuple[int, int], Import] = {}
        for _, captures in self._matches:
            if "skip" in captures:
                self._skipped.append(captures["skip"][0].byte_range)
            if "import" not in captures or not self._is_meant(captures):
                continue
            region = captures["import"][0]
            self._skipped.append(region.byte_range)
            if "tree" in captures:
                paths = imported(self._text(captures["tree"][0]), self._language.separator)
                for i, (module, name, alias) in enumerate(paths):
                    made.setdefault((region.start_byte, i), Import(module, name, alias, 0, *region.byte_range))
            else:
                for key, each in self._import(region, captures):
                    made.setdefault(key, each)
        self._skipped.sort()
        return tuple(sorted(made.values(), key=lambda each: each.start))

    def _import(self, region: tree_sitter.Node, captures: Captures) -> Iterator[tuple[tuple[int, int], Import]]:
        (at,) = captures.get("module", [region])[:1]
        module = _unquoted(self._text(at)) if "module" in captures else ""
        level = len(module) - len(module.lstrip(".")) if self._language.doc_inside else 0
        if "is.ruby" in captures and self._text(captures["is.ruby"][0]) == "require_relative":
            level = 1
        module = module[level:].strip() if self._language.doc_inside else module
        alias = next((self._text(node) for key in ("alias", "namespace", "default") for node in captures.get(key, ())), "")
        name, where = "", at
        if "name" in captures:
            where = captures["name"][0]
            name = self._text(where)
        elif "default" in captures:
            name, where = "default", captures["default"][0]
        elif "star" in captures:
            name = "*"
        if "names" in captures:
            for node in captures["names"][0].named_children:
                told = node.child_by_field_name("name") or node.child_by_field_name("key") or node
                other = node.child_by_field_name("alias") or node.child_by_field_name("value")
                alias = self._text(other) if other is not None and region.type != "export_statement" else ""
                if not node.is_extra:
                    each = Import(module, self._text(told), alias, 0, *region.byte_range)
                    yield (at.start_byte, told.start_byte), each
            return
        yield (at.start_byte, where.start_byte), Import(module, name, alias, level, *region.byte_range)

    def _definitions(self) -> tuple[tuple[Definition, ...], list[Region]]:
        found: dict[int, tuple[tree_sitter.Node, str, str, tuple[str, ...], Captures]] = {}
        regions: list[Region] = []
        for _, captures in self._matches:
            if "region" in captures:
                region = captures["region"][0]
                regions.append(Region(region.start_byte, region.end_byte, (self._text(captures["name"][0]),), "region"))
            kinds = [name for name in captures if name.startswith("def.")]
            if not kinds or not self._is_meant(captures):
                continue
            node, kind = captures[kinds[0]][0], kinds[0][4:]
            scope = tuple(self._text(each) for each in captures.get("scope", ()))
            for at in captures.get("name", ()):
                if not self._is_skipped(at.start_byte):
                    found.setdefault(at.start_byte, (node, self._text(at), kind, scope, captures))
            for declarator in captures.get("declarator", ()):
                declared = _declared(declarator, kind)
                if declared is not None:
                    at, kind_of, scopes = declared
                    names = tuple(self._text(each) for each in scopes)
                    found.setdefault(at.start_byte, (node, self._text(at), kind_of, names, captures))
        regions += [
            Region(node.start_byte, node.end_byte, (*scope, name), kind)
            for node, name, kind, scope, _ in found.values()
            if kind in CLASS_LIKE or kind in FUNCTION_LIKE or kind == "module"
        ]
        sweep = ScopeSweep(regions)
        made: dict[tuple[object, ...], Definition] = {}
        for name_start, entry in sorted(found.items(), key=lambda item: (item[1][0].start_byte, -item[1][0].end_byte, item[0])):
            around = sweep.at(entry[0].start_byte, around=entry[0].end_byte)
            each = self._definition(name_start, around, *entry)
            if each is None:
                continue
            self._defined.append((name_start, name_start + len(entry[1].encode())))
            # what is assigned again, or declared before it is defined, is one thing; overloads are not
            is_value = each.kind in ("variable", "constant", "field")
            key = (each.name, each.scope, "value") if is_value else (each.name, each.scope, name_start)
            made.setdefault(key, each)
        return tuple(made.values()), regions

    def _definition(
        self,
        name_start: int,
        around: Scope,
        node: tree_sitter.Node,
        name: str,
        kind: str,
        scope: tuple[str, ...],
        captures: Captures,
    ) -> Definition | None:
        """None: it is local to a function, nobody else's; or, in broken code, has no name."""
        names = around.names + scope
        if kind == "member":
            if around.kind not in FUNCTION_LIKE or len(names) < 2:
                return None
            kind, names = "field", names[:-1]
        elif kind in ("variable", "constant"):
            if around.kind in FUNCTION_LIKE:
                return None
            if kind == "variable":
                kind = "constant" if _UPPER.match(name) else "field" if around.kind in CLASS_LIKE else "variable"
        elif kind == "function" and (around.kind in CLASS_LIKE or scope):
            kind = "method"
        name_start += len(name.encode()) - len(name.lstrip().encode())
        name = _unquoted(name.lstrip(":$") if kind in ("field", "constant") else name.strip())
        if not name:
            return None
        body = self._body(node, captures)
        end = node.end_byte
        body_start = body.start_byte if body is not None else end
        head_end = captures["head"][0].end_byte if "head" in captures else body_start
        start = self._lead(node.start_byte)
        doc = (self._doc_inside(body) if self._language.doc_inside else "") or self._comments.above(start)
        signature = self._signature(start, head_end)
        return Definition(name, kind, start, end, name_start, body_start, signature, doc, names)

    def _body(self, node: tree_sitter.Node, captures: Captures) -> tree_sitter.Node | None:
        if captures.get("body"):
            return captures["body"][0]
        if node.id not in self._bodies:  # thousands of names may share one node, each of them its child
            body = node.child_by_field_name("body")
            if body is None and self._language.bodies:
                body = next((child for child in reversed(node.named_children) if child.type in self._language.bodies), None)
            self._bodies[node.id] = body
        return self._bodies[node.id]

    def _lead(self, start: int) -> int:
        found = _LEAD.search(self._data[max(start - _MAX_LEAD, 0) : start])
        return start - len(found[1]) if found else start

    def _signature(self, start: int, end: int) -> str:
        # a character has at most 4 bytes, and blanks may be many
        text = " ".join(self._data[start : min(end, start + 16 * MAX_SIGNATURE)].decode(errors="replace").split())
        return text[:MAX_SIGNATURE].rstrip(" {=")

    def _doc_inside(self, body: tree_sitter.Node | None) -> str:
        first = body.named_child(0) if body is not None and body.named_child_count else None
        if first is None or first.type != "expression_statement" or first.named_child_count != 1:
            return ""
        literal = first.named_child(0)
        if literal.type != "string":
            return ""
        # cut on a character: what is behind MAX_DOC characters is not told anyway
        part = self._data[literal.start_byte : min(literal.end_byte, literal.start_byte + 8 * MAX_DOC)]
        return doc_string(part.decode(errors="replace"))

    def _is_skipped(self, place: int) -> bool:
        """Only for the few places of definitions; uses go through in order."""
        i = bisect_right(self._skipped, (place, len(self._data) + 1)) - 1
        return i >= 0 and place < self._skipped[i][1]

    def _uses(self) -> tuple[Use, ...]:
        calls = {node.start_byte for node in self._said.get("call", ())}
        said = {node.start_byte for node in self._said.get("skip", ())} - calls
        nodes = {node.start_byte: node for key in ("use", "call") for node in self._said.get(key, ())}
        sweep = ScopeSweep(self._regions)
        made = []
        skipped, i = sorted(self._skipped + self._defined), 0
        end = -1  # of the skipped ranges so far
        for start in sorted(nodes):
            while i < len(skipped) and skipped[i][0] <= start:
                end = max(end, skipped[i][1])
                i += 1
            if start < end or start in said:
                continue
            name = self._text(nodes[start])
            if _NAME.match(name):
                made.append(Use(name, start, start in calls, sweep.at(start).names))
        return tuple(made)


def _declared(declarator: tree_sitter.Node, kind: str) -> tuple[tree_sitter.Node, str, list[tree_sitter.Node]] | None:
    """The name that a C declarator holds, what it is, and the scopes in front of it. None: it has no name."""
    scopes: list[tree_sitter.Node] = []
    node, around = declarator, ""
    for _ in range(_MAX_DECLARATORS):
        if node.type == "qualified_identifier":
            scope, name = node.child_by_field_name("scope"), node.child_by_field_name("name")
            if name is None:
                return None
            scopes += [scope] if scope is not None else []
            node = name
            continue
        inner = node.child_by_field_name("declarator")
        if inner is None and node.type in ("parenthesized_declarator", "reference_declarator", "attributed_declarator"):
            inner = node.named_child(0) if node.named_child_count else None
        if inner is None:
            break
        node, around = inner, node.type
    if node.type == "template_function":
        node = node.child_by_field_name("name") or node
    if node.type not in ("identifier", "field_identifier", "type_identifier", "destructor_name", "operator_name"):
        return None
    if kind == "declared":
        kind = "function" if around == "function_declarator" else "variable"
    return node, kind, scopes


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`" else text
