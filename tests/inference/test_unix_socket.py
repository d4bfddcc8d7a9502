"""Sockets and keys that only their user can reach."""

from __future__ import annotations

import os
import socket
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from inference import unix_socket
from inference.endpoint import Endpoint, is_loopback, make_key, read_key
from inference.types import EngineError

IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def test_a_socket_is_private_from_the_beginning(tmp_path: Path) -> None:
    path = tmp_path / "new" / "run" / "e.sock"
    old = os.umask(0)
    try:
        listener = unix_socket.listen(path)
    finally:
        os.umask(old)
    assert stat.S_IMODE(os.lstat(path).st_mode) == 0o600 and stat.S_IMODE(os.lstat(path.parent).st_mode) == 0o700
    assert os.listdir(path.parent) == ["e.sock"]
    unix_socket.require_trusted(path)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        listener.setblocking(True)
        accepted, _ = listener.accept()
        assert unix_socket.peer(accepted) in ((os.getpid(), os.geteuid()), None)
        accepted.close()
    listener.close()


def test_a_stale_socket_is_replaced_and_one_that_is_answered_is_not(tmp_path: Path) -> None:
    path = tmp_path / "e.sock"
    dead = unix_socket.listen(path)
    inode = os.lstat(path).st_ino
    for queued in (0, 3):  # also when nobody accepts, and when the queue is full
        clients = [socket.socket(socket.AF_UNIX) for _ in range(queued)]
        dead.listen(0)
        for client in clients:
            client.setblocking(False)
            client.connect_ex(str(path))
        with pytest.raises(EngineError, match=r"listens on .* already"):
            unix_socket.listen(path)
        for client in clients:
            client.close()
    dead.close()
    assert path.exists() and not unix_socket.is_answered(path)
    fresh = unix_socket.listen(path)
    assert unix_socket.is_answered(path) and os.lstat(path).st_ino != inode
    unix_socket.remove(path, inode)  # the one before takes only its own away
    assert path.exists()
    unix_socket.remove(path, os.lstat(path).st_ino)
    assert not path.exists()
    fresh.close()


def test_of_many_that_start_at_once_one_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "e.sock"
    is_answered = unix_socket.is_answered

    def slowly(path: Path) -> bool:
        found = is_answered(path)
        time.sleep(0.02)  # the others come in between
        return found

    monkeypatch.setattr(unix_socket, "is_answered", slowly)
    unix_socket.listen(path).close()  # a stale one, for them to fight over
    begin = threading.Barrier(8)
    won: list[socket.socket] = []
    lost: list[EngineError] = []

    def start() -> None:
        begin.wait()
        try:
            won.append(unix_socket.listen(path))
        except EngineError as error:
            lost.append(error)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 7) and os.listdir(tmp_path) == ["e.sock"]
    won[0].close()


def _make(path: Path, what: str) -> None:
    if what == "file":
        path.write_text("x")
    elif what == "directory":
        path.mkdir()
    elif what == "link":
        path.symlink_to(path.parent / "elsewhere")
    elif what == "link to a socket":
        elsewhere = path.parent / "other.sock"
        unix_socket.listen(elsewhere).close()
        path.symlink_to(elsewhere)


@pytest.mark.parametrize("what", ["file", "directory", "link", "link to a socket"])
def test_what_is_no_socket_is_neither_replaced_nor_trusted(tmp_path: Path, what: str) -> None:
    path = tmp_path / "e.sock"
    _make(path, what)
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(EngineError, match="no socket of yours"):
        unix_socket.listen(path)
    with pytest.raises(EngineError, match="not a socket"):
        unix_socket.require_trusted(path)
    assert sorted(os.listdir(tmp_path)) == before


def open_to_group(directory: Path) -> Path:
    directory.chmod(0o770)
    return directory


def open_to_all(directory: Path) -> Path:
    directory.chmod(0o707)
    return directory


def a_link(directory: Path) -> Path:
    link = directory.with_name("link")
    link.symlink_to(directory)
    return link


def below_an_open_one(directory: Path) -> Path:
    below = directory / "below"
    below.mkdir(mode=0o700)
    directory.chmod(0o777)
    return below


def somebody_elses(directory: Path) -> Path:
    os.chown(directory, 65534, 65534)
    return directory


