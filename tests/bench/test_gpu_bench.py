"""The bench for a card, as far as it goes without one: pieces, models of random weights, its table, and a dry run's parts."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from bench.errors import BenchError
from bench.gpu import measure
from bench.gpu.measure import ROWS, Measured, Result, Text, compare_text, measure_one, table
from bench.gpu.pieces import MANIFEST, cut, join
from bench.gpu.prepare import slim
from bench.gpu.random_model import SHAPES, write
from inference.models.gguf_sizes import read_sizes
from tests.support.tiny_gguf import write_tiny


@pytest.mark.parametrize("n_bytes", [0, 1, 99, 100, 101, 250])
def test_pieces_are_whole_again_or_refused(tmp_path: Path, n_bytes: int) -> None:
    file, folder = tmp_path / "a.whl", tmp_path / "pieces"
    file.write_bytes(bytes(i % 251 for i in range(n_bytes)))
    pieces = cut([file], folder, 100)
    rest = [n_bytes % 100] if n_bytes % 100 or not n_bytes else []
    assert [piece.stat().st_size for piece in pieces] == [100] * (n_bytes // 100) + rest
    (whole,) = join(folder, tmp_path / "whole")
    assert whole.name == "a.whl" and whole.read_bytes() == file.read_bytes()
    pieces[0].write_bytes(b"x")
    with pytest.raises(BenchError, match="has changed on the way"):
        join(folder, tmp_path / "whole")
    pieces[0].unlink()
    with pytest.raises(BenchError, match="is missing"):
        join(folder, tmp_path / "whole")
    (folder / MANIFEST).unlink()
    with pytest.raises(BenchError, match="prepare"):
        join(folder, tmp_path / "whole")


def test_only_what_a_build_needs_travels(tmp_path: Path) -> None:
    inner = ("src/llama.cpp", "docs/ops/x.csv", "models/ggml-vocab.gguf", "src/models/qwen2.cpp")
    names = ("p-1/CMakeLists.txt", "p-1/.git/modules/pack", *(f"p-1/vendor/llama.cpp/{name}" for name in inner))
    with tarfile.open(tmp_path / "p-1.tar.gz", "w:gz") as archive:
        for name in names:
            (tmp_path / "file").write_text(name)
            archive.add(tmp_path / "file", name)
    with tarfile.open(slim(tmp_path / "p-1.tar.gz", tmp_path / "slim.tar.gz")) as archive:
        kept = {member.name: archive.extractfile(member) for member in archive}
        assert set(kept) == {names[0], names[2], names[5]}
        assert all(file is not None and file.read().decode() == name for name, file in kept.items())


@pytest.mark.parametrize("kind", ["Q4_K", "Q8_0"])
def test_a_model_of_random_weights_runs(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / "tiny.gguf", SHAPES["tiny"], kind)
    sizes = read_sizes(path)
    assert (sizes.n_layers, sizes.n_embd, sizes.kv_heads, sizes.n_vocab) == (2, 256, (2, 2), 1000)
    measured = measure_one(path, "tiny", 256)
    assert abs(measured.planned_bytes / measured.actual_bytes - 1) < 0.1
    assert set(measured.step_ms) == {str(n) for n in ROWS} and min(measured.step_ms.values()) > 0


def test_shapes_are_those_of_their_names() -> None:
    """Numbers of weights, from the dimensions alone."""
    from bench.gpu.random_model import _tensors

    for name, billions in (("0.5B", 0.63), ("1.5B", 1.78), ("7B", 7.62), ("32B", 32.8)):
        n = sum(dims[0] * (dims[1] if len(dims) > 1 else 1) for _, dims in _tensors(SHAPES[name]))
        assert n / 1e9 == pytest.approx(billions, rel=0.01), name


def test_the_text_of_both_sides(tmp_path: Path) -> None:
    text = compare_text(write_tiny(tmp_path / "tiny.gguf"), 8)
    assert text == Text(8, 8), "without a device both sides are the same"


def test_the_table() -> None:
    steps = {str(n): 10.0 + n for n in ROWS}
    rows = [
        Measured("32B Q4_K", "CUDA0", 65, 20_000_000_000, 19_000_000_000, 512.0, steps),
        Measured("0.5B Q4_K", "CUDA0", 25, 500_000_000, 500_000_000, 51.2, dict.fromkeys(steps, 2.0)),
    ]
    told = table(Result("CUDA0", rows, ["7B Q8_0: no time was left"], Text(48, 40, 0.1234)), "32B")
    assert "on CUDA0" in told and "1000" in told and "left out: 7B Q8_0" in told
    assert "40 of 48 tokens are the same, then the two likeliest are 0.123 apart" in told
    # 3 drafts of 2 ms and a step of 4 rows of 14 ms, where a plain step takes 11
    assert "3 drafted:    20.00 ms a round, pays from 0.82 accepted" in told
    assert "drafted" not in table(Result("", rows[1:]), "32B")


def test_what_has_no_time_left_or_fails_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--shapes", "tiny", "--kinds", "Q8_0", "--draft=", "--folder", str(tmp_path), "--json"]
    assert measure.main([*arguments, "--seconds", "0"]) == 1
    assert "no time was left" in json.loads(capsys.readouterr().out)["left_out"][0]

    def failing(what: tuple[str, ...], timeout_s: float) -> None:
        raise BenchError(f"{what[2]}: it was ended by SIGSEGV")

    monkeypatch.setattr(measure, "in_child", failing)
    assert measure.main(arguments) == 1
    assert "SIGSEGV" in capsys.readouterr().out and not list(tmp_path.iterdir())
    assert measure.main(["--shapes", "9B"]) == 1 and "no shape 9B" in capsys.readouterr().err
