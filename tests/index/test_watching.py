"""Changes of the disk: heard of, gathered, passed on; and what is done where the system can't tell."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lsp_server.index import watching
from lsp_server.index.changes import BURST_S, GATHER_S, MOST, MOST_S, Changes
from lsp_server.index.keeper import Keeper
from lsp_server.index.rows import What
from lsp_server.index.watching import FolderWatch, Limit, TreeWatch, Watch, is_of_interest, open_watch
from tests.index.conftest import House, write_all
from tests.index.test_worker import HANG_S, until

linux = pytest.mark.skipif(sys.platform != "linux", reason="inotify")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


# --- gathering


def test_what_belongs_together_is_passed_on_once() -> None:
    clock = Clock()
    changes = Changes(clock)
    woken: list[bool] = []
    changes.on_first = lambda: woken.append(True)
    assert changes.due_s() is None
    for path in ("a.py", ".a.py.tmp", "a.py"):
        changes.note(path)
    changes.note("d", What.FOLDER)
    changes.note("d")
    assert (changes.due_s(), len(woken)) == (GATHER_S, 1)
    clock.now = GATHER_S
    assert changes.due_s() == 0
    assert changes.take() == [("a.py", What.FILE), (".a.py.tmp", What.FILE), ("d", What.FOLDER)]
    assert changes.due_s() is None and changes.take() == []


def test_a_burst_becomes_one_look_at_everything_when_it_is_over() -> None:
    clock = Clock()
    changes = Changes(clock)
    for n in range(10 * MOST):
        clock.now += 0.0001
        changes.note(f"{n}.py")
    assert changes.due_s() == pytest.approx(BURST_S)
    clock.now += 0.3
    changes.note("late.py")
    assert changes.due_s() == pytest.approx(BURST_S)
    while (due := changes.due_s()) and clock.now < 99:
        clock.now += min(due, 0.2)
        changes.note("again.py")
    assert MOST_S <= clock.now < MOST_S + 1, "one that does not end is passed on all the same"
    assert changes.take() == [("", What.FOLDER)]
    changes.note("a.py")
    assert changes.take() == [("a.py", What.FILE)], "afterwards single changes count again"
    changes.note_all()
    assert changes.take() == [("", What.FOLDER)]


def test_rules_mean_their_folder_and_gits_own_files_nothing() -> None:
    changes = Changes()
    for path in ("d/.gitignore", "e/.midfillignore", ".git/index", ".git", "x/.git/HEAD", ".gitignore"):
        changes.note(path)
    assert changes.take() == [("d", What.FOLDER), ("e", What.FOLDER), ("", What.FOLDER)]


def test_names_of_interest() -> None:
    assert all(map(is_of_interest, ("a.py", "Makefile", ".gitignore", "run")))
    assert not any(map(is_of_interest, ("a.py~", ".a.py.swp", "4913.tmp", "picture.png")))


# --- the system


@contextmanager
def watched(house: House, kind: Callable[..., Watch] = open_watch) -> Iterator[tuple[Any, dict[str, What]]]:
    heard: dict[str, What] = {}
    arguments = (str(house.root), heard.__setitem__, lambda: heard.setdefault("", What.FOLDER))
    watch = kind(*arguments[: 2 if kind is TreeWatch else 3])
    try:
        yield watch, heard
    finally:
        watch.close()


@linux
def test_folders_that_count_are_watched_and_no_others(house: House) -> None:
    write_all(house.root, {"a/x.py": "", "node_modules/m/i.js": ""})
    with watched(house) as (watch, heard):
        assert watch.sync(["", "a", "gone"]) == ["", "a"]
        assert watch.n_watches == 2
        write_all(house.root, {"node_modules/m/j.js": "", "a/y.py": "", "a/y.py~": ""})
        until(lambda: "a/y.py" in heard)
        (house.root / "a" / "tmp.py").write_text("atomic")
        (house.root / "a" / "tmp.py").replace(house.root / "a" / "x.py")
        until(lambda: "a/x.py" in heard)
        (house.root / "new").mkdir()
        until(lambda: heard.get("new") is What.FOLDER)
        assert not any("node_modules" in path or path.endswith("~") for path in heard)
        assert watch.sync(["", "new"]) == ["new"] and watch.n_watches == 2
        heard.clear()
        (house.root / "a" / "z.py").write_text("")
        (house.root / "new" / "z.py").write_text("")
        until(lambda: "new/z.py" in heard)
        assert "a/z.py" not in heard


@linux
def test_a_folder_that_moves_is_heard_of_under_its_new_name(house: House) -> None:
    write_all(house.root, {"a/x.py": ""})
    with watched(house) as (watch, heard):
        watch.sync(["", "a"])
        (house.root / "a").rename(house.root / "b")
        until(lambda: {"a", "b"} <= heard.keys())
        assert watch.sync(["", "b"]) == ["b"]
        (house.root / "b" / "x.py").write_text("new")
        until(lambda: "b/x.py" in heard)
        shutil.rmtree(house.root / "b")
        until(lambda: watch.n_watches == 1)
        assert "a/x.py" not in heard


@linux
def test_lost_events_are_told(house: House) -> None:
    from watchdog.observers.inotify_c import InotifyConstants, InotifyEvent, WatchDescriptor

    with watched(house) as (watch, heard):
        watch.sync([""])
        watch._system.handle_event(InotifyEvent(WatchDescriptor(-1), InotifyConstants.IN_Q_OVERFLOW, 0, b""))
        assert heard == {"": What.FOLDER}


def test_where_whole_trees_are_watched(house: House) -> None:
    write_all(house.root, {"a/x.py": "", "node_modules/m/i.js": ""})
    with watched(house, TreeWatch) as (watch, heard):
        assert watch.sync(["", "a"]) == ["a"]
        write_all(house.root, {"node_modules/m/j.js": "", "a/y.py": ""})
        until(lambda: "a/y.py" in heard)
        assert not any("node_modules/" in path for path in heard)


# --- where the system can't tell (file-watching-01)


@linux
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE])
def test_limits_are_told_with_the_name_of_the_sysctl(house: House, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from watchdog.observers.inotify_c import InotifyFD

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with watched(house) as (watch, _):
        monkeypatch.setattr(InotifyFD, "add_callback", refuse)
        with pytest.raises(Limit, match=watching.SYSCTL[number]):
            watch.sync([""])
    monkeypatch.setattr(InotifyFD, "__init__", refuse)
    with pytest.raises(Limit, match=watching.SYSCTL[number]):
        open_watch(str(house.root), lambda *_: None, lambda: None)


class Deaf:
    """A system that gives no watches, from the beginning or later."""

    def sync(self, folders: Iterable[str]) -> list[str]:
        raise watching.limit_of(OSError(errno.ENOSPC, ""))

    def close(self) -> None:
        pass


def refusing(*_: object) -> Watch:
    raise watching.limit_of(OSError(errno.EMFILE, ""))


@pytest.mark.parametrize("opening", [refusing, lambda *_: Deaf()])
def test_without_watches_everything_is_looked_at_now_and_then(house: House, opening: Callable[..., Watch]) -> None:
    write_all(house.root, {"a.py": "def f(): pass\n"})
    house.fill()
    told: list[str] = []
    reader = house.reader()
    keeper = Keeper(str(house.root), house.reader(), lambda: None, told.append, opening, poll_s=0.05)
    keeper.start()
    try:
        until(reader.is_anything_pending)
        house.fill(scan=False)
        until(reader.is_anything_pending)
    finally:
        keeper.close()
        keeper.join(HANG_S)
    assert len(told) == 1 and "sysctl" in told[0]
    reader.close()


def test_what_is_noted_while_there_is_no_store_is_not_waited_for(house: House) -> None:
    keeper = Keeper(str(house.root), house.reader(), lambda: None, lambda _: None, lambda *_: Deaf())
    keeper.start()
    keeper.changes.note("a.py")
    until(lambda: keeper.changes.due_s() is None)
    keeper.close()
    keeper.join(HANG_S)


class Recording:
    """A system that watches what it is told to and never hears anything."""

    def __init__(self) -> None:
        self.folders: set[str] = set()

    def sync(self, folders: Iterable[str]) -> list[str]:
        new = sorted(set(folders) - self.folders)
        self.folders |= set(new)
        return new

    def close(self) -> None:
        pass


def test_what_came_into_a_new_folder_before_it_was_watched_is_looked_for(house: House) -> None:
    write_all(house.root, {"a.py": ""})
    house.fill()
    watch = Recording()
    needed: list[bool] = []
    keeper = Keeper(str(house.root), house.reader(), lambda: needed.append(True), lambda _: None, lambda *_: watch)
    keeper.start()
    reader = house.reader()
    try:
        until(lambda: needed)
        assert watch.folders == {""} and not reader.is_anything_pending(), "the first look finds what there is by itself"
        write_all(house.root, {"new/b.py": ""})
        house.fill("new")
        write_all(house.root, {"new/late.py": "def late(): ...\n"})  # nobody hears of it
        keeper.filled()
        until(lambda: watch.folders == {"", "new"} and reader.is_anything_pending())
        house.fill(scan=False)
        assert reader.definitions_of("late")
        write_all(house.root, {f"many{n}/c.py": "" for n in range(40)})
        house.fill()
        keeper.filled()
        until(reader.is_anything_pending)
        store = house.open()
        assert [task.path for task in store.tasks(9)] == [""], "of many new folders, everything is looked at"
        store.close()
    finally:
        keeper.close()
        keeper.join(HANG_S)
        reader.close()


@linux
def test_the_keeper_passes_changes_on_and_watches_new_folders(house: House) -> None:
    write_all(house.root, {"a.py": "def f(): pass\n"})
    house.fill()
    needed: list[bool] = []
    made: list[FolderWatch] = []

    def opening(*arguments: Any) -> Watch:
        made.append(FolderWatch(*arguments))
        return made[0]

    keeper = Keeper(str(house.root), house.reader(), lambda: needed.append(True), lambda _: None, opening)
    keeper.start()
    reader = house.reader()
    try:
        until(lambda: made and made[0].n_watches == 1)
        house.fill(scan=False)
        write_all(house.root, {"new/deep/b.py": "def g(): pass\n"})
        until(lambda: needed and reader.is_anything_pending())
        house.fill(scan=False)
        until(lambda: made[0].n_watches == 3)
        house.fill(scan=False)
        (house.root / "new" / "deep" / "b.py").write_text("def h(): pass\n")

        def is_seen() -> bool:
            house.fill(scan=False)
            return bool(reader.definitions_of("h"))

        until(is_seen)
    finally:
        keeper.close()
        keeper.join(HANG_S)
        reader.close()
