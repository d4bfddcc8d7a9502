"""The note that a running engine leaves for those who look for it: which process, where it is reached, what it runs.

Owns its file and the proof that the process is still the one that wrote it: number, time of start and user. Refuses to trust a
note for more than a hint of where to ask.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from inference import unix_socket
from inference.endpoint import Endpoint, read_key
from inference.models.durable import write_text
from inference.plain import PlainError, from_plain
from inference.runtime_dir import Place
from inference.types import EngineError
from inference.wire import PROTOCOL

_MOST_BYTES = 1 << 16
_SAME_S = 2.0  # a process's time of start is told relative to a clock that is set now and then


@dataclass(frozen=True, slots=True)
class EngineRecord:
    """started: of the process, seconds since 1970. asked: what the setting `model` said. socket or url, with key_file.

    is_background: it was started by a language server.
    """

    pid: int
    started: float
    version: str
    model_name: str
    model_path: str
    model_digest: str
    asked: str = ""
    models_dir: str = ""
    socket: str = ""
    url: str = ""
    key_file: str = ""
    protocol: int = PROTOCOL
    is_background: bool = False

    @property
    def address(self) -> str:
        return self.socket or self.url

    def endpoint(self) -> Endpoint:
        """EngineError: its key can't be read."""
        if self.socket:
            return Endpoint(socket=Path(self.socket))
        return Endpoint(url=self.url, key=read_key(Path(self.key_file)))

    def process(self) -> psutil.Process | None:
        """None: it has ended, or its number belongs to another process by now."""
        return process_of(self.pid, self.started)


def process_of(pid: int, started: float) -> psutil.Process | None:
    """The process of this user with that number and time of start; a zombie counts as ended."""
    try:
        process = psutil.Process(pid)
        if abs(process.create_time() - started) > _SAME_S or process.status() == psutil.STATUS_ZOMBIE:
            return None
        if sys.platform != "win32" and process.uids().effective != os.geteuid():
            return None
    except (psutil.Error, ValueError, OverflowError):
        return None
    return process


def own_start() -> float:
    return float(psutil.Process().create_time())


def load(place: Place) -> EngineRecord | None:
    """None: there is none, or it can't be read."""
    try:
        with open(place.record, "rb") as file:
            return from_plain(EngineRecord, json.loads(file.read(_MOST_BYTES)), "record")
    except (OSError, ValueError, PlainError, RecursionError):
        return None


def save(place: Place, record: EngineRecord) -> None:
    """EngineError: not possible."""
    try:
        write_text(place.record, json.dumps(asdict(record), indent=1) + "\n")
    except OSError as error:
        why = (error.strerror or "error").lower()
        raise EngineError(f"{place.record} can't be written ({why}); make room there.") from None


def withdraw(place: Place, pid: int) -> None:
    """Remove the record of that process, and what belongs to it. Never fails."""
    record = load(place)
    if record is not None and record.pid == pid:
        for path in (place.record, place.key):
            with contextlib.suppress(OSError):
                path.unlink()


def sweep(place: Place) -> bool:
    """Remove what a dead engine has left; true if there is none any more. To be called under the place's lock, if somebody
    might start one."""
    record = load(place)
    if record is not None and record.process() is not None:
        return False
    if unix_socket.is_possible():
        with contextlib.suppress(OSError):
            inode = os.lstat(place.socket).st_ino
            if not unix_socket.is_answered(place.socket):
                unix_socket.remove(place.socket, inode)
            else:
                return False
    if record is not None:
        withdraw(place, record.pid)
    else:
        with contextlib.suppress(OSError):  # nobody could read it
            place.record.unlink()
    return True
