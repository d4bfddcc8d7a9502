"""The holes bench: fair places, cuts, other names, measures and leaks; the whole run on the strict fake."""

from __future__ import annotations

import ast
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bench import holes, holes_plan
from bench.errors import BenchError
from bench.heart import Heart
from bench.holes import Case, check, sets_of
from bench.holes_copy import Copy
from bench.holes_measure import Names, rest_of_line, similarity
from bench.holes_plan import Model
from bench.holes_sites import Hole, choose, fairly, holes_of, runs_around
from bench.holes_tree import SourceFile, Tree, load_tree, squeeze, trees_of
from bench.rename import rename
from context.symbol_types import Import
from lsp_server.index.rows import Defined, FileRow, UsedIn
from lsp_server.uris import path_of
from tests.bench.fake_heart import VOCAB, fake_heart

SHOP = '''"""The shop's numbers."""

import json

TAX_RATE = 20


class PriceList:
    """All prices."""

    def __init__(self, entries):
        self.entries = entries

    def lookup_price(self, article, *, with_tax=False):
        """What an article costs; `lookup_price` knows PriceList alone."""
        price = self.entries[article]
        return price * (100 + TAX_RATE) // 100 if with_tax else price


def load_prices(path):
    return PriceList(json.loads(path.read_text()))
'''
BILL = """from .pricing import TAX_RATE, load_prices
import os.path


def total_of(order, path):
    prices = load_prices(path.with_suffix(".json"))
    amount = sum(prices.lookup_price(each, with_tax=order.taxed) for each in order)
    print("rounded", round(amount / TAX_RATE, 2))
    local_value = os.path.join("a", str(path))
    return amount, local_value
"""
SCRIPT = """import { makeBasket } from './basket';

export function run(count: number) {
  return makeBasket(count + 1, 'apples');
}
"""
BASKET = "export function makeBasket(size: number, kind: string) {\n  return { size, kind };\n}\n"


def tree_of(**files: str) -> Tree:
    made = {}
    for key, text in files.items():
        name, _, ending = key.rpartition("_")
        path = f"{name.replace('__', '/')}.{ending}"
        made[path] = SourceFile(path, text.encode(), {"py": "python", "ts": "typescript"}[ending])
    return Tree("shop", dict(sorted(made.items())))


TREE = tree_of(pricing_py=SHOP, bill_py=BILL, web__basket_ts=BASKET, web__run_ts=SCRIPT)


def texts(found: list[Hole], tree: Tree = TREE) -> set[tuple[str, str]]:
    return {(hole.name, tree.files[hole.path].text[hole.start : hole.end].decode()) for hole in found}


def test_places_use_a_name_of_another_file() -> None:
    found = list(holes_of(TREE, 7))
    assert all(hole.origin != hole.path and hole.name.encode() in TREE.files[hole.origin].text for hole in found)
    every = {text for seed in range(20) for text in texts(list(holes_of(TREE, seed)))}
    assert every == {
        ("load_prices", 'load_prices(path.with_suffix(".json"))'),
        ("lookup_price", "each, with_tax=order.taxed) for each in order)"),
        ("TAX_RATE", "TAX_RATE, 2))"),
        ("makeBasket", "count + 1, 'apples');"),
    }
    assert max(sum(hole.path == path for hole in found) for path in TREE.files) <= 2


def test_the_choice_is_the_seeds_and_fewer_are_the_first_of_more() -> None:
    other = Tree("other", TREE.files)
    chosen = choose([TREE, other], 6, 3)
    assert choose([TREE, other], 6, 3) == chosen and choose([TREE, other], 4, 3) == chosen[:4]
    assert [hole.tree for hole in chosen[:4]] == ["shop", "other"] * 2
    assert any(choose([TREE, other], 6, seed) != chosen for seed in range(4, 9))
    assert len({hole.case for hole in chosen}) == len(chosen)


def hole_of(name: str, tree: Tree = TREE) -> Hole:
    return next(hole for seed in range(30) for hole in holes_of(tree, seed) if hole.name == name)


def test_a_file_that_repeats_five_lines_is_left_out_and_one_that_says_it_otherwise_is_unfair() -> None:
    hole = hole_of("lookup_price")
    assert hole.left_out == ()
    twin = tree_of(pricing_py=SHOP, bill_py=BILL, copied_py="x = 1\n" + BILL.replace("\n\n", "\n").replace("    ", "  "))
    assert fairly(twin, hole) == replace(hole, left_out=("copied.py",))
    told = tree_of(pricing_py=SHOP, bill_py=BILL, copied_py=BILL.split("\n")[6] + "\n")
    assert fairly(told, hole) is None
    again = tree_of(pricing_py=SHOP, bill_py=BILL + BILL.split("\n")[6].strip() + "\n")
    assert fairly(again, hole) is None
    origin = tree_of(pricing_py=SHOP + BILL, bill_py=BILL)
    assert fairly(origin, hole) is None, "what is asked for may not be left out"
    assert len(runs_around(BILL.encode(), hole.line)) == 4 and len(runs_around(BILL.encode(), 1)) == 1


