"""ast-incremental, and what trees weigh. Times are counts here: calls of the parser's progress."""

from __future__ import annotations

import ast
import asyncio
import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import tree_sitter

import context.syntax
from context.syntax import InputEdit, NoTree, SyntaxTree, parse
from context.text import Edit, Text
from tests.cases import checks, generic
from tests.cases.case import HANG_S, Case
from tests.cases.drivers.registry import driver
from tests.cases.scene import Scene

ROOT = Path(__file__).resolve().parent.parent.parent.parent
OTHER = "file:///w/app/other.py"
MB = 1 << 20


async def tree_in(scene: Scene, uri: str) -> SyntaxTree | str:
    """What the server has for its document: its exact tree, or why there is none."""
    document = scene.app.store.find(uri)
    assert document is not None, f"{uri} is not open"
    trees, snapshot = scene.app.completer.trees, document.snapshot
    while True:
        tree = trees.of(snapshot)
        if tree is not None and tree.is_exact:
            return tree
        why = trees.why_none(snapshot.doc_id)
        if why and why != "not parsed yet":
            return why
        await asyncio.sleep(0.01)


def fresh(text: Text) -> SyntaxTree:
    tree = parse("python", text)
    assert isinstance(tree, SyntaxTree), tree
    return tree


def compare(tree: SyntaxTree | NoTree | str, text: Text) -> SyntaxTree:
    """An exact tree is that of the text alone: its nodes, and what encloses each place."""
    assert isinstance(tree, SyntaxTree), tree
    wanted = fresh(text)
    assert tree.text == text and tree.has_error == wanted.has_error, "an error that a fresh parse has not, or the other way"
    assert list(tree.shape()) == list(wanted.shape()), "other nodes than a fresh parse has"
    for at in range(0, len(text), 7):
        told, due = ([(node.type, node.byte_range) for node in each.path(at)] for each in (tree, wanted))
        assert told == due, f"other scopes at {at}"
    return tree


@driver("ast-incremental-01")
async def incremental_is_fresh(case: Case) -> str:
    opened, change = case.input["messages"]
    uri = opened["params"]["textDocument"]["uri"]
    async with generic.scene_of(case) as scene:
        scene.feed(opened)
        await scene.client.settle()
        compare(await tree_in(scene, uri), Text.of(scene.texts[uri]))
        scene.feed(change)
        await scene.client.settle()
        tree = compare(await tree_in(scene, uri), Text.of(scene.texts[uri]))
        assert not tree.has_error, "the repaired file has an error"
    rng = random.Random(1)
    pieces = ("", "", "    ", "\n", "x", "(", ")", ":", "if on:\n    ", '"', "é", "\r\n")
    n_apart = n_edits = 0
    for _ in range(40):
        text = Text.of(scene.texts[uri])
        tree = fresh(text)
        for _ in range(10):
            edits = []
            after = text
            for _ in range(rng.choice((1, 1, 3))):
                start = after.floor(rng.randrange(len(after) + 1))
                end = max(start, after.floor(start + rng.choice((0, 0, 1, 8))))
                edits.append(Edit(start, end, rng.choice(pieces).encode()))
                after = after.edit(start, end, edits[-1].new)
            made = tree.edited(edits, after).parsed()
            assert isinstance(made, SyntaxTree), made
            n_edits += 1
            n_apart += list(made.shape()) != list(fresh(after).shape())
            tree = compare(made.exact(), after)
            text = after
    return f"as printed, and {n_edits} random edits; before the exact parse {n_apart} had other nodes"


@driver("ast-incremental-02")
async def what_the_parser_is_told(case: Case) -> str:
    opened, change = case.input["messages"]
    uri = opened["params"]["textDocument"]["uri"]
    told: list[InputEdit] = []
    make = context.syntax.input_edit

    def noted(*arguments: Any) -> InputEdit:
        told.append(make(*arguments))
        return told[-1]

    async with generic.scene_of(case) as scene:
        scene.feed(opened)
        await scene.client.settle()
        await tree_in(scene, uri)
        with mock.patch.object(context.syntax, "input_edit", noted):
            scene.feed(change)
            await scene.client.settle()
        played = checks.Played(scene, uri, ())
        checks.check(played, {"document_text": case.expected["document_text"]})
        compare(await tree_in(scene, uri), Text.of(case.expected["document_text"]))
    assert len(told) == 1, f"{len(told)} edits of the tree"
    wanted = {key: tuple(value) if isinstance(value, list) else value for key, value in case.expected["tree_edit"].items()}
    assert told[0]._asdict() == wanted, f"{told[0]}"
    return f"{told[0]}"


