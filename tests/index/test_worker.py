"""The process that fills a store, as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from inference.models.lock import hold
from lsp_server.index import place
from lsp_server.index import supervisor as module
from lsp_server.index.reader import Reader
from lsp_server.index.rows import What
from lsp_server.index.supervisor import News, Supervisor, command_line
from lsp_server.index.worker import BUSY, HOPELESS, Job
from tests.index.conftest import House, write_all

HANG_S = 60.0  # only ends a test that hangs

# The real process with a parser that some files are too much for.
SPOILT = """
import ctypes, os, sys, time
sys.path.insert(0, {home!r})
from lsp_server.index import filling, reading, worker
from context.symbols import symbols_of
def parse(language, data):
    if b"crash" in data:
        ctypes.string_at(0)
    if b"hang" in data:
        ctypes.CDLL(None).pause()
    return symbols_of(language, data)
filling.Filling.__init__.__defaults__ = (parse,)
reading.Guard.__init__.__defaults__ = (0.5,)
sys.exit(worker.main())
"""
HOME = Path(__file__).resolve().parent.parent.parent


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + HANG_S
    while not holds():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.02)


def job(house: House, **changed: object) -> Job:
    told: dict[str, object] = {"linger_s": 0.3, **changed}
    return Job(str(house.cache), str(house.root), (str(house.root),), house.globs, house.max_bytes, "test", **told)  # type: ignore[arg-type]


@contextmanager
def supervised(
    house: House, command: list[str] | None = None, **changed: object
) -> Iterator[tuple[Supervisor, Reader, list[News]]]:
    heard: list[News] = []
    reader = house.reader()
    supervisor = Supervisor(job(house, **changed), heard.append, reader.is_anything_pending, command)
    try:
        yield supervisor, reader, heard
    finally:
        supervisor.close()
        supervisor.join(HANG_S)
        reader.close()


def test_it_fills_says_so_and_ends_when_nothing_is_left(house: House) -> None:
    write_all(house.root, {"a.py": "def f(): pass\n", ".env": "zz_not_real = 1\n"})
    with supervised(house) as (supervisor, reader, heard):
        supervisor.start()
        until(lambda: heard and heard[-1].what == "done" and supervisor.pid is None)
        assert heard[0].what == "ready" and not any(news.what == "trouble" for news in heard)
        assert len(reader.definitions_of("f")) == 1
        (house.root / "a.py").write_text("def g(): pass\n")
        assert reader.pend([("a.py", What.FILE)])
        supervisor.need()
        until(lambda: reader.definitions_of("g"))
    assert b"zz_not_real" not in house.bytes()


def test_files_that_crash_or_hang_the_parser_do_not_stop_the_rest(house: House) -> None:
    write_all(house.root, {"a.py": "crash\n", "c.py": "hang\n", **{f"f{n}.py": f"def f{n}(): pass\n" for n in range(5)}})
    command = [sys.executable, "-c", SPOILT.format(home=str(HOME))]
    with supervised(house, command) as (supervisor, reader, heard):
        supervisor.start()
        until(lambda: reader.counts() == {"parsed": 5, "skipped": 0, "failed": 2, "pending": 0})
        assert not any(news.what == "trouble" for news in heard)
        until(lambda: supervisor.pid is None)


def test_a_process_that_dies_at_once_is_given_up_with_a_sentence(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_WAIT_S", 0.001)
    with supervised(house, [sys.executable, "-c", "raise SystemExit(3)"]) as (supervisor, _, heard):
        supervisor.start()
        until(lambda: heard)
        assert heard[0].what == "trouble" and "midfill doctor" in heard[0].sentence


def test_killed_in_the_middle_another_one_goes_on(house: House) -> None:
    write_all(house.root, {f"f{n}.py": f"def f{n}(): pass\n" for n in range(60)})
    with supervised(house) as (supervisor, reader, _):
        supervisor.start()
        until(lambda: supervisor.pid)
        pid = supervisor.pid
        assert pid is not None
        until(lambda: reader.exists())
        os.kill(pid, signal.SIGKILL)
        until(lambda: reader.counts()["parsed"] == 60)


def test_one_at_a_time(house: House) -> None:
    place.make_private(house.place.directory)
    with hold(house.place.lock):
        done = subprocess.run(command_line(), input=job(house).line(), capture_output=True, timeout=HANG_S, check=False)
        assert (done.returncode, done.stdout) == (BUSY, b"")
        with supervised(house) as (supervisor, reader, _):
            supervisor.start()
            time.sleep(0.2)
            assert supervisor.pid is None and not reader.exists()


def test_it_ends_with_who_started_it(house: House) -> None:
    write_all(house.root, {"a.py": "def f(): pass\n"})
    child = subprocess.Popen(command_line(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write(job(house, linger_s=600.0).line())
    child.stdin.flush()
    until(lambda: house.place.database.exists() and house.reader().definitions_of("f"))
    assert os.getpriority(os.PRIO_PROCESS, child.pid) > os.getpriority(os.PRIO_PROCESS, 0)
    child.stdin.close()
    assert child.wait(HANG_S) == 0
    child.stdout.close()


@pytest.mark.parametrize("what", ["garbage", "suspect"])
def test_a_broken_store_is_set_aside_and_made_anew(house: House, what: str) -> None:
    write_all(house.root, {"a.py": "def f(): pass\n"})
    house.fill()
    if what == "garbage":
        house.place.database.write_bytes(b"garbage" * 4096)
    else:  # damage that only shows when it is read
        house.place.suspect.touch()
        data = bytearray(house.place.database.read_bytes())
        data[-3 * 4096 :] = b"\xff" * 3 * 4096
        house.place.database.write_bytes(data)
    with supervised(house) as (supervisor, reader, heard):
        supervisor.start()
        until(lambda: any(news.what == "done" for news in heard) and not house.place.suspect.exists())
        until(lambda: len(reader.definitions_of("f")) == 1)
    assert house.place.broken.exists()


def test_a_place_that_can_not_be_used_is_told_once(house: House) -> None:
    house.cache.mkdir()
    house.place.directory.write_text("in the way")
    with supervised(house) as (supervisor, _, heard):
        supervisor.start()
        until(lambda: heard)
        assert heard == [News("trouble", sentence=heard[0].sentence)]
        assert heard[0].sentence.startswith("the workspace index is off: ") and str(house.place.directory) in heard[0].sentence
    assert HOPELESS != BUSY
    assert threading.active_count() < 20
