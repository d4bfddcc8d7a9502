"""Where engines are found: whose directory, how private, and how long a name may be."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

import pytest

from inference import engine_record, unix_socket
from inference.engine_log import open_log, turn_over
from inference.engine_record import EngineRecord, own_start, process_of, sweep, withdraw
from inference.models.lock import hold
from inference.runtime_dir import RUNTIME_VARIABLE, Place, make_private, place_of, places, runtime_dir
from inference.types import EngineError
from inference.wire import PROTOCOL

DIGEST = "ab" * 32


def test_which_directory_it_is(tmp_path: Path) -> None:
    given = {"XDG_RUNTIME_DIR": str(tmp_path)}
    assert runtime_dir({**given, RUNTIME_VARIABLE: "/x/y"}) == Path("/x/y")
    assert runtime_dir({**given, RUNTIME_VARIABLE: "x/y"}) == tmp_path / "midfill"
    assert runtime_dir(given) == tmp_path / "midfill"
    own = Path(tempfile.gettempdir()).resolve() / f"midfill-{os.geteuid()}"
    assert runtime_dir({}) == runtime_dir({"XDG_RUNTIME_DIR": str(tmp_path / "none")}) == own


def test_a_name_holds_the_models_digest_and_the_protocols_number(tmp_path: Path) -> None:
    assert place_of(DIGEST, tmp_path).stem == f"{DIGEST[:16]}-{PROTOCOL}"
    assert place_of(DIGEST, tmp_path).socket.parent == tmp_path


def test_a_directory_whose_path_is_too_long_has_its_sockets_elsewhere(tmp_path: Path) -> None:
    deep, other = (tmp_path / name / ("d" * 100) for name in ("one", "other"))
    sockets = {place_of(DIGEST, directory).socket for directory in (deep, other)}
    assert len(sockets) == 2, "different directories share a socket"
    for path in sockets:
        assert len(os.fsencode(path)) <= 90
        listener = unix_socket.listen(path)
        try:
            assert path.parent.stat().st_mode & 0o777 == 0o700
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))
        finally:
            listener.close()
            path.unlink()
            path.parent.rmdir()


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o722])
def test_a_directory_that_others_can_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    directory.chmod(mode)
    with pytest.raises(EngineError, match=f"Others can write .*{RUNTIME_VARIABLE}"):
        make_private(directory)
    with pytest.raises(EngineError, match="Others can write"):
        list(places(directory))


def test_a_file_in_its_place_is_told_and_not_taken_for_no_engines(tmp_path: Path) -> None:
    assert list(places(tmp_path / "none")) == []
    (tmp_path / "run").write_text("")
    with pytest.raises(EngineError, match=f"can't be made.*{RUNTIME_VARIABLE}|is not a directory.*{RUNTIME_VARIABLE}"):
        list(places(tmp_path / "run"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_somebody_elses_directory_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    directory.mkdir(mode=0o700)
    os.chown(directory, 65534, 65534)
    with pytest.raises(EngineError, match="belongs to somebody else"):
        make_private(directory)


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "run").symlink_to(tmp_path / "real")
    with pytest.raises(EngineError, match="symbolic link"):
        make_private(tmp_path / "run")


def record(**changes: object) -> EngineRecord:
    values: dict[str, object] = {
        "pid": os.getpid(), "started": own_start(), "version": "1", "model_name": "m", "model_path": "/m.gguf",
        "model_digest": DIGEST, **changes,
    }  # fmt: skip
    return EngineRecord(**values)  # type: ignore[arg-type]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    make_private(tmp_path / "run")
    return place_of(DIGEST, tmp_path / "run")


def test_a_record_comes_back_as_it_was(place: Place) -> None:
    written = record(socket=str(place.socket), is_background=True)
    engine_record.save(place, written)
    assert engine_record.load(place) == written
    assert [found.record for found in places(place.directory)] == [place.record]
    assert written.process() is not None and written.endpoint().socket == place.socket


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"pid": "1"}', "[" * 100_000])
def test_a_record_that_is_none_is_passed_over_and_swept(place: Place, text: str) -> None:
    place.record.write_text(text)
    assert engine_record.load(place) is None
    assert sweep(place) and not place.record.exists()


def test_a_number_that_is_another_process_now_is_not_the_engine(place: Place) -> None:
    assert process_of(os.getpid(), own_start()) is not None
    assert process_of(os.getpid(), own_start() - 60) is None
    assert process_of(1 << 40, 0.0) is None
    engine_record.save(place, record(started=own_start() - 60))
    assert sweep(place) and not place.record.exists()


def test_what_a_living_engine_has_is_not_swept(place: Place) -> None:
    engine_record.save(place, record())
    assert not sweep(place) and place.record.exists()
    withdraw(place, os.getpid() + 1)
    assert place.record.exists()
    withdraw(place, os.getpid())
    assert not place.record.exists()
    listener = unix_socket.listen(place.socket)
    assert not sweep(place) and place.socket.exists()
    listener.close()
    assert sweep(place) and not place.socket.exists()


def test_the_lock_is_gone_with_its_holder(place: Place) -> None:
    with hold(place.lock):
        place.lock.unlink()
        with hold(place.lock):  # a fresh one
            assert place.lock.exists()


def test_a_log_is_private_and_does_not_grow_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    with open_log(path, 10) as log:
        log.write(b"x" * 11)
    assert path.stat().st_mode & 0o777 == 0o600
    with open_log(path, 10) as log:
        log.write(b"new")
    assert path.read_bytes() == b"new" and (tmp_path / "engine.log.1").read_bytes() == b"x" * 11
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(OSError):
        open_log(tmp_path / "link")


def test_a_process_goes_on_in_a_fresh_log(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    before = [os.dup(fd) for fd in (1, 2)]
    try:
        with open_log(path) as log:
            os.dup2(log.fileno(), 2)
        os.write(2, b"first\n")
        assert not turn_over(path, 6)
        os.write(2, b"more\n")
        assert turn_over(path, 6)
        os.write(2, b"second\n")
        os.write(1, b"third\n")
    finally:
        for fd, old in zip((1, 2), before, strict=True):
            os.dup2(old, fd)
            os.close(old)
    assert path.read_text() == "second\nthird\n"
    assert (tmp_path / "engine.log.1").read_text() == "first\nmore\n"