def a_file(directory: Path) -> Path:
    file = directory / "file"
    file.write_text("x")
    return file


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (open_to_group, "Others can write"), (open_to_all, "Others can write"), (a_link, "symbolic link"),
        (below_an_open_one, "so replace"), (a_file, "can't be made"),
        pytest.param(somebody_elses, "somebody else", marks=pytest.mark.skipif(not IS_ROOT, reason="only root can give away")),
    ],
)  # fmt: skip
def test_a_place_that_others_reach_is_refused_on_both_sides(tmp_path: Path, spoil: Callable[[Path], Path], says: str) -> None:
    directory = tmp_path / "run"
    directory.mkdir(mode=0o700)
    listener = unix_socket.listen(directory / "e.sock")  # it was in order once
    spoiled = spoil(directory)
    with pytest.raises(EngineError, match=says):
        unix_socket.listen(spoiled / "other.sock")
    if spoil is not a_file and spoil is not below_an_open_one:
        with pytest.raises(EngineError, match=says):
            unix_socket.require_trusted(spoiled / "e.sock")
    listener.close()


def test_below_a_sticky_directory_is_private_enough(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    unix_socket.listen(tmp_path / "mine" / "e.sock").close()


@pytest.mark.skipif(not IS_ROOT, reason="only root can give away")
def test_somebody_elses_socket_is_not_trusted(tmp_path: Path) -> None:
    path = tmp_path / "e.sock"
    listener = unix_socket.listen(path)
    os.chown(path, 65534, 65534)
    with pytest.raises(EngineError, match="belongs to somebody else"):
        unix_socket.require_trusted(path)
    with pytest.raises(EngineError, match="no socket of yours"):
        unix_socket.listen(path)
    listener.close()


def test_a_path_that_no_socket_can_have(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="too long for a socket"):
        unix_socket.listen(tmp_path / ("x" * 100))
    with pytest.raises(EngineError):
        unix_socket.require_trusted(tmp_path / "nothing")
    with pytest.raises(EngineError):
        unix_socket.require_trusted(tmp_path / "nothing" / "e.sock")


# -- keys and addresses


def test_a_key_is_made_once_and_read_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "key"
    old = os.umask(0)
    try:
        key = make_key(path)
    finally:
        os.umask(old)
    assert make_key(path) == read_key(path) == key and len(key) >= 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and os.listdir(tmp_path) == ["key"]
    assert make_key(tmp_path / "other") != key
    for mode in (0o640, 0o604, 0o620):
        path.chmod(mode)
        with pytest.raises(EngineError, match="Others can read"):
            read_key(path)
    with pytest.raises(EngineError, match="can't be made"):
        make_key(tmp_path / "nothing" / "key")
    with pytest.raises(EngineError, match="can't be read"):
        read_key(tmp_path / "nothing")


@pytest.mark.parametrize("text", ["", "short", "x" * 15, "x" * 513, "with blank in it!!!", "with\nline\nends in it", "ä" * 20])
def test_what_is_no_key(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(EngineError, match="holds no key"):
        read_key(path)
    path.write_text("  " + "x" * 16 + "\r\n")
    assert read_key(path) == "x" * 16


@pytest.mark.skipif(not IS_ROOT, reason="only root can give away")
def test_somebody_elses_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    make_key(path)
    os.chown(path, 65534, 65534)
    with pytest.raises(EngineError, match="belongs to somebody else"):
        read_key(path)


def test_endpoints_do_not_show_their_key() -> None:
    endpoint = Endpoint(url="http://gpu.example:4711", key="sEcReTsEcReTsEcReT")
    assert "sEcReT" not in repr(endpoint) + str(endpoint)
    for url in ("gpu.example:4711", "ftp://x", "http://", "http://user:sEcReT@x", "http://x?a", "http://x#a"):
        with pytest.raises(EngineError, match="not the address of an engine") as caught:
            Endpoint(url=url)
        assert "sEcReT" not in str(caught.value)
    for options in ({}, {"socket": Path("/x"), "url": "http://x"}):
        with pytest.raises(ValueError):
            Endpoint(**options)


@pytest.mark.parametrize(
    ("host", "is_it"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("LOCALHOST", True), ("0.0.0.0", False),
     ("::", False), ("10.0.0.1", False), ("localhost.evil.example", False), ("", False), ("127.0.0.1.evil.example", False)],
)  # fmt: skip
def test_loopback(host: str, is_it: bool) -> None:
    assert is_loopback(host) is is_it
