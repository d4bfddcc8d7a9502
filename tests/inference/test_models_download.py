"""One file over HTTP, against a real server on this machine: whole, broken off, gone on with, refused."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.models import download
from inference.models.download import Download, NotThere, Wanted
from inference.models.store import Progress, unheard
from inference.types import EngineError
from tests.inference.models_support import Shop, proxying, serving

DATA = b"GGUF" + bytes(range(256)) * 40
DIGEST = hashlib.sha256(DATA).hexdigest()


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


def get(shop: Shop, directory: Path, path: str = "/m.gguf", *, n_bytes: int | None = len(DATA)) -> str:
    part = directory / "m.gguf.download"
    return Download(part, unheard, pause=lambda _: None).fetch(Wanted(shop.address + path, n_bytes, len(DATA)))


def part_of(directory: Path) -> Path:
    return directory / "m.gguf.download"


def test_a_whole_file(tmp_path: Path) -> None:
    heard: list[Progress] = []
    with serving({"/m.gguf": DATA}) as shop:
        got = Download(part_of(tmp_path), heard.append).fetch(Wanted(shop.address + "/m.gguf", len(DATA), len(DATA)))
    assert got == DIGEST
    assert part_of(tmp_path).read_bytes() == DATA
    assert (heard[-1].n_bytes, heard[-1].n_total_bytes) == (len(DATA), len(DATA))
    assert shop.ranges == [""]
    assert shop.log[0][1]["accept-encoding"] == "identity"  # what is compressed on the way has other bytes


def test_a_connection_that_breaks_is_taken_up_where_it_broke(tmp_path: Path) -> None:
    with serving({"/m.gguf": DATA}) as shop:
        shop.cuts = [1000, 500]
        assert get(shop, tmp_path) == DIGEST
    assert shop.ranges == ["", "bytes=1000-", "bytes=1500-"]
    assert part_of(tmp_path).read_bytes() == DATA


def interrupted(shop: Shop, directory: Path, n: int) -> None:
    """A fetch that is ended from outside after n bytes."""

    def stop(progress: Progress) -> None:
        if progress.n_bytes >= n:
            raise KeyboardInterrupt

    shop.cuts = [n]
    with pytest.raises(KeyboardInterrupt):
        Download(part_of(directory), stop).fetch(Wanted(shop.address + "/m.gguf", len(DATA), len(DATA)))
    shop.log.clear()
    shop.cuts.clear()


def test_an_interrupted_fetch_is_gone_on_with(tmp_path: Path) -> None:
    with serving({"/m.gguf": DATA}) as shop:
        interrupted(shop, tmp_path, 2000)
        heard: list[Progress] = []
        got = Download(part_of(tmp_path), heard.append).fetch(Wanted(shop.address + "/m.gguf", len(DATA), len(DATA)))
    assert got == DIGEST
    assert shop.ranges == ["bytes=2000-"]
    assert shop.log[0][1]["if-range"] == '"one"'
    assert heard[0].phase == "checking"


def test_nothing_is_left_to_fetch(tmp_path: Path) -> None:
    with serving({"/m.gguf": DATA}) as shop:
        get(shop, tmp_path)
        assert get(shop, tmp_path) == DIGEST
        assert shop.ranges[-1] == f"bytes={len(DATA)}-"


def test_another_file_on_the_server_is_begun_anew(tmp_path: Path) -> None:
    with serving({"/m.gguf": DATA}) as shop:
        interrupted(shop, tmp_path, 2000)
        shop.files["/m.gguf"], shop.validator = DATA[::-1].replace(DATA[-4:][::-1], b"GGUF", 1), '"two"'
        assert get(shop, tmp_path) == hashlib.sha256(shop.files["/m.gguf"]).hexdigest()
    assert part_of(tmp_path).read_bytes() == shop.files["/m.gguf"]


def test_a_server_without_ranges_is_begun_anew(tmp_path: Path) -> None:
    with serving({"/m.gguf": DATA}) as shop:
        interrupted(shop, tmp_path, 2000)
        shop.knows_ranges = False
        assert get(shop, tmp_path) == DIGEST
    assert part_of(tmp_path).read_bytes() == DATA


def test_without_a_validator_nothing_is_trusted(tmp_path: Path) -> None:
    with serving({"/m.gguf": DATA}) as shop:
        shop.validator = ""
        interrupted(shop, tmp_path, 2000)
        assert get(shop, tmp_path) == DIGEST
    assert shop.ranges == [""]


def test_a_weak_validator_is_none(tmp_path: Path) -> None:
    """It is for texts that mean the same, not for the same bytes."""
    with serving({"/m.gguf": DATA}) as shop:
        shop.validator = 'W/"one"'
        interrupted(shop, tmp_path, 2000)
        assert get(shop, tmp_path) == DIGEST
    assert shop.ranges == [""]


@pytest.mark.parametrize("n", [7, -7])
def test_an_answer_from_another_place_is_not_joined(tmp_path: Path, n: int) -> None:
    with serving({"/m.gguf": DATA}) as shop:
        interrupted(shop, tmp_path, 2000)
        shop.misses_by = n
        assert get(shop, tmp_path) == DIGEST
    assert part_of(tmp_path).read_bytes() == DATA


def test_what_came_from_another_address_is_not_gone_on_with(tmp_path: Path) -> None:
    other = DATA[:4] + bytes(len(DATA))
    with serving({"/m.gguf": DATA, "/other.gguf": other}) as shop:
        interrupted(shop, tmp_path, 2000)
        assert get(shop, tmp_path, "/other.gguf", n_bytes=None) == hashlib.sha256(other).hexdigest()
    assert part_of(tmp_path).read_bytes() == other


def test_a_longer_part_than_the_file_is_begun_anew(tmp_path: Path) -> None:
    with serving({"/m.gguf": DATA}) as shop:
        get(shop, tmp_path)
        with open(part_of(tmp_path), "ab") as file:
            file.write(b"too much")
        assert get(shop, tmp_path) == DIGEST
    assert part_of(tmp_path).read_bytes() == DATA


@pytest.mark.parametrize("record", ["", "{", "null", "[]", '{"address": 1}', "[" * 50_000])
def test_a_record_that_makes_no_sense_counts_as_none(tmp_path: Path, record: str) -> None:
    with serving({"/m.gguf": DATA}) as shop:
        interrupted(shop, tmp_path, 2000)
        (tmp_path / "m.gguf.download.json").write_text(record)
        assert get(shop, tmp_path) == DIGEST
    assert shop.ranges == [""]


@settings(max_examples=30, deadline=None)
@given(cuts=st.lists(st.integers(0, 3000), max_size=4), kept=st.integers(0, len(DATA)))
def test_any_breaks_and_any_part_that_is_a_beginning_end_in_the_file(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], kept: int
) -> None:
    directory = tmp_path_factory.mktemp("download")
    with serving({"/m.gguf": DATA}) as shop:
        get(shop, directory)
        part_of(directory).write_bytes(DATA[:kept])  # as if the disk had lost the rest
        shop.cuts = [cut for cut in cuts if cut] + [1] * (cuts.count(0) > 0)
        assert get(shop, directory) == DIGEST
    assert part_of(directory).read_bytes() == DATA


def test_a_server_that_stays_broken_is_given_up(tmp_path: Path) -> None:
    pauses: list[float] = []
    with serving({"/m.gguf": DATA}) as shop:
        shop.cuts = [100] + [0] * 20
        with pytest.raises(EngineError, match=r"/m\.gguf could not be read \(the connection was closed early\)"):
            Download(part_of(tmp_path), unheard, pause=pauses.append).fetch(Wanted(shop.address + "/m.gguf", None, 1))
    assert len(shop.log) == 1 + download._MOST_FAILURES
    assert pauses == sorted(pauses)
    assert part_of(tmp_path).read_bytes() == DATA[:100]  # the next fetch goes on with it


def test_a_busy_server_is_asked_again(tmp_path: Path) -> None:
    with serving({"/m.gguf": DATA}) as shop:
        shop.status["/m.gguf"] = [503]
        assert get(shop, tmp_path) == DIGEST


def test_nobody_listens(tmp_path: Path) -> None:
    with serving({}) as shop:
        pass
    with pytest.raises(EngineError, match=r"could not be read \(Connection refused\)"):
        get(shop, tmp_path)


@pytest.mark.parametrize(("status", "is_refused"), [(404, False), (410, False), (403, True), (401, True)])
def test_a_file_that_is_not_there(tmp_path: Path, status: int, is_refused: bool) -> None:
    with serving({"/m.gguf": DATA}) as shop:
        shop.status["/m.gguf"] = [status]
        with pytest.raises(NotThere) as error:
            get(shop, tmp_path)
    assert error.value.is_refused is is_refused
    assert len(shop.log) == 1


def test_another_refusal_is_told(tmp_path: Path) -> None:
    with serving({"/m.gguf": DATA}) as shop:
        shop.status["/m.gguf"] = [400]
        with pytest.raises(EngineError, match="answers 400"):
            get(shop, tmp_path)


def test_a_page_instead_of_a_model_is_not_read_to_its_end(tmp_path: Path) -> None:
    page = b"<html>sign in first</html>" * 100
    with serving({"/m.gguf": page}) as shop, pytest.raises(EngineError, match=r"/m\.gguf is no GGUF file"):
        get(shop, tmp_path, n_bytes=None)
    assert part_of(tmp_path).stat().st_size == 0


def test_another_size_is_refused_before_it_is_read(tmp_path: Path) -> None:
    words = f"has {len(DATA):,} bytes, not the 77 of the published file"
    with serving({"/m.gguf": DATA}) as shop, pytest.raises(EngineError, match=words):
        get(shop, tmp_path, n_bytes=77)
    assert not part_of(tmp_path).exists()


def test_the_proxy_of_the_environment_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving({"/m.gguf": DATA}) as shop, proxying() as (proxy, asked):
        monkeypatch.setenv("http_proxy", proxy)
        assert get(shop, tmp_path) == DIGEST
        assert asked == [shop.address + "/m.gguf"]
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        get(shop, tmp_path)
        assert len(asked) == 1


def test_name_and_password_go_into_a_header_and_no_message(tmp_path: Path) -> None:
    with serving({"/m.gguf": DATA}) as shop, serving({"/elsewhere.gguf": DATA}) as other:
        named = shop.address.replace("http://", "http://me:se%20cret@")
        download = Download(part_of(tmp_path), unheard, pause=lambda _: None)
        assert download.fetch(Wanted(named + "/m.gguf", None, 1)) == DIGEST
        assert shop.log[0][1]["authorization"] == "Basic " + base64.b64encode(b"me:se cret").decode()
        with pytest.raises(NotThere) as error:
            download.fetch(Wanted(named + "/none.gguf?token=xyz", None, 1))
        assert "cret" not in str(error.value) and "xyz" not in str(error.value)
        shop.redirects["/away.gguf"] = other.address + "/elsewhere.gguf"
        part_of(tmp_path).unlink()
        assert download.fetch(Wanted(named + "/away.gguf", None, 1)) == DIGEST
    assert "authorization" not in other.log[0][1]  # it is not for whom the answer leads to
    assert "cret" not in (tmp_path / "m.gguf.download.json").read_text()


def test_an_error_of_the_disk_is_not_taken_for_one_of_the_network(tmp_path: Path) -> None:
    with serving({"/m.gguf": DATA}) as shop, pytest.raises(NotADirectoryError):
        (tmp_path / "file").write_bytes(b"")
        Download(tmp_path / "file" / "m.gguf.download", unheard).fetch(Wanted(shop.address + "/m.gguf", None, 1))
    assert len(shop.log) == 1
