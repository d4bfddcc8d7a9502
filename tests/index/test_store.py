"""The store: what is put in comes out, what is deleted leaves nothing, and what lies there may be anything."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context.symbols import Definition, FileSymbols, Import, Use
from lsp_server.index import place, schema
from lsp_server.index.place import Place, Trouble, place_of
from lsp_server.index.reader import Reader
from lsp_server.index.rows import Fresh, Gone, Stamp, State, Task, Urgency, What, is_same
from lsp_server.index.schema import Broken
from lsp_server.index.store import Store
from tests.index.conftest import House

ROOT = "/w/app"
STAMP = Stamp(1, 2, 3)

_NAMES = st.sampled_from(["a", "b", "helper", "ünï", "🦊", "x" * 300, "with\x1fodd"])
_SCOPES = st.lists(_NAMES, max_size=2).map(tuple)
_DEFINITIONS = st.builds(
    Definition, _NAMES, st.sampled_from(["function", "class"]), st.integers(0, 9), st.integers(10, 99), st.integers(0, 9),
    st.integers(10, 99), st.text(max_size=9), st.text(max_size=9), _SCOPES,
)  # fmt: skip
_USES = st.builds(Use, _NAMES, st.integers(0, 99), st.booleans(), _SCOPES)
_IMPORTS = st.builds(
    Import, _NAMES, st.sampled_from(["", "*", "f"]), st.just(""), st.integers(0, 2), st.integers(0, 9), st.integers(0, 9)
)
_SYMBOLS = st.builds(
    lambda definitions, imports, uses, is_broken: FileSymbols(
        "python", tuple(sorted(definitions, key=lambda each: each.start)), tuple(sorted(imports, key=lambda each: each.start)),
        tuple(uses), 100, is_broken,
    ),
    st.lists(_DEFINITIONS, max_size=3), st.lists(_IMPORTS, max_size=2), st.lists(_USES, max_size=5), st.booleans(),
)  # fmt: skip
_PATHS = st.sampled_from(["a.py", "b.py", "d/a.py", "d/e/a.py", "d0.py", "d.py", "d-x/a.py"])
_STEPS = st.lists(st.tuples(_PATHS, st.none() | _SYMBOLS), max_size=6)


def fresh(path: str, symbols: FileSymbols, digest: bytes = b"1") -> Fresh:
    return Fresh(path, STAMP, digest, "python", symbols=symbols)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=_STEPS)
def test_answers_are_those_of_what_was_put_last(steps: list[tuple[str, FileSymbols | None]], tmp_path_factory: object) -> None:
    directory = tmp_path_factory.mktemp("s").resolve()  # type: ignore[attr-defined]
    where = place_of(directory, ROOT)
    place.make_private(where.directory)
    store, reader = Store(schema.create_or_open(where)), Reader(where, ROOT)
    want: dict[str, FileSymbols] = {}
    for path, symbols in steps:
        store.put([Gone(path) if symbols is None else fresh(path, symbols)])
        if symbols is None:
            want.pop(path, None)
        else:
            want[path] = symbols
    for path, symbols in want.items():
        row = reader.symbols_in(f"{ROOT}/{path}")
        assert row is not None
        assert (row.definitions, row.imports) == (symbols.definitions, symbols.imports)
        assert (row.is_broken, row.path) == (symbols.is_broken, f"{ROOT}/{path}")
    for name in ("a", "helper", "🦊"):
        defined = [(each.path, each.definition) for each in reader.definitions_of(name)]
        assert defined == [
            (f"{ROOT}/{path}", each) for path in sorted(want) for each in want[path].definitions if each.name == name
        ]  # fmt: skip
        uses = {each.path: (each.n_uses, each.n_calls) for each in reader.uses_of(name)}
        counted = {path: [use.is_call for use in symbols.uses if use.name == name] for path, symbols in want.items()}
        assert uses == {f"{ROOT}/{path}": (len(calls), sum(calls)) for path, calls in counted.items() if calls}
    used = {use.name for symbols in want.values() for use in symbols.uses if len(use.name) <= 200}
    defined_ = {each.name for symbols in want.values() for each in symbols.definitions}
    assert {name for (name,) in store._db.execute("SELECT name FROM names")} == used | defined_
    reader.close()
    store.close()


def symbols(name: str) -> FileSymbols:
    one = Definition(name, "function", 0, 9, 4, 9, f"def {name}()", f"about {name}", (f"in_{name}",))
    return FileSymbols(
        "python", (one,), (Import(f"from_{name}", "", "", 0, 0, 1),), (Use(f"by_{name}", 1, True, ()),), 9, False
    )


def test_nothing_stays_of_what_is_deleted(house: House) -> None:
    store = house.open()
    store.put([fresh(f"s/{n}.py", symbols(f"zz_not_real_{n}")) for n in range(30)])
    store.put([fresh("t.py", symbols("public"))])
    assert b"zz_not_real_7" in house.bytes()
    store.put([Gone("s")])
    store.tidy()
    assert b"zz_not_real" not in house.bytes()
    assert b"by_public" in house.bytes()
    store.close()


def test_a_folder_goes_with_what_is_below_and_nothing_beside(house: House) -> None:
    store = house.open()
    for path in ("d/x.py", "d/e/x.py", "d.py", "d0/x.py", "d-/x.py", "x.py"):
        store.put([fresh(path, symbols("f"))])
    store.put([Gone("d")])
    assert {each.path.removeprefix(f"{house.root}/") for each in house.reader().definitions_of("f")} == {
        "d.py", "d0/x.py", "d-/x.py", "x.py",
    }  # fmt: skip
    store.close()


def test_a_task_asked_for_again_meanwhile_stays(house: House) -> None:
    store = house.open()
    reader = house.reader()
    store.pend([("a.py", What.FILE), ("b.py", What.FILE)], Urgency.SCAN)
    tasks = store.tasks(9)
    assert reader.pend([("a.py", What.FILE)])
    store.put([], tasks)
    assert [(task.path, task.urgency) for task in store.tasks(9)] == [("a.py", Urgency.CHANGED)]
    assert reader.pend([("z", What.FOLDER)])
    assert store.tasks(1) == [Task("z", What.FOLDER, Urgency.CHANGED, 0)], "folders first"
    assert [task.path for task in store.tasks(9, only_changed_files=True)] == ["a.py"]
    reader.close()
    store.close()


def test_a_failed_transaction_leaves_what_was(house: House) -> None:
    store = house.open()
    store.put([fresh("a.py", symbols("f"))])
    with pytest.raises(AttributeError):
        store.put([Gone("a.py"), None])  # type: ignore[list-item]
    store.put([fresh("b.py", symbols("g"))])
    reader = house.reader()
    assert len(reader.definitions_of("f")) == len(reader.definitions_of("g")) == 1
    reader.close()
    store.close()


def test_a_file_changed_in_the_tick_in_which_it_was_read_is_not_sure() -> None:
    second = 1_000_000_000
    assert is_same(Stamp(5 * second, 9, 10 * second), 5 * second, 9)
    assert not is_same(Stamp(5 * second, 9, 6 * second), 5 * second, 9)
    assert not is_same(Stamp(5 * second, 9, 10 * second), 5 * second, 8)
    assert not is_same(Stamp(5 * second, 9, 10 * second), 6 * second, 9)


# --- the file


def spoil(where: Place, how: str) -> None:
    connection = schema.create_or_open(where)
    store = Store(connection)
    store.put([fresh("a.py", symbols("before"))])
    store.tidy()
    store.close()
    if how == "garbage":
        where.database.write_bytes(b"garbage" * 1000)
    elif how == "cut":
        os.truncate(where.database, 5000)
    elif how == "pages":
        connection = sqlite3.connect(where.database)
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'definitions'").fetchone()
        connection.close()
        data = bytearray(where.database.read_bytes())
        data[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
        where.database.write_bytes(data)
    else:
        other = sqlite3.connect(where.database)
        other.executescript({"foreign": "PRAGMA application_id=1", "other version": "PRAGMA user_version=99"}[how])
        other.close()


@pytest.mark.parametrize("how", ["garbage", "cut", "pages", "foreign", "other version"])
def test_what_is_no_store_is_set_aside(house: House, how: str) -> None:
    place.make_private(house.place.directory)
    spoil(house.place, how)
    spoilt = house.place.database.read_bytes()
    reader = house.reader()
    assert reader.definitions_of("before") == ()
    connection = None
    try:
        connection = schema.create_or_open(house.place)
        if how == "pages":  # only reading them shows it
            assert house.place.suspect.exists()
            assert not schema.is_sound(connection)
            raise Broken
    except Broken:
        if connection is not None:
            connection.close()
        schema.set_aside(house.place)
        connection = schema.create_or_open(house.place)
    assert house.place.broken.read_bytes()[:100] == spoilt[:100]
    assert connection is not None
    store = Store(connection)
    store.put([fresh("b.py", symbols("after"))])
    assert len(reader.definitions_of("after")) == 1, "who had the old one open finds the new one"
    reader.close()
    store.close()


def test_an_empty_or_missing_file_is_no_trouble(house: House) -> None:
    reader = house.reader()
    assert reader.definitions_of("f") == () and not reader.pend([("a", What.FILE)]) and reader.folders() == ()
    place.make_private(house.place.directory)
    house.place.database.touch()
    assert reader.definitions_of("f") == ()
    house.fill()
    assert reader.trouble == "" and reader.rules() == "r"
    reader.close()


def test_nobody_else_can_read_it(house: House) -> None:
    before = os.umask(0)
    try:
        store = house.open()
        store.put([fresh("a.py", symbols("f"))])
        modes = {path.suffix: path.stat().st_mode & 0o777 for path in house.place.directory.iterdir()}
    finally:
        os.umask(before)
    assert house.place.directory.stat().st_mode & 0o777 == 0o700
    assert set(modes.values()) == {0o600} and ".sqlite-wal" in modes
    store.close()


def test_a_directory_that_others_can_write_to_is_refused(house: House) -> None:
    house.place.directory.mkdir(parents=True)
    house.place.directory.chmod(0o777)
    with pytest.raises(Trouble, match=r"chmod 700"):
        place.make_private(house.place.directory)


def test_a_full_disk_is_told_with_what_to_do(house: House) -> None:
    store = house.open()
    store._db.execute("PRAGMA max_page_count = 40")
    with pytest.raises(Trouble, match=r"the disk is full; make room$"):
        try:
            for n in range(500):
                store.put([fresh(f"{n}.py", symbols(f"name_{n}" * 30))])
        except sqlite3.Error as error:
            schema.raise_meaning(error, house.place.database)
    assert house.reader().definitions_of("name_0" * 30)
    store.close()


def test_the_name_of_a_store(tmp_path: Path) -> None:
    assert place_of(tmp_path, "/w/My App!").stem.startswith("My-App-")
    assert place_of(tmp_path, "/").stem.startswith("root-")
    assert place_of(tmp_path, "/w/a") != place_of(tmp_path, "/v/a")


def test_stores_that_nobody_uses_are_removed(house: House) -> None:
    house.fill()
    place.sweep(house.place.directory)
    assert house.place.database.exists()
    later = house.place.database.stat().st_mtime + 100 * 86_400
    place.sweep(house.place.directory, later)
    assert [path.name for path in house.place.directory.iterdir() if path.name.startswith(house.place.stem)] == []


def test_failed_files_have_no_symbols(house: House) -> None:
    store = house.open()
    store.put([fresh("a.py", symbols("f"))])
    assert store.died("a.py", STAMP, "why") == 1
    assert house.reader().symbols_in(f"{house.root}/a.py") is None
    assert house.reader().counts() == {"parsed": 0, "skipped": 0, "failed": 1, "pending": 1}
    assert store.died("a.py", STAMP, "why") == 2
    assert house.reader().counts()["pending"] == 0
    store.put([Fresh("a.py", STAMP, b"2", "python", State.PARSED, symbols=symbols("g"))])
    assert store.n_deaths("a.py") == 0
    store.close()
