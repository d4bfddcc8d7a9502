"""That engines have ended, and have left nothing but their logs."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import psutil

from inference import engine_record
from inference.runtime_dir import Place

PATIENCE_S = 40.0  # only ends a test that would fail; an engine waits half a minute for a first server that may be dead


def engines_of(directory: Path) -> list[psutil.Process]:
    """Processes of engines that were started with this directory, whatever they have written there."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if "engine" in words and process.environ().get("MIDFILL_RUNTIME_DIR") == str(directory):
                found.append(process)
    return found


def all_ended(directory: Path) -> None:
    """Wait until no engine is left. Otherwise it is ended, and the test fails."""
    end = time.monotonic() + PATIENCE_S
    while left := engines_of(directory):
        if time.monotonic() > end:
            for process in left:
                process.kill()
            raise AssertionError(f"engines were left behind: {[process.pid for process in left]}")
        time.sleep(0.02)
    names = {path.name for path in directory.glob("*") if ".log" not in path.suffixes} if directory.is_dir() else set()
    assert not names, f"a dead engine has left {names}"


def only_record(directory: Path) -> engine_record.EngineRecord:
    """Of the one engine there."""
    (path,) = directory.glob("*.json")
    record = engine_record.load(Place(directory, path.stem))
    assert record is not None
    return record
