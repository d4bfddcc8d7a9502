"""Trees of open documents: off the loop, the newest text wins, the last good tree meanwhile."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context import grammars
from context.syntax import SyntaxTree, parse
from context.text import Edit, Text
from context.types import DocumentSnapshot
from lsp_server import trees as module
from lsp_server.trees import EXACT_AFTER_S, PARSE_AFTER_S, Trees
from tests.support.virtual import InlineExecutor, run_virtual

CODE = "def f(a):\n    return 'é'\n\n\nclass K:\n    x = 1\n"


class Editor:
    """A document and the trees that are told of it."""

    def __init__(self, trees: Trees, code: str = CODE, language: str = "python", name: str = "a") -> None:
        self.trees = trees
        self.snapshot = DocumentSnapshot(f"file:///{name}", 1, language, Text.of(code))
        trees.opened(self.snapshot)

    def edit(self, *edits: Edit) -> None:
        text = self.snapshot.text
        for edit in edits:
            text = text.edit(edit.start, edit.end, edit.new)
        old = self.snapshot
        self.snapshot = DocumentSnapshot(old.doc_id, old.version + 1, old.language, text)
        self.trees.changed(self.snapshot, edits)

    @property
    def tree(self) -> SyntaxTree | None:
        return self.trees.of(self.snapshot)

    @property
    def exact(self) -> SyntaxTree:
        tree = self.tree
        assert tree is not None and tree.is_exact, self.trees.why_none(self.snapshot.doc_id)
        fresh = parse(self.snapshot.language, self.snapshot.text)
        assert isinstance(fresh, SyntaxTree) and list(tree.shape()) == list(fresh.shape())
        return tree


def virtually(main: Callable[[Trees], Coroutine[Any, Any, None]]) -> Trees:
    """In virtual time, the parser on the loop."""
    trees = Trees(InlineExecutor(), pause=lambda _: None)
    run_virtual(lambda: main(trees))
    return trees


def test_a_document_gets_its_tree_when_it_is_asked_for() -> None:
    async def main(trees: Trees) -> None:
        editor = Editor(trees)
        await asyncio.sleep(10)
        assert trees.n_parsed == 0, "nobody has asked"
        assert editor.tree is None
        await asyncio.sleep(0.01)
        assert editor.exact.root.type == "module"
        old = editor.snapshot
        editor.edit(Edit(0, 0, b"x = 1\n"))
        assert trees.of(old) is None, "of another version"

    virtually(main)


def test_the_last_good_tree_serves_until_the_new_one_is_there() -> None:
    async def main(trees: Trees) -> None:
        editor = Editor(trees)
        editor.edit(Edit(0, 0, b"import a\n"))
        await asyncio.sleep(1)
        assert editor.exact is not None
        editor.edit(Edit(0, 0, "# 漢字\n".encode()), Edit(0, 0, b"y = 2\n"))
        moved = editor.tree
        assert moved is not None and not moved.is_current and moved.text == editor.snapshot.text
        at = editor.snapshot.text.bytes().index(b"return")
        assert [node.type for node in moved.path(at)][:2] == ["module", "function_definition"]
        await asyncio.sleep(PARSE_AFTER_S + 0.001)
        assert editor.tree is not None and editor.tree.is_current and not editor.tree.is_exact

    virtually(main)


def test_a_burst_is_parsed_once_and_typing_on_gets_trees() -> None:
    async def main(trees: Trees) -> None:
        editor = Editor(trees, "x = 1\n" * 20)
        for _ in range(10):
            editor.edit(Edit(0, 0, b"y"))
        await asyncio.sleep(1)
        assert trees.n_parsed == 1
        for _ in range(100):
            editor.edit(Edit(0, 0, b"y"))
            await asyncio.sleep(0.01)
        assert 20 <= trees.n_parsed - 1 <= 40

    virtually(main)


def test_when_it_is_quiet_the_text_is_parsed_as_a_whole() -> None:
    async def main(trees: Trees) -> None:
        editor = Editor(trees)
        editor.edit(Edit(0, 0, b"x = 1\n"))
        await asyncio.sleep(1)
        editor.edit(Edit(6, 6, b"class ("))
        await asyncio.sleep(PARSE_AFTER_S + 0.001)
        tree = editor.tree
        assert tree is not None and tree.is_current and tree.has_error and not tree.is_exact
        await asyncio.sleep(EXACT_AFTER_S + 0.01)
        assert editor.exact.has_error
        n = trees.n_parsed
        await asyncio.sleep(60)
        assert trees.n_parsed == n

    virtually(main)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 5), st.sampled_from(["", "x", "(", "\r\n", "é", "\r", "if a:\n"]),
                          st.sampled_from([0.0, 0.01, 0.1, 1.0])), max_size=12))  # fmt: skip
def test_after_any_edits_at_any_time_it_is_the_tree_of_the_text(steps: list[tuple[int, int, str, float]]) -> None:
    async def main(trees: Trees) -> None:
        editor = Editor(trees)
        for place, length, new, pause in steps:
            text = editor.snapshot.text
            start = text.floor(place * len(text) // 100)
            editor.edit(Edit(start, max(start, text.floor(start + length)), new.encode()))
            await asyncio.sleep(pause)
            tree = editor.tree
            assert tree is None or tree.text == editor.snapshot.text
        editor.tree  # noqa: B018
        await asyncio.sleep(2)
        assert editor.exact is not None

    virtually(main)


def test_what_is_closed_or_has_no_grammar_has_no_tree(caplog: pytest.LogCaptureFixture) -> None:
    async def main(trees: Trees) -> None:
        plain = Editor(trees, language="plaintext", name="plain")
        plain.edit(Edit(0, 0, b"x"))
        editor = Editor(trees)
        editor.edit(Edit(0, 0, b"x"))
        trees.closed(editor.snapshot.doc_id)
        await asyncio.sleep(5)
        assert editor.tree is None and plain.tree is None and trees.n_parsed == 0
        assert trees.why_none(plain.snapshot.doc_id) == "there is no grammar for plaintext"
        assert trees.why_none(editor.snapshot.doc_id) == "not open"
        assert not caplog.records
        grammars._load.cache_clear()
        with mock.patch.dict(grammars._MODULES, {"go": "missing_one"}):
            for name in "bc":
                Editor(trees, "package p\n", "go", name).edit(Edit(0, 0, b"// a\n"))
            await asyncio.sleep(1)
        grammars._load.cache_clear()
        (told,) = (record.message for record in caplog.records)
        assert "install tree-sitter-missing-one" in told

    with caplog.at_level(logging.WARNING):
        virtually(main)


def test_what_is_too_hard_is_tried_less_and_less_often() -> None:
    async def main(trees: Trees) -> None:
        editor = Editor(trees, "x = f(1, 2)\n" * 3000)
        with mock.patch("context.syntax._FEWEST_STEPS", 1), mock.patch("context.syntax._BYTES_PER_STEP", 10**6):
            for _ in range(600):
                editor.edit(Edit(0, 0, b"y"))
                assert editor.tree is None
                await asyncio.sleep(0.1)
        assert parsed.call_count <= 8
        assert trees.why_none(editor.snapshot.doc_id) == "the text is too hard to parse"

    with mock.patch.object(module, "parse", wraps=parse) as parsed:
        virtually(main)


def test_old_trees_make_room() -> None:
    async def main(trees: Trees) -> None:
        with mock.patch.object(module, "MAX_TREES", 2):
            editors = [Editor(trees, name=name) for name in "abc"]
            for editor in editors:
                editor.edit(Edit(0, 0, b"x = 1\n"))
                await asyncio.sleep(1)
            assert [editor.tree is not None for editor in editors] == [False, True, True]
            await asyncio.sleep(1)
            assert editors[0].exact is not None

    virtually(main)


def test_the_loop_goes_on_and_the_newest_text_wins() -> None:
    """In a real thread: the parser is held in the middle of an old text."""
    held, at_work = threading.Event(), threading.Event()

    def pause(_seconds: float) -> None:
        at_work.set()
        assert held.wait(10)

    async def main() -> None:
        trees = Trees(ThreadPoolExecutor(1), pause)
        editor = Editor(trees, "x = f(1, 2)\n" * 3000)
        assert editor.tree is None
        await asyncio.to_thread(at_work.wait, 10)
        editor.edit(Edit(0, 0, b"y = 1\n"))
        assert editor.tree is None, "the first one is worth waiting for"
        held.set()
        while editor.tree is None or not editor.tree.is_exact:
            await asyncio.sleep(0.005)
        assert (trees.n_parsed, trees.n_given_up) == (3, 0) and editor.exact is not None
        held.clear()
        at_work.clear()
        editor.edit(Edit(0, len(editor.snapshot.text), b"z = g((1))\n" * 3000))
        await asyncio.to_thread(at_work.wait, 10)
        editor.edit(Edit(0, 0, b"w = 1\n"))
        held.set()
        while not (editor.tree and editor.tree.is_exact):
            await asyncio.sleep(0.005)
        assert trees.n_given_up == 1 and editor.exact is not None
        trees.close()

    asyncio.run(asyncio.wait_for(main(), 30))
