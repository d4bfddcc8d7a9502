"""The directory of saved prompts: what is kept and what goes, several processes, and everything a disk can do."""

from __future__ import annotations

import os
import pickle
import signal
import sqlite3
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inference.prompt_cache import rows
from inference.prompt_cache.place import ASIDE, DATABASE, LOCK, PlaceError
from inference.prompt_cache.raw_disk import RawDisk, RefusedValueError
from inference.prompt_cache.store import Put
from inference.prompt_cache.trouble import StoreError, Trouble
from tests.support.saved_prompts import NOW, OF, OTHER, Kept, entry, mounting, record, run_python, value_files

posix = pytest.mark.skipif(os.name == "nt", reason="no modes, no owners")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "prompts"


def test_what_is_put_is_there_also_for_the_next_one(place: Path) -> None:
    kept = Kept(place)
    assert kept.said == "" and kept.put(1) is Put.STORED and kept.has(1) and not kept.has(2)
    again = Kept(place)
    assert again.said == "" and again.has(1)
    (listed,) = again.store.listed(OF)
    assert listed.entry == replace(entry(record(1))[0], used_at=NOW)
    assert again.store.listed(OTHER) == [] and again.store.get(OTHER, listed.entry.path) is None
    assert again.has(1), "another model's miss removes nothing of this one's"
    again.store.remove(OF, listed.entry.path)
    assert kept.get(1) is None and value_files(place) == [] and kept.store.listed() == []


def test_one_that_has_grown_takes_the_place_of_its_beginning(place: Path) -> None:
    kept = Kept(place)
    kept.put(1, 300)
    kept.put(1, 400, instead=(entry(record(1, 300))[0].path,))
    assert kept.has(1, 400) and kept.get(1, 300) is None and len(value_files(place)) == 1


def test_the_least_worth_goes_first_and_the_whole_stays_within_the_limit(place: Path) -> None:
    size = record(0).n_bytes
    kept = Kept(place, 3 * size)
    for i in range(3):
        kept.put(i)
        kept.now += 60
    kept.store.touch(OF, replace(entry(record(0))[0], used_at=kept.now, n_used=1))
    assert kept.put(3) is Put.STORED and [kept.has(i) for i in range(4)] == [True, False, True, True]
    kept.now += 30 * 86_400
    kept.put(4, n=280)  # fewer tokens
    assert kept.has(4, 280) and kept.n_bytes <= 3 * size
    assert [kept.has(i) for i in range(4)] == [True, False, False, True]


def test_capacity_is_what_was_set_and_one_that_is_larger_is_refused(place: Path) -> None:
    kept = Kept(place, 4_000_000)
    for i in range(8):
        assert kept.put(i, n_state=600_000) is Put.STORED and kept.has(i, n_state=600_000)
        assert kept.n_bytes <= 4_000_000
    assert len(kept.store.listed()) == 6
    assert kept.put(9, n_state=4_000_000) is Put.TOO_LARGE
    assert len(kept.store.listed()) == 6, "nothing makes place for what has none"


def test_the_disk_keeps_half_of_what_it_has_left(place: Path) -> None:
    kept = Kept(place, 1 << 30, free=2 * record(0).n_bytes)
    assert kept.put(1) is Put.STORED
    assert kept.store.limit_bytes() == 2 * record(0).n_bytes
    assert kept.put(2, n_state=6000) is Put.TOO_LARGE


def test_no_more_than_so_much_is_written_within_an_hour_by_all_processes(place: Path) -> None:
    size = record(0).n_bytes
    one, other = Kept(place, hourly_bytes=3 * size), Kept(place, hourly_bytes=3 * size)
    assert one.put(1) is other.put(2) is one.put(3) is Put.STORED
    assert one.put(4) is other.put(5) is Put.TOO_MUCH and one.get(4) is None
    other.now += 3700
    assert other.put(5) is Put.STORED
    with sqlite3.connect(place / DATABASE) as connection:
        (n,) = connection.execute("SELECT count(*) FROM Cache WHERE substr(key, 1, 1) = x'77'").fetchone()
    assert n == 1, "slots of the hour before are gone"


# -- nothing is unpickled


class Pwned:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_a_pickle_in_whatever_place_is_a_miss_and_goes(place: Path, tmp_path: Path) -> None:
    pwned = tmp_path / "pwned"
    bomb = pickle.dumps(Pwned(pwned))
    kept = Kept(place)
    for i in range(5):
        kept.put(i)
    with sqlite3.connect(place / DATABASE) as connection:
        for i, change in enumerate((
            ("mode = 4, value = ?, filename = NULL", bomb), ("mode = 4, value = ?", None), ("mode = 3, value = ?", None),
            ("mode = 1, value = ?, filename = NULL", bomb),
        )):  # fmt: skip
            key = rows.state(OF, entry(record(i))[0].path)
            connection.execute(f"UPDATE Cache SET {change[0]} WHERE key = ?", (change[1], key))
        connection.execute("INSERT INTO Cache (key, raw, mode, value) VALUES (?, 0, 4, ?)", (b"a" + bomb, bomb))
    for file in value_files(place):
        file.write_bytes(bomb)
    again = Kept(place)
    assert [again.get(i) for i in range(3)] == [None] * 3
    assert again.get(3) == again.get(4) == bomb, "bytes like any others, which no checksum fits"
    assert {each.entry.path for each in again.store.listed()} == {entry(record(i))[0].path for i in (3, 4)}
    again.store.sweep()
    assert not pwned.exists()


