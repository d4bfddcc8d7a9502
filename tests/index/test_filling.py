"""Filling: ends with what is on the disk, whatever happened on the way."""

from __future__ import annotations

import os
import random
import shutil
from itertools import count
from pathlib import Path

import pytest

from context.symbols import FileSymbols, symbols_of
from lsp_server.index import filling as module
from lsp_server.index.filling import Unwanted
from lsp_server.index.rows import State, Urgency, What
from tests.index.conftest import House, write_all


def expected(house: House) -> set[str]:
    return {path.relative_to(house.root).as_posix() for path in house.root.rglob("*.py") if not path.is_symlink()}


def test_a_workspace_is_filled_and_only_once_parsed(house: House) -> None:
    parsed: list[bytes] = []

    def parse(language: str, data: bytes) -> FileSymbols:
        parsed.append(data)
        return symbols_of(language, data)

    house.parse = parse
    write_all(house.root, {"a.py": "def f(): pass\n", "d/b.py": "from a import f\nf()\n", "x.bin": "\0"})
    for path in house.root.rglob("*.py"):
        os.utime(path, ns=(10**18, 10**18))  # long ago: nobody doubts it
    house.fill()
    assert house.known() == {"a.py", "d/b.py"} and len(parsed) == 2
    reader = house.reader()
    assert [each.path for each in reader.definitions_of("f")] == [f"{house.root}/a.py"]
    assert [(each.path, each.n_calls) for each in reader.uses_of("f")] == [(f"{house.root}/d/b.py", 1)]
    assert reader.folders() == (str(house.root), f"{house.root}/d")
    house.fill()
    assert len(parsed) == 2
    os.utime(house.root / "a.py")
    house.fill()
    assert len(parsed) == 2, "touched, not changed"
    (house.root / "a.py").write_text("def g(): pass\n")
    house.fill("a.py")
    assert len(parsed) == 3
    assert not reader.definitions_of("f") and reader.definitions_of("g")
    reader.close()


def test_a_change_of_the_same_size_and_time_is_seen_when_somebody_tells(house: House) -> None:
    write_all(house.root, {"a.py": "def f(): pass\n"})
    house.fill()
    status = (house.root / "a.py").stat()
    (house.root / "a.py").write_text("def g(): pass\n")
    os.utime(house.root / "a.py", ns=(status.st_atime_ns, status.st_mtime_ns))
    house.fill("a.py")
    assert house.reader().definitions_of("g")


def test_what_becomes_private_is_deleted_from_the_disk(house: House) -> None:
    write_all(house.root, {"a.py": "def zz_one(): pass\n", "s/b.py": "def zz_two(): pass\n", "k/c.py": "zz_three()\n"})
    house.fill()
    assert all(secret in house.bytes() for secret in (b"zz_one", b"zz_two", b"zz_three"))
    write_all(house.root, {".midfillignore": "s/\n", ".gitignore": "k\n"})
    house.globs = (*house.globs, "a.py")
    house.fill()
    assert house.known() == set()
    assert not any(secret in house.bytes() for secret in (b"zz_one", b"zz_two", b"zz_three"))
    (house.root / ".gitignore").unlink()
    house.fill("k")
    assert house.known() == {"k/c.py"}


def test_private_files_never_get_in(house: House) -> None:
    write_all(
        house.root, {".env": "zz_not_real = 1\n", "id_rsa": "#!/bin/sh\nzz_not_real=1\n", "secrets.toml": "zz_not_real = 1\n"}
    )
    house.fill()
    house.fill(".env", "id_rsa", "secrets.toml")
    assert b"zz_not_real" not in house.bytes()


def test_what_is_skipped_is_told_and_not_read_again(house: House) -> None:
    write_all(house.root, {"g.py": "# @generated\ndef zz_gen(): pass\n", "b.py": "a\0b", "empty.py": ""})
    house.fill()
    assert house.known() == {"empty.py"}
    assert house.reader().counts() == {"parsed": 1, "skipped": 2, "failed": 0, "pending": 0}
    assert b"zz_gen" not in house.bytes()


def test_a_file_that_is_too_long_is_forgotten(house: House) -> None:
    write_all(house.root, {"a.py": "def f(): pass\n"})
    house.fill()
    (house.root / "a.py").write_text("x = 1\n" * 100_000)
    house.fill("a.py")
    assert house.known() == set()


def test_a_parser_that_raises_spoils_one_file(house: House) -> None:
    def parse(language: str, data: bytes) -> FileSymbols:
        if b"bad" in data:
            raise MemoryError
        return symbols_of(language, data)

    house.parse = parse
    write_all(house.root, {"a.py": "bad()\n", "b.py": "def f(): pass\n"})
    house.fill()
    assert house.known() == {"b.py"}
    assert house.reader().counts()["failed"] == 1
    (house.root / "a.py").write_text("good()\n")
    house.fill("a.py")
    assert house.known() == {"a.py", "b.py"}