def test_the_hole_is_cut_out_of_the_copy_before_anybody_looks(tmp_path: Path) -> None:
    hole = replace(hole_of("lookup_price"), left_out=("web/run.ts",))
    copy = Copy(TREE, tmp_path)
    text, changed = copy.cut(hole)
    assert copy.path("bill.py").read_bytes() == text and b"order.taxed" not in text
    assert text == BILL.encode()[: hole.start] + BILL.encode()[hole.end :]
    assert not copy.path("web/run.ts").exists() and sorted(path.name for path in changed) == ["bill.py", "run.ts"]
    other = hole_of("makeBasket")
    text, changed = copy.cut(other)
    assert copy.path("bill.py").read_text() == BILL and b"apples" not in copy.path("web/run.ts").read_bytes()
    assert sorted(path.name for path in changed) == ["bill.py", "run.ts"]
    loaded = load_tree(copy.root)
    assert loaded.name == "shop" and loaded.files.keys() == TREE.files.keys()


def test_other_names() -> None:
    made = rename(TREE, 7)
    assert made == rename(TREE, 7) and made.names != rename(TREE, 8).names
    every = b"\n".join(file.text for file in made.tree.files.values())
    for name in ("lookup_price", "PriceList", "TAX_RATE", "makeBasket", "load_prices", "with_tax"):
        assert name in made.names and name.encode() not in every
    assert len(set(made.names.values())) == len(made.names)
    bill = made.tree.files[made.paths["bill.py"]].text.decode()
    n = made.names
    assert f"from .{n['pricing']} import {n['TAX_RATE']}, {n['load_prices']}\n" in bill
    assert made.paths["pricing.py"] == n["pricing"] + ".py"
    assert "import os.path\n" in bill and "os.path.join(" in bill and " round(" in bill and '("rounded"' in bill
    shop = made.tree.files[made.paths["pricing.py"]].text.decode()
    assert f"`{n['lookup_price']}` knows {n['PriceList']} alone" in shop and "def __init__(self, " in shop
    ast.parse(bill), ast.parse(shop)
    script = made.tree.files[made.paths["web/run.ts"]].text.decode()
    assert f"from './{n['basket']}';" in script and ": number)" in script
    for name in ("load_prices", "lookup_price", "makeBasket"):
        hole = hole_of(name)
        text = made.tree.files[made.paths[hole.path]].text
        start, end = made.place(hole.path, hole.start), made.place(hole.path, hole.end)
        assert text.count(b"\n", 0, start) + 1 == hole.line and text[end : end + 1] in (b"\n", b"")
        assert text[start - 1 :].startswith((b"(", b" ")) and len(text[start:end]) > 5


_WORDS = ("value", "print", "is", "of", "for_a")


def test_no_name_becomes_one_that_stays() -> None:
    names = "".join(f"class_list_{word} = {i}\n{word}_in = {i}\n" for i, word in enumerate(_WORDS))
    tree = tree_of(a_py=names + "def class_is(value_of, is_print):\n    return value_of.append(is_print)\n")
    for seed in range(12):
        made = rename(tree, seed)
        ast.parse(next(iter(made.tree.files.values())).text)
        assert not {"list", "print", "is", "in", "for", "class", "append"} & set(made.names.values())
        assert "append" not in made.names


def test_measures() -> None:
    assert rest_of_line("a  \nb") == "a"
    assert similarity("", "") == similarity("abc", "abc") == 1.0 and similarity("abc", "xyz") == 0.0
    assert similarity("kitten", "sitting") == pytest.approx(1 - 3 / 7)
    names = Names(TREE)
    assert names.undefined("bill.py", "lookup_price(order, with_tax=True).entries or json.loads('invented')  # nothing") == ()
    assert names.undefined("bill.py", "find_price(order.brutto, len(price), find_price)") == ("find_price", "brutto", "price")
    assert names.undefined("web/run.ts", "makeBasket(count.toFixed(), other)") == ("other",)


def test_a_leak_ends_the_run() -> None:
    case = Case("c", TREE, hole_of("lookup_price"))
    check(case, b"prompt: " + SHOP.encode(), 100, 100)
    for leak in (case.want, case.want.replace(" ", "\n    "), "x" + case.want + "y"):
        with pytest.raises(BenchError, match="in the prompt"):
            check(case, b"prompt: " + leak.encode(), 10, 100)
    with pytest.raises(BenchError, match="101 tokens"):
        check(case, b"", 101, 100)


def written(folder: Path, tree: Tree = TREE) -> Path:
    return Copy(tree, folder).root


