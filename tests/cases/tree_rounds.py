"""Edits, parses and looks at a tree many times over, and prints what the process weighs: `python -m tests.cases.tree_rounds`.

Arguments: rounds, rounds until it is weighed first, and the text. In a round a character is inserted, taken out again, and what
encloses the place is read. Or with `kept`, a number of modules and of walks: nodes of many trees are kept and their parents
walked.
"""

from __future__ import annotations

import inspect
import json
import sys

import psutil
import tree_sitter

from context.blocks import block_openers
from context.grammars import grammar
from context.syntax import SyntaxTree, parse
from context.text import Edit, Text


def parsed(tree: object) -> SyntaxTree:
    assert isinstance(tree, SyntaxTree)
    return tree


def rounds(n_rounds: int, n_settled: int, code: str) -> dict[str, int]:
    process = psutil.Process()
    text = Text.of(code)
    tree = parsed(parse("python", text))
    first = 0
    for i in range(n_rounds):
        if i == n_settled:
            first = process.memory_info().rss
        at = text.floor(i % len(text))
        for edit in (Edit(at, at, b"x"), Edit(at, at + 1, b"")):
            text = text.edit(edit.start, edit.end, edit.new)
            tree = parsed(tree.edited((edit,), text).parsed())
            assert all(node.text is not None for node in tree.path(at))
            block_openers(tree)
    assert text == Text.of(code) and tree.is_current
    return {"first": first, "last": process.memory_info().rss}


def kept(n_modules: int, n_walks: int) -> dict[str, int]:
    import argparse
    import ast
    import inspect as inspecting
    import tarfile
    import typing

    modules = (argparse, ast, inspecting, tarfile, typing)[:n_modules]
    query = tree_sitter.Query(grammar("python"), "(identifier) @name")
    nodes = []
    for module in modules:
        tree = parsed(parse("python", inspect.getsource(module).encode()))
        nodes.append(tree_sitter.QueryCursor(query).captures(tree.root)["name"])
        del tree
    n_steps = 0
    for i in range(n_walks):
        for captures in nodes:
            node = captures[i * len(captures) // n_walks]
            while node is not None:
                node = node.parent
                n_steps += 1
    return {"nodes": sum(map(len, nodes)), "steps": n_steps}


if __name__ == "__main__":
    arguments = sys.argv[1:]
    made = kept(*map(int, arguments[1:])) if arguments[0] == "kept" else rounds(*map(int, arguments[:2]), arguments[2])
    sys.stdout.write(json.dumps(made) + "\n")