def test_a_file_that_ends_the_process_is_tried_once_more_and_then_left(house: House) -> None:
    class Killed(BaseException):
        pass

    tried: list[bytes] = []

    def parse(language: str, data: bytes) -> FileSymbols:
        if b"kill" in data:
            tried.append(data)
            raise Killed
        return symbols_of(language, data)

    house.parse = parse
    write_all(house.root, {"a.py": "kill()\n", **{f"f{n}.py": f"def f{n}(): pass\n" for n in range(40)}})
    n_runs = 0
    while n_runs < 9:
        n_runs += 1
        try:
            house.fill()
            break
        except Killed:
            continue
    assert (n_runs, len(tried)) == (3, 2)
    assert house.known() == expected(house) - {"a.py"}
    house.fill("a.py")
    assert len(tried) == 2, "it is as it was"
    (house.root / "a.py").write_text("def better(): pass\n")
    house.fill()
    assert house.known() == expected(house)


def test_filling_pauses_while_a_request_is_open_but_changes_do_not_wait_for_ever(house: House) -> None:
    write_all(house.root, {f"f{n}.py": "x = 1\n" for n in range(5)})
    answers = iter([True] * 7 + [False] * 100)
    house.is_busy = lambda: next(answers)
    house.fill()
    assert len(house.slept) == 7 and house.known() == expected(house)

    house.slept.clear()
    house.is_busy = lambda: True
    (house.root / "f1.py").write_text("def changed(): pass\n")
    house.slept.clear()
    clock = count()
    store = house.open()
    filling = house.filling(store)
    object.__setattr__(filling._around, "clock", lambda: next(clock) * 0.1)
    store.pend([("f1.py", What.FILE)], Urgency.CHANGED)
    filling.work()
    assert 0 < len(house.slept) <= 20
    assert house.reader().definitions_of("changed")
    store.close()


def test_an_unwanted_process_leaves_the_rest_for_the_next(house: House) -> None:
    write_all(house.root, {f"f{n:03}.py": f"def f{n}(): pass\n" for n in range(60)})
    left = iter([True] * 40)
    house.is_wanted = lambda: next(left, False)
    with pytest.raises(Unwanted):
        house.fill()
    assert 0 < len(house.known()) < 60
    house.is_wanted = lambda: True
    house.fill(scan=False)
    assert house.known() == expected(house)


def test_what_changes_during_a_walk_is_not_lost(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file made in a folder that was walked already, and told of while the walk goes on."""
    monkeypatch.setattr(module, "_WALK_BATCH", 8)
    write_all(house.root, {f"d{n:03}/x.py": "x = 1\n" for n in range(12)})
    house.fill()
    store = house.open()
    filling = house.filling(store)
    store.pend([("", What.FOLDER)], Urgency.SCAN)
    take = filling._take
    n_taken = count()

    def taking(batch: object) -> None:
        take(batch)  # type: ignore[arg-type]
        if next(n_taken) == 0:
            write_all(house.root, {"d000/late.py": "def late(): pass\n"})
            store.pend([("d000/late.py", What.FILE)], Urgency.CHANGED)

    monkeypatch.setattr(filling, "_take", taking)
    filling.work()
    store.close()
    assert next(n_taken) > 2
    assert house.known() == expected(house)


def test_a_root_that_is_not_there_now_keeps_what_is_known(house: House) -> None:
    write_all(house.root, {"a.py": "def f(): pass\n"})
    house.fill()
    house.root.rename(house.root.parent / "away")
    house.fill()
    assert house.known() == {"a.py"}


@pytest.mark.parametrize("seed", range(2))
def test_after_any_changes_of_the_disk_the_store_is_what_a_new_one_would_be(house: House, seed: int) -> None:
    """Each step is told of, or comes with a look at everything."""
    dice = random.Random(seed)
    names = ["a.py", "b.py", "d/a.py", "d/e/b.py", "e/a.py", "d.py"]
    for _step in range(16):
        name = dice.choice(names)
        path = house.root / name
        act = dice.choice(["write", "write", "remove", "move", "folder", "link"])
        told = [name]
        if act == "write" and not path.is_dir():
            write_all(house.root, {name: f"def f{dice.randrange(9)}(): g{dice.randrange(9)}()\n"})
        elif act == "remove":
            remove(path)
        elif act == "move" and path.exists():
            other = dice.choice(names)
            if other != name:
                remove(house.root / other)
                (house.root / other).parent.mkdir(parents=True, exist_ok=True)
                path.rename(house.root / other)
                told.append(other)
        elif act == "folder":
            remove(path)
            write_all(house.root, {f"{name}/in.py": "def inner(): pass\n"})
        elif act == "link":
            remove(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(house.root / "a.py")
        if dice.random() < 0.8:
            house.fill(*told)
        elif dice.random() < 0.5:
            house.fill()
    house.fill()
    fresh = House(house.root, house.cache / "new")
    fresh.fill()
    assert tables(house) == tables(fresh)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def tables(house: House) -> dict[str, list[object]]:
    store = house.open()
    both = "JOIN files f ON f.id = file_id JOIN names n ON n.id = name_id"
    asked = {
        "files": "SELECT path, digest, language, state FROM files",
        "folders": "SELECT path FROM folders",
        "names": "SELECT name FROM names",
        "definitions": f"SELECT path, name, start FROM definitions {both}",
        "uses": f"SELECT path, name, n_uses FROM uses {both}",
        "pending": "SELECT path FROM pending",
    }
    try:
        return {name: sorted(store._db.execute(question).fetchall()) for name, question in asked.items()}
    finally:
        store.close()


def test_states_have_the_numbers_that_are_stored() -> None:
    assert [(state.name, int(state)) for state in State] == [("PARSED", 0), ("SKIPPED", 1), ("FAILED", 2)]