def test_only_bytes_and_numbers_are_stored(tmp_path: Path) -> None:
    disk = RawDisk(os.fspath(tmp_path))
    for value in ("text", 1.5, None, ["x"], {"a": 1}, True):
        with pytest.raises(TypeError):
            disk.store(value, False)
    for key in ("text", 1, ("a",)):
        with pytest.raises(TypeError):
            disk.put(key)
    assert disk.get(b"\x80\x04.", 0) == b""


@posix
def test_files_are_read_only_from_where_they_lie(place: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    kept = Kept(place)
    for name in ("../../secret", os.fspath(secret), "aa/bb/../../../secret", f"aa/bb/{'0' * 28}.val/../x", None, 7):
        with pytest.raises(RefusedValueError):
            kept.store._opened().disk.fetch(2, name, None, False)
        kept.store._opened().disk.remove(name)
    assert secret.read_bytes() == b"secret"
    for i, swap in enumerate(("file", "directory", "pipe")):
        kept.put(i)
        (file,) = [f for f in value_files(place) if not f.is_symlink() and f.parent.parent.name not in ("moved",)][-1:]
        if swap == "directory":
            file.parent.rename(tmp_path / "moved")
            file.parent.symlink_to(tmp_path / "moved")
        else:
            file.unlink()
            file.symlink_to(secret) if swap == "file" else os.mkfifo(file)
        assert kept.get(i) is None
        kept.store.remove(OF, entry(record(i))[0].path)
        if swap == "directory":
            file.parent.unlink()
    assert secret.exists()


# -- whose it is


@posix
def test_it_is_private_whatever_the_umask(place: Path) -> None:
    before = os.umask(0)
    try:
        Kept(place).put(1)
    finally:
        os.umask(before)
    modes = {p.relative_to(place): stat.S_IMODE(p.lstat().st_mode) for p in (place, *place.rglob("*"))}
    assert value_files(place)
    assert all(mode == (0o700 if (place / p).is_dir() else 0o600) for p, mode in modes.items()), modes


@posix
@pytest.mark.parametrize("how", ["writable", "link", "file", "foreign", "foreign database", "linked database", "open parent"])
def test_a_place_that_is_not_ones_own_is_refused(
    how: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.parent.mkdir(mode=0o700)
    if how == "writable":
        place.mkdir()
        place.chmod(0o777)
    elif how == "link":
        (tmp_path / "shared").mkdir(mode=0o700)
        place.symlink_to(tmp_path / "shared")
    elif how == "file":
        place.write_text("")
    elif how == "open parent":
        place.mkdir(mode=0o700)
        place.parent.chmod(0o777)
    elif how == "linked database":
        place.mkdir(mode=0o700)
        (tmp_path / "elsewhere").write_bytes(b"")
        (place / DATABASE).symlink_to(tmp_path / "elsewhere")
    elif os.geteuid() == 0:
        Kept(place).put(1)
        os.chown(place if how == "foreign" else place / DATABASE, 65534, -1)
    else:
        place.mkdir(mode=0o700)
        monkeypatch.setattr(os, "geteuid", lambda: place.stat().st_uid + 1)

    def held() -> list[Path]:
        return sorted(set(place.iterdir()) - {place / LOCK}) if place.is_dir() else []

    before = held()
    with pytest.raises(PlaceError, match="no prompts are saved"):
        Kept(place)
    assert held() == before


@posix
def test_what_others_could_only_read_is_closed_to_them(place: Path) -> None:
    place.mkdir(parents=True)
    place.chmod(0o755)
    assert Kept(place).put(1) is Put.STORED
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


# -- what a disk can do


@pytest.mark.parametrize("how", ["middle", "cut", "text", "table", "setting", "columns", "empty"])
def test_a_database_that_is_not_sound_is_set_aside_once(how: str, place: Path) -> None:
    kept = Kept(place)
    for i in range(30):
        kept.put(i)
    kept.store.close()
    path = place / DATABASE
    data = path.read_bytes()
    if how == "middle":
        path.write_bytes(data[: len(data) // 2] + b"\xa5" * 4096 + data[len(data) // 2 + 4096 :])
    elif how in ("cut", "text", "empty"):
        path.write_bytes({"cut": data[:100], "text": b"this is no database\n" * 40, "empty": b""}[how])
    else:
        with sqlite3.connect(path) as connection:
            connection.executescript({
                "table": "CREATE TRIGGER more AFTER INSERT ON Cache BEGIN DELETE FROM Settings; END",
                "setting": "INSERT INTO Settings VALUES ('disk_directory', '/')",
                "columns": "DROP TABLE Settings; CREATE TABLE Settings (a)",
            }[how])  # fmt: skip
        connection.close()
    again = Kept(place)
    assert bool(again.said) is (how != "empty") is (place / ASIDE).exists()
    assert again.store.listed() == [] and again.put(1) is Put.STORED and again.has(1)
    again.store.close()
    assert Kept(place).said == "" and Kept(place).has(1)
    # what the lost index knew of goes when nobody can be writing it any more
    for file in value_files(place):
        os.utime(file, (NOW - 3600, NOW - 3600))
    assert Kept(place).store.sweep() == 30
    assert Kept(place).has(1)


def test_what_a_killed_writer_has_left_goes_later(place: Path) -> None:
    code = """if True:
        import os, signal, sys
        from pathlib import Path
        from inference.prompt_cache import raw_disk
        from tests.support.saved_prompts import Kept
        where = sys.argv[2]
        kept = Kept(Path(sys.argv[1]))
        kept.put(1)
        write, cache = raw_disk._write_all, kept.store._opened()
        def dies_in_the_file(file, part):
            write(file, part[: len(part) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        put = cache.set
        def dies_before_the_list(key, value):
            put(key, value)
            os.kill(os.getpid(), signal.SIGKILL)
        if where == "file":
            raw_disk._write_all = dies_in_the_file
        else:
            kept.store._opened().set = dies_before_the_list
        kept.put(2)
    """
    root = Path(__file__).resolve().parent.parent.parent
    for where in ("file", "list"):
        done = subprocess.run([sys.executable, "-c", code, os.fspath(place), where], cwd=root, capture_output=True, timeout=60)
        assert done.returncode == -signal.SIGKILL, done.stderr
    kept = Kept(place)
    assert kept.said == "" and kept.has(1) and [each.entry.n_tokens for each in kept.store.listed()] == [300]
    assert len(value_files(place)) == 3
    kept.now = max(f.stat().st_mtime for f in value_files(place)) + 1
    assert kept.store.sweep() == 0, "somebody may be writing them"
    kept.now += 3600
    assert kept.store.sweep() == 2 and kept.has(1) and len(value_files(place)) == 1


def test_a_lock_that_is_held_is_not_waited_for_long(place: Path) -> None:
    kept = Kept(place)
    kept.put(1)
    holder = sqlite3.connect(place / DATABASE, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError) as busy:
        kept.put(2)
    assert busy.value.trouble is Trouble.BUSY and kept.has(1)
    holder.execute("ROLLBACK")
    assert kept.put(2) is Put.STORED


def test_processes_that_start_at_once_share_one_directory(place: Path) -> None:
    code = """if True:
        import sys
        from pathlib import Path
        from tests.support.saved_prompts import Kept
        kept, first = Kept(Path(sys.argv[1])), int(sys.argv[2])
        for i in range(first, first + 6):
            kept.put(i)
            assert kept.has(i)
        assert all(each.entry.n_tokens == 300 for each in kept.store.listed())
        print(kept.said)
    """
    root = Path(__file__).resolve().parent.parent.parent
    run = [sys.executable, "-c", code, os.fspath(place)]
    running = [subprocess.Popen([*run, str(6 * i)], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for i in range(3)]
    said = [process.communicate(timeout=60) for process in running]
    assert [(process.returncode, out, err) for process, (out, err) in zip(running, said, strict=True)] == [(0, b"\n", b"")] * 3
    kept = Kept(place)
    assert kept.said == "" and all(kept.has(i) for i in range(18))


_FULL = """if True:
    import sys
    from pathlib import Path
    from inference.prompt_cache.trouble import StoreError
    from tests.support.saved_prompts import Kept
    if sys.argv[2:]:
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
    kept = Kept(Path(sys.argv[1]))
    kept.put(1)
    try:
        kept.put(2, n_state=900_000)
    except StoreError as error:
        print(error.trouble.value, kept.has(1), kept.get(2), len(list(Path(sys.argv[1]).glob("*/*/*.val"))))
"""


@posix
def test_a_full_disk_and_a_limit_of_the_process(place: Path) -> None:
    place.mkdir(parents=True, mode=0o700)
    assert run_python(_FULL, os.fspath(place), str(500_000)).split() == ["full", "True", "None", "1"]
    small = mounting(f"mount -t tmpfs -o size=600k,mode=0700 none {place}")
    assert run_python(_FULL, os.fspath(place), before=small).split() == ["full", "True", "None", "1"]


@posix
def test_a_read_only_directory(place: Path) -> None:
    Kept(place).put(1)
    code = """if True:
        import sys
        from pathlib import Path
        from inference.prompt_cache.place import PlaceError
        from inference.prompt_cache.trouble import StoreError
        from tests.support.saved_prompts import Kept
        try:
            Kept(Path(sys.argv[1]))
        except (PlaceError, StoreError) as error:
            print(error)
    """
    before = mounting(f"mount --bind {place} {place}; mount -o remount,ro,bind {place}")
    assert "read-only file system" in run_python(code, os.fspath(place), before=before).lower()
