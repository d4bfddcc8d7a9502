"""Paths, presence and digests."""

from __future__ import annotations

from pathlib import Path

import platformdirs
import pytest

from inference.models import registry, store
from inference.models.store import Progress, State
from inference.types import EngineError
from tests.inference.models_support import WHOLE, sample_gguf, tiny_model

MODEL = tiny_model()


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(store.MODELS_DIR_VARIABLE, raising=False)
    monkeypatch.setattr(registry, "MODELS", (MODEL,))


def put(directory: Path, data: bytes, name: str = MODEL.file_name) -> Path:
    path = directory / name
    path.write_bytes(data)
    return path


def test_the_setting_goes_before_the_variable_before_the_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    default = Path(platformdirs.user_data_dir("midfill", appauthor=False)) / "models"
    assert store.models_dir() == default
    monkeypatch.setenv(store.MODELS_DIR_VARIABLE, str(tmp_path / "variable"))
    assert store.models_dir() == tmp_path / "variable"
    assert store.models_dir(str(tmp_path / "setting")) == tmp_path / "setting"


def test_home_and_relative_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert store.models_dir("~/m") == tmp_path / "m"
    assert store.models_dir("m") == tmp_path / "m"
    assert store.models_dir("~nobody-of-that-name/m") == tmp_path / "~nobody-of-that-name" / "m"


def test_states(tmp_path: Path) -> None:
    assert store.entry(MODEL, tmp_path / "none").state is State.ABSENT
    put(tmp_path, WHOLE[:5], "tiny.gguf.part")
    assert (store.entry(MODEL, tmp_path).state, store.entry(MODEL, tmp_path).n_bytes) == (State.PARTIAL, 5)
    put(tmp_path, WHOLE)
    assert store.installed(tmp_path) == (store.entry(MODEL, tmp_path),)
    assert store.entry(MODEL, tmp_path).state is State.PRESENT
    put(tmp_path, b"", "tiny.gguf.part")
    put(tmp_path, WHOLE[:-1])
    assert store.entry(MODEL, tmp_path).state is State.WRONG_SIZE
    assert store.installed(tmp_path) == ()


def test_resolve_an_id(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"not on disk .*midfill models pull tiny"):
        store.resolve("tiny", tmp_path)
    put(tmp_path, WHOLE[:300], "tiny.gguf.part")
    with pytest.raises(EngineError, match=r"partly pulled \(300 of .*midfill models pull tiny"):
        store.resolve("tiny", tmp_path)
    path = put(tmp_path, WHOLE)
    assert store.resolve("tiny", tmp_path) == path
    assert store.resolve(" tiny ", tmp_path) == path


def test_resolve_an_id_of_the_wrong_size(tmp_path: Path) -> None:
    put(tmp_path, WHOLE + b"x")
    with pytest.raises(EngineError, match=f"{len(WHOLE) + 1} bytes, tiny has {len(WHOLE)}"):
        store.resolve("tiny", tmp_path)


def test_resolve_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path, sample_gguf(), "mine.gguf")
    put(tmp_path, b"a file named as the id", "tiny")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    for spelling in (str(path), "mine.gguf", "./mine.gguf", "~/mine.gguf"):
        assert store.resolve(spelling, tmp_path / "models") == path
    with pytest.raises(EngineError, match="not on disk"):
        store.resolve("tiny", tmp_path / "models")  # the id wins
    assert store.resolve("./tiny", tmp_path / "models") == tmp_path / "tiny"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tinny", "did you mean tiny"),
        ("", "No model is named"),
        ("  ", "No model is named"),
        ("no/such/file", "There is no file"),
        ("none.gguf", "There is no file"),
        ("a\0b", "no model named"),
        ("/a\0b", "cannot be read"),
    ],
)
def test_what_leads_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EngineError, match=words):
        store.resolve(name, tmp_path)


def test_a_directory_is_not_a_model(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="is a directory"):
        store.resolve(str(tmp_path), tmp_path)


def test_verify_reads_every_byte(tmp_path: Path) -> None:
    path = put(tmp_path, WHOLE)
    heard: list[Progress] = []
    assert store.verify(MODEL, tmp_path, heard.append) == path
    assert (heard[-1].phase, heard[-1].n_bytes, heard[-1].n_total_bytes) == ("checking", MODEL.bytes, MODEL.bytes)
    for at in (0, len(WHOLE) // 2, len(WHOLE) - 1):
        put(tmp_path, WHOLE[:at] + bytes([WHOLE[at] ^ 1]) + WHOLE[at + 1 :])
        with pytest.raises(EngineError, match=f"not the published file.*not {MODEL.sha256}.*models pull tiny"):
            store.verify(MODEL, tmp_path)


def test_verify_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="not on disk"):
        store.verify(MODEL, tmp_path)
