"""Directories: read-only, foreign, open to others, full, absent. On real file systems where this machine lets us mount one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lsp_server.doctor import places
from lsp_server.doctor.findings import Finding, Level
from lsp_server.doctor.places import cache_directory, models_directory, saved_prompts, why_not_writable


def plenty(_: Path) -> int:
    return 10**12


def cache(directory: Path, free: int = 10**12) -> list[Finding]:
    return list(cache_directory(directory, lambda _: free))


def models(directory: Path, needed: int = 0, free: int = 10**12) -> list[Finding]:
    return list(models_directory(directory, needed, lambda _: free))


@pytest.fixture
def private(tmp_path: Path) -> Path:
    directory = tmp_path / "cache"
    directory.mkdir(mode=0o700)
    return directory


def test_good_ones_leave_nothing_behind(private: Path) -> None:
    assert [f.level for f in cache(private)] == [Level.OK] == [f.level for f in models(private)]
    assert list(private.iterdir()) == []


def test_absent_ones_are_not_created(tmp_path: Path) -> None:
    absent = tmp_path / "a" / "b"
    (found,) = cache(absent)
    assert found.level is Level.OK and "will be created" in found.text
    (found,) = models(absent)
    assert found.level is Level.OK and "will be created" in found.text
    assert not (tmp_path / "a").exists()


@pytest.mark.skipif(os.name == "nt", reason="no modes")
@pytest.mark.parametrize("mode", [0o755, 0o770, 0o702])
def test_a_cache_open_to_others(mode: int, private: Path) -> None:
    private.chmod(mode)
    (found,) = cache(private)
    assert found.level is Level.WARNING and f"{mode:04o}" in found.text and found.do == f"`chmod 700 {private}`"


def test_a_cache_of_somebody_else(private: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # injected: to root nothing is foreign, and nobody else can give a directory away
    monkeypatch.setattr(os, "getuid", lambda: private.stat().st_uid + 1)
    (found,) = cache(private)
    assert found.level is Level.WARNING and "another user" in found.text


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        (found,) = cache(path)
        assert found.level is Level.WARNING and "not a directory" in found.text


def test_little_space(private: Path) -> None:
    assert [f.level for f in cache(private, free=1_000_000)] == [Level.OK, Level.WARNING]
    (found,) = models(private, needed=491_000_000, free=490_000_000)
    assert found.level is Level.WARNING and found.topic == "space" and "491 MB" in found.text and "490 MB" in found.text
    (found,) = models(private, needed=0, free=0)
    assert found.level is Level.OK  # the model is here: nothing is needed


def test_a_probe_that_fails_says_nothing(private: Path) -> None:
    def broken(_: Path) -> int:
        raise OSError("no such thing here")

    assert [f.level for f in cache_directory(private, broken)] == [Level.OK]
    assert [f.level for f in models_directory(private, 1, broken)] == [Level.OK]


def _mounted(commands: str, code: str, tmp_path: Path) -> str:
    """What the code writes in a mount namespace of its own, after the shell commands. Skips where there can't be one."""
    unshare = ["unshare", "--mount", *([] if os.getuid() == 0 else ["--map-root-user"]), "sh", "-e", "-c"]
    try:
        able = subprocess.run([*unshare, f"mount -t tmpfs none {tmp_path}"], capture_output=True, timeout=60).returncode == 0
    except OSError:
        able = False
    if not able:
        pytest.skip("no file system can be mounted here")
    script = f"{commands}; exec {sys.executable} -c '{code}'"
    root = Path(__file__).resolve().parent.parent.parent
    done = subprocess.run([*unshare, script], capture_output=True, text=True, cwd=root, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


_PROBE = 'from pathlib import Path; from lsp_server.doctor.places import *; print(why_not_writable(Path("{0}")))'


def test_a_read_only_file_system(tmp_path: Path) -> None:
    commands = f"mount --bind {tmp_path} {tmp_path}; mount -o remount,ro,bind {tmp_path}"
    assert _mounted(commands, _PROBE.format(tmp_path), tmp_path).strip() == "read-only file system"
    assert "is not writable" in _mounted(commands, _PROBE.format(tmp_path / "absent"), tmp_path)


def test_a_full_file_system(tmp_path: Path) -> None:
    commands = f"mount -t tmpfs -o size=16k none {tmp_path}"
    assert _mounted(commands, _PROBE.format(tmp_path), tmp_path).strip() == "no space left on device"
    code = f'from pathlib import Path; from lsp_server.doctor.places import *; print(list(cache_directory(Path("{tmp_path}"))))'
    assert "make room on its disk" in _mounted(commands, code, tmp_path)


@pytest.mark.skipif(os.name == "nt" or os.getuid() == 0, reason="root may write anywhere; see the read-only file system")
def test_a_directory_without_write_permission(private: Path) -> None:
    private.chmod(0o500)
    assert why_not_writable(private) == "permission denied"


def prompts(cache_dir: Path, is_on: bool = True) -> list[Finding]:
    return list(saved_prompts(cache_dir, is_on=is_on))


def test_saved_prompts_that_the_engine_would_not_use_are_told(private: Path) -> None:
    assert prompts(private) == [], "there is none yet"
    directory = private / "prompts"
    directory.mkdir(mode=0o755)
    directory.chmod(0o755)
    assert [f.level for f in prompts(private)] == [Level.OK]
    assert directory.stat().st_mode & 0o777 == 0o755, "doctor changes nothing"
    directory.chmod(0o777)
    (found,) = prompts(private)
    assert found.level is Level.WARNING and "Others can write" in found.text and "chmod" in found.do
    assert prompts(private, is_on=False) == []
    directory.rmdir()
    directory.symlink_to(private)
    assert "symbolic link" in prompts(private)[0].text


def test_saved_prompts_that_cannot_be_written_are_told(private: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (private / "prompts").mkdir(mode=0o700)
    # injected: root may write where it likes
    monkeypatch.setattr(places, "why_not_writable", lambda directory: "permission denied")
    (found,) = prompts(private)
    assert found.level is Level.WARNING and "permission denied" in found.text and "writable" in found.do
