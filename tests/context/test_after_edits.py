"""After any edits text, line index, tokens, tree and the edit records are those of the final text.

Edits come as editors send them: several at once, over multi-byte text and every kind of line end, undone and done again.
"""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from context.prompt_form import to_prompt
from context.syntax import SyntaxTree, parse
from context.text import Edit, Text
from context.tokens import TokenTable
from tests.context.conftest import WordTokenizer, new_table

CODE = {
    "python": 'class Größe:\n    """漢字"""\n\n    def f(self, a):\n        return "é"\n\n\nx = [1,\n     2]\n',
    "typescript": "export class A {\r\n  é = 1;\r\n  f(a: string): void { return `q${a}漢`; }\r\n}\r\n",
    "go": "package p\n\nfunc f(a int) (int, error) {\n\tx := `é`\n\treturn g(a), nil\n}\n",
    "markdown": "\ufeff# Größe\n\n- a\n- b\n\n```py\nx = 1\n```\n",
}
NEW = ["", "", "x", "é", "😋", "\n", "\r\n", "\r", "    ", "\n\n    y = 2", "(", "}", '"', "# ", "a b\tc;\n" * 40]
_BREAK = re.compile(rb"\r\n|\r|\n")


class Document:
    """A document as it is kept from version to version; every version is compared with one made from its text alone."""

    def __init__(self, language: str, code: str) -> None:
        self.language = language
        self.text = Text.of(code)
        self.table = new_table()
        tree = parse(language, self.text)
        assert isinstance(tree, SyntaxTree)
        self.tree = tree
        self.data = code.encode()  # what an editor holds
        self.check()

    def apply(self, edits: list[Edit]) -> list[Edit]:
        """One notification. Returns what undoes it."""
        text, undo = self.text, []
        for edit in edits:
            undo.insert(0, Edit(edit.start, edit.start + len(edit.new), text.slice(edit.start, edit.end)))
            text = text.edit(edit.start, edit.end, edit.new)
            self.data = self.data[: edit.start] + edit.new + self.data[edit.end :]
        parsed = self.tree.edited(edits, text).parsed()
        assert isinstance(parsed, SyntaxTree)
        self.text, self.tree = text, parsed
        self.check()
        return undo

    def check(self) -> None:
        data, text = self.data, self.text
        fresh = Text.of(data)
        assert text == fresh and text.bytes() == data
        starts = [0, *(match.end() for match in _BREAK.finditer(data))]
        assert [text.line_start(line) for line in range(text.n_lines)] == starts
        assert [text.line_of(start) for start in starts] == list(range(len(starts)))
        tokens = WordTokenizer().encode(to_prompt(data, True))
        assert self.table.encode_document(text) == tokens == TokenTable(WordTokenizer(), "other").encode_document(fresh)
        parsed, exact = parse(self.language, fresh), self.tree.exact()
        assert isinstance(parsed, SyntaxTree) and isinstance(exact, SyntaxTree)
        assert self.tree.text is text and self.tree.is_current
        assert list(exact.shape()) == list(parsed.shape())
        if self.language == "go" and not (self.tree.has_error or parsed.has_error):  # no scanner of its own
            assert list(self.tree.shape()) == list(parsed.shape())


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(sorted(CODE)), st.data())
def test_everything_equals_what_is_made_from_the_final_text(language: str, data: st.DataObject) -> None:
    document = Document(language, CODE[language])
    begun = document.data
    history: list[list[Edit]] = []
    for _ in range(data.draw(st.integers(1, 5))):
        edits, text = [], document.text
        for _ in range(data.draw(st.integers(1, 3))):
            start = text.floor(data.draw(st.integers(0, len(text))))
            end = max(start, text.floor(start + data.draw(st.sampled_from([0, 0, 1, 2, 40]))))
            edits.append(Edit(start, end, data.draw(st.sampled_from(NEW)).encode()))
            text = text.edit(start, end, edits[-1].new)
        history.append(document.apply(edits))
        if data.draw(st.booleans()):  # a storm: undone and done again
            history[-1] = document.apply(document.apply(history[-1]))
    for undo in reversed(history):
        document.apply(undo)
    assert document.data == begun


def test_undoing_encodes_nothing_and_an_edit_only_its_lines() -> None:
    document = Document("python", "".join(f"wert_{i} = zähle({i})\n" for i in range(300)))
    n = document.table.n_encoded_bytes
    at = document.text.line_end(150)
    undo = document.apply([Edit(at, at, b" + 1"), Edit(0, 0, b"import a\n")])
    # each line before the change and after it is known; the first line has a piece of its own now
    assert document.table.n_encoded_bytes - n <= 60
    n = document.table.n_encoded_bytes
    redo = document.apply(undo)
    document.apply(redo)
    assert document.table.n_encoded_bytes == n