def test_both_sets_ask_for_the_same_places(tmp_path: Path) -> None:
    trees = trees_of([written(tmp_path)])
    sets = sets_of(trees, 4, 7, holes.SETS)
    real, renamed = sets["real"], sets["renamed"]
    assert [case.case for case in real] == [case.case for case in renamed] and len(real) >= 3
    for a, b in zip(real, renamed, strict=True):
        assert a.hole.line == b.hole.line and a.hole.name != b.hole.name and a.hole.path != b.hole.path
        assert squeeze(b.tree.files[b.hole.path].text).count(squeeze(b.want.encode())) == 1
    assert sum(a.want != b.want for a, b in zip(real, renamed, strict=True)) >= 2  # `count` is a word of the language
    with pytest.raises(BenchError, match="two roots"):
        trees_of([tmp_path / "shop", tmp_path / "shop"])
    with pytest.raises(BenchError, match="no folder"):
        load_tree(tmp_path / "nothing")


class DiskIndex:
    """An index without a process: looks at the folder whenever it is asked."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    def _files(self) -> dict[str, SourceFile]:
        return {str(self._root / path): file for path, file in load_tree(self._root).files.items()}

    def covers(self, doc_id: str) -> bool:
        return path_of(doc_id).startswith(str(self._root))

    async def definitions_of(self, name: str, most: int = 200) -> tuple[Defined, ...]:
        found = [(path, file, d) for path, file in self._files().items() for d in file.symbols.definitions if d.name == name]
        return tuple(Defined(path, file.language, d) for path, file, d in found)

    async def uses_of(self, name: str, most: int = 200) -> tuple[UsedIn, ...]:
        return ()

    async def symbols_in(self, doc_id: str) -> FileRow | None:
        file = self._files().get(path_of(doc_id))
        if file is None:
            return None
        return FileRow(
            path_of(doc_id), file.language, len(file.text), False, file.symbols.definitions, file.symbols.imports, ()
        )

    async def resolve(self, doc_id: str, language: str, one: Import) -> tuple[str, ...]:
        return ()

    def changed(self, doc_id: str) -> None: ...

    async def is_filled(self) -> bool:
        return True


@asynccontextmanager
async def indexed(roots: Sequence[str], cache_dir: Path) -> AsyncIterator[DiskIndex]:
    yield DiskIndex(roots[0])


async def load_fake(*_: object) -> Heart:
    return fake_heart(lambda prompt, heal: "each, with_tax=order.taxed) for each in order)\n")[0]


def test_the_whole_run_goes_on_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Heart, "load", load_fake)
    monkeypatch.setattr(holes, "indexed", indexed)
    root, out = written(tmp_path / "ws"), tmp_path / "out.jsonl"
    command = ["--root", str(root), "--n", "2", "--budget", "400", "--out", str(out), "--json"]
    assert holes.main(command) == 0
    first = json.loads(capsys.readouterr().out)
    part = first["sets"]["real"]["400"]
    assert first["n"] == 2 and set(part) >= {"file_only", "full", "only_full", "only_file"}
    assert set(part["full"]) >= {"exact", "edit_similarity", "undefined"}
    rows = [json.loads(line)["result"] for line in out.read_text().splitlines()[1:]]
    assert all(row["file_only"]["pieces"] == 0 < row["full"]["pieces"] for row in rows)
    assert all(row[arm]["prompt"] <= 400 for row in rows for arm in holes.ARMS)
    assert len(rows) == 4 and [row["full"]["pieces"] for row in rows[:2]] == [row["full"]["pieces"] for row in rows[2:]]

    async def load_nothing(*_: object) -> Heart:
        raise AssertionError("all is known already")

    monkeypatch.setattr(Heart, "load", load_nothing)
    assert holes.main(command[:-1]) == 0
    assert "file_only" in capsys.readouterr().out
    assert holes.main([*command, "--seed", "8"]) == 1
    assert "another run" in capsys.readouterr().err


def test_plans_alone_say_whether_what_is_needed_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(holes, "model_of", lambda *_: Model(VOCAB, "fake", 40))
    monkeypatch.setattr(holes_plan, "indexed", indexed)
    out = tmp_path / "out.jsonl"
    command = ["--root", str(written(tmp_path / "ws")), "--n", "2", "--budget", "600", "40", "--out", str(out), "--plan-only"]
    assert holes.main([*command, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    for name in holes.SETS:
        assert (made["sets"][name]["600"]["recall"], made["sets"][name]["40"]["recall"]) == (1.0, 0.0)
        assert made["sets"][name]["600"]["tokens"]["reference"] > 0 == made["sets"][name]["40"]["tokens"]["reference"]
    rows = [json.loads(line)["result"] for line in out.read_text().splitlines()[1:]]
    assert all(squeeze(row["want"].encode()) not in squeeze(row["text"].encode()) and row["prompt"] <= 600 for row in rows)
    assert holes.main([*command[:-3], "--plan-only"]) == 0
    assert "real 600" in capsys.readouterr().out