def _child(*arguments: object) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.cases.tree_rounds", *map(str, arguments)],
        cwd=ROOT, capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"it ended with {done.returncode}: {done.stderr[-600:]}"
    result: dict[str, int] = json.loads(done.stdout)
    return result


def _climbs(path: Path) -> bool:
    """Does a module ask for a node's parent?"""
    return any(isinstance(node, ast.Attribute) and node.attr == "parent" for node in ast.walk(ast.parse(path.read_text())))


def _modules_with_trees() -> list[Path]:
    paths = [*(ROOT / "context").rglob("*.py"), ROOT / "lsp_server" / "trees.py"]
    return [path for path in paths if re.search(r"tree_sitter|context\.syntax", path.read_text())]


@driver("ast-incremental-04")
async def kept_nodes(case: Case) -> str:
    found = re.match(
        r"parse (\d+) stdlib-size modules, keep query captures, walk \.parent to the root (\d+) times", case.input["setup"]
    )
    assert found is not None, "the setup says something else"
    made = _child("kept", found[1], found[2])
    assert made["nodes"] > 1000 and made["steps"] > 1000, "hardly any nodes: this shows nothing"
    tree = fresh(Text.of("x = f(1)\n"))
    tree.path(4)
    assert not any(isinstance(getattr(tree, slot), tree_sitter.Node) for slot in SyntaxTree.__slots__), "a node is kept"
    return f"{made['nodes']} nodes kept, {made['steps']} parents walked, no crash; the server keeps trees, not nodes"


@driver("ast-incremental-05")
async def nested(case: Case) -> str:
    document = case.input["document"]
    uri, cursor = document["uri"], document["cursor"]
    again = re.fullmatch(r"ask again at line (\d+) character (\d+)", case.input["then"])
    assert again is not None, "it says something else"
    (says,) = case.input["model"]["outputs"]
    climbing = [path.name for path in _modules_with_trees() if _climbs(path)]
    assert not climbing, f"{climbing} walk parents"
    async with generic.scene_of(case) as scene:
        scene.open(case.text, uri, document["languageId"])
        scene.open("x = 1\n", OTHER)
        await scene.client.settle()
        deep, other = await tree_in(scene, uri), await tree_in(scene, OTHER)
        compare(other, Text.of("x = 1\n"))
        told = deep
        if isinstance(deep, SyntaxTree):
            most = context.syntax._FEWEST_STEPS + len(deep.text) // context.syntax._BYTES_PER_STEP
            assert deep.n_steps <= most, f"{deep.n_steps} steps"
            n_looked_at = len(deep.path(cursor["character"]))
            assert n_looked_at <= context.syntax.MAX_PATH, f"{n_looked_at} nodes looked at for one place"
            told = f"a tree after {deep.n_steps} steps, {n_looked_at} nodes looked at"
        await scene.ask(cursor["line"], cursor["character"], uri=uri)
        (item,) = await scene.ask(int(again[1]), int(again[2]), uri=uri)
        assert item["insertText"].endswith(says), f"{item}"
        for name in case.expected["must_not"]:
            assert not any(name in line for line in scene.logs.above(0)), f"{name} in the log"
        assert not scene.logs.above(30), f"{scene.logs.above(30)}"
    return f"{told}; answered behind it, the other document has its tree"


@driver("memory-and-capacity-05")
async def released_trees(case: Case) -> str:
    opened, said = case.input["messages"]
    n_rounds = re.match(r"([\d ]+) x \(insert one char, delete it, request zone\)", said)
    note = re.match(r"rss growth after the first (\d+) rounds < (\d+) MB", case.expected["note"])
    assert n_rounds is not None and note is not None, "the case says something else"
    n = int(n_rounds[1].replace(" ", ""))
    weighed = _child(n, note[1], opened["params"]["textDocument"]["text"])
    grown = (weighed["last"] - weighed["first"]) / MB
    assert grown < int(note[2]), f"{grown:.1f} MB more after {n} rounds"
    return f"{grown:.2f} MB more after {n} rounds"
