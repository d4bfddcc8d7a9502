"""The bench of a keystroke's assembly: what it counts, and that none of it grows with the file."""

from __future__ import annotations

import itertools
import json
from unittest import mock

import pytest

from bench import assembly
from bench.assembly import EDITS_PER_PLACE, Measured, measure, report, source
from bench.errors import BenchError
from context.syntax import SyntaxTree, parse
from inference.types import EngineError
from tests.context.conftest import ANCHORED, WordTokenizer


class Words(WordTokenizer):
    pre_type = "qwen2"
    pieces = ()


def counted(n_lines: int) -> Measured:
    ticks = itertools.count()
    return measure(n_lines, 3 * EDITS_PER_PLACE, Words(), ANCHORED, clock=lambda: next(ticks) / 1000)


def test_neither_tokens_nor_nodes_grow_with_the_file() -> None:
    short, long = counted(400), counted(3200)
    for each in (short, long):
        assert all(ms == pytest.approx(1) for ms in each.edit_ms), "one span of the clock each"
        typed = [n for i, n in enumerate(each.bytes_tokenized) if i % EDITS_PER_PLACE]
        assert max(typed) <= 200 and sum(typed) <= 12 * len(typed), "a key encodes its line"
        assert max(each.nodes_visited) <= 20
    assert max(long.bytes_tokenized) <= 1.25 * max(short.bytes_tokenized), "a new plan encodes what fits a prompt"
    assert sum(long.nodes_visited) <= 1.25 * sum(short.nodes_visited)


def test_the_file_has_that_many_lines_and_is_sound() -> None:
    for n in (500, 2000):
        text = source(n)
        assert n <= text.count("\n") < n + 20
        tree = parse("python", text.encode())
        assert isinstance(tree, SyntaxTree) and not tree.has_error


def test_the_report() -> None:
    measured = Measured([1.0] * 19 + [9.0], [3] * 20, [7] * 20, [2.0] * 20, [100] * 20)
    told = report({500: measured})
    assert told["bytes_tokenized"] == {"500": 3} and told["nodes_visited"] == {"500": 7}
    assert 1.0 <= told["p95_ms"]["500"] < 9.0 and told["parse_p95_ms"] == {"500": 2.0}
    assert told["parse_read_bytes"] == {"500": 100}


def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    with mock.patch.object(assembly, "_vocabulary", return_value=(Words(), ANCHORED)):
        assert assembly.main(["--lines", "100", "200", "--edits", "10"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(told["p95_ms"]) == ["100", "200"]
    with mock.patch.object(assembly, "_vocabulary", side_effect=EngineError("there is no such model")):
        assert assembly.main([]) == 1
    assert capsys.readouterr().err == "there is no such model\n"


def test_a_file_without_a_tree_is_told() -> None:
    with mock.patch("context.syntax.MAX_BYTES", 100), pytest.raises(BenchError, match="longer than"):
        measure(50, 1, Words(), ANCHORED)
