"""What of the workspace comes first at a place, why, and that it stays put."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from context.ranking import MARGIN, DefinitionRow, Here, ImportedFile, NameUse, Ranked, names_near, rank
from context.symbol_types import FileSymbols, Use


def _row(path: str, name: str, kind: str = "function", **more: object) -> DefinitionRow:
    return DefinitionRow(path, name, kind, int(more.get("start", 0)), more.get("scope", ()), int(more.get("n_uses", 0)))  # type: ignore[arg-type,call-overload]


def _use(name: str, distance: int = 0, count: int = 1, n_calls: int = 0) -> NameUse:
    return NameUse(name, count, n_calls, distance)


def _order(ranked: tuple[Ranked, ...]) -> list[str]:
    return [f"{each.row.path}:{each.row.name}" for each in ranked]


def test_imported_by_name_comes_before_used_before_imported() -> None:
    here = Here(
        "app/a.py",
        names=(_use("load", 40), _use("near", 10), _use("far", 20_000)),
        imports=(ImportedFile("app/b.py", ("load",)),),
    )
    rows = [
        _row("lib/x.py", "far"),
        _row("app/b.py", "other"),
        _row("lib/x.py", "near"),
        _row("app/b.py", "load"),
        _row("lib/x.py", "unused"),
    ]
    ranked = rank(rows, here)
    assert _order(ranked) == ["app/b.py:load", "lib/x.py:near", "app/b.py:other", "lib/x.py:far"]
    assert [each.reason for each in ranked] == [
        "used at the cursor; imported by name; in the same folder",
        "used at the cursor",
        "its file is imported; in the same folder",
        "used in this file",
    ]


def test_what_speaks_against_a_row() -> None:
    here = Here("app/a.py", names=(_use("run"), _use("_hidden"), _use("own"), _use("many")), own_names=frozenset({"own"}))
    rows = [_row("x/p.py", "run"), _row("tests/t.py", "many", scope=("f",)), _row("x/p.py", "_hidden")]
    rows += [_row("x/p.py", "own"), _row("x/p.py", "many"), _row("y/p.py", "many")]
    points = {f"{each.row.path}:{each.row.name}": each.points for each in rank(rows, here)}
    plain = points["x/p.py:run"]
    for name in ("x/p.py:_hidden", "x/p.py:own", "x/p.py:many", "tests/t.py:many"):
        assert points[name] < plain
    assert points["tests/t.py:many"] < points["x/p.py:many"] == points["y/p.py:many"]
    assert (
        rank([_row("tests/t.py", "run")], Here("tests/u.py", names=(_use("run"),)))[0].points
        > rank([_row("tests/t.py", "run")], here)[0].points
    )


def test_members_of_a_class_that_is_used() -> None:
    here = Here("a.py", names=(_use("Store"),))
    ranked = rank(
        [
            _row("s.py", "get", "method", scope=("Store",)),
            _row("s.py", "get", "method", scope=("Other",)),
            _row("s.py", "Store", "class"),
        ],
        here,
    )
    assert _order(ranked) == ["s.py:Store", "s.py:get"]
    assert ranked[1].reason == "member of Store, which is used here; in the same folder"


def test_open_files_by_how_recent_they_are() -> None:
    here = Here("a/a.py", names=(_use("f"),), open_paths=("x/new.py", "x/old.py"))
    assert _order(rank([_row("x/closed.py", "f"), _row("x/old.py", "f"), _row("x/new.py", "f")], here)) == [
        "x/new.py:f",
        "x/old.py:f",
        "x/closed.py:f",
    ]


def test_called_often_and_known_counts() -> None:
    here = Here("a.py", names=(_use("called", n_calls=1), _use("used"), _use("often", count=9), _use("known")))
    rows = [_row("x/m.py", "used"), _row("x/m.py", "known", n_uses=20), _row("x/m.py", "called"), _row("x/m.py", "often")]
    assert _order(rank(rows, here)) == ["x/m.py:often", "x/m.py:called", "x/m.py:known", "x/m.py:used"]


def test_at_most_so_many() -> None:
    here = Here("a.py", names=tuple(_use(f"n{i}") for i in range(300)))
    assert len(rank([_row("x.py", f"n{i}", start=i) for i in range(300)], here, n_max=7)) == 7


def test_names_near_a_cursor() -> None:
    uses = (Use("a", 0, True, ()), Use("bé", 100, False, ()), Use("a", 200, False, ()), Use("far", 90_000, False, ()))
    near = names_near(FileSymbols("python", (), (), uses, 100_000, False), 150)
    assert near == (NameUse("a", 2, 1, 50), NameUse("bé", 1, 0, 47))


_NAMES = ["load", "store", "run", "Thing", "_x", "get"]
_ROWS = st.builds(
    DefinitionRow,
    st.sampled_from(["app/a.py", "app/b.py", "lib/c.py", "tests/d.py"]),
    st.sampled_from(_NAMES),
    st.sampled_from(["function", "method", "class", "field", "variable"]),
    st.integers(0, 3),
    st.sampled_from([(), ("Thing",)]),
    st.integers(0, 2000),
)
_USE = st.builds(NameUse, st.sampled_from(_NAMES), st.integers(1, 9), st.integers(0, 3), st.integers(0, 5000))
_USES = st.lists(_USE, max_size=6, unique_by=lambda use: use.name)


def _here(uses: list[NameUse]) -> Here:
    return Here("app/a.py", tuple(uses), frozenset({"run"}), (ImportedFile("app/b.py", ("load",)),), ("lib/c.py",))


@settings(max_examples=60, deadline=None)
@given(st.lists(_ROWS, max_size=20), _USES, st.integers(0, 99), st.integers(-40, 40))
def test_the_order_is_of_the_values_and_stands_while_the_cursor_moves_a_little(
    rows: list[DefinitionRow], uses: list[NameUse], seed: int, step: int
) -> None:
    ranked = rank(rows, _here(uses))
    assert [each.points for each in ranked] == sorted((each.points for each in ranked), reverse=True)
    shuffled = rows + rows[:3]
    random.Random(seed).shuffle(shuffled)
    assert rank(shuffled, _here(uses)) == ranked
    moved = [NameUse(use.name, use.count, use.n_calls, max(0, use.distance + step)) for use in uses]
    after = rank(rows, _here(moved), previous=ranked)
    assert _order(after) == _order(ranked) and [each.row for each in after] == [each.row for each in ranked]


def test_a_row_that_is_clearly_ahead_overtakes() -> None:
    rows = [_row("x.py", "a"), _row("x.py", "b"), _row("x.py", "c")]
    first = rank(rows, Here("m.py", names=(_use("a", 0), _use("b", 100), _use("c", 200))))
    assert _order(first) == ["x.py:a", "x.py:b", "x.py:c"]
    then = rank(rows, Here("m.py", names=(_use("a", 700), _use("b", 600), _use("c", 0))), previous=first)
    assert _order(then) == ["x.py:c", "x.py:a", "x.py:b"]
    assert then[1].points < then[2].points <= then[1].points + MARGIN
    new = rank(
        [*rows, _row("x.py", "d")],
        Here("m.py", names=(_use("a", 700), _use("b", 600), _use("c", 0), _use("d", 0))),
        previous=then,
    )
    assert _order(new) == ["x.py:c", "x.py:d", "x.py:a", "x.py:b"]
