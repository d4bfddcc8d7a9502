"""The process that fills a store: `python -m lsp_server.index.worker`, one for each store, of low priority.

Owns its life. It is told its job in the first line of its standard input, and ends when that is closed, when nothing has
been left to do for a while, or at once if another one has the store's lock. It says what it does on standard output, one JSON
object a line: `{"what": "ready"}` when there is a store to be read, `{"what": "progress", "done": n, "left": n}`,
`{"what": "done"}` and `{"what": "trouble", "sentence": …}`. Refuses every setting that is not in its job.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from io import RawIOBase
from pathlib import Path
from typing import Any, BinaryIO

from inference.models.lock import Held, hold
from lsp_server.index import place, schema
from lsp_server.index.place import Place, Trouble
from lsp_server.index.schema import Broken

BUSY, HOPELESS = 75, 78  # exit statuses: another process fills this store; trying again is of no use
LINGER_S = 10.0  # after the last work: what is saved next is found without a start
_NICE = 10  # not more: beside a machine that is busy for long, what somebody has saved is still to be found
_END_S = 3.0  # for one file to be finished when nobody needs the process any more
_MOST_MEMORY = 4 << 30
_VERIFY_S = 1.0
_MOST_ASIDE = 2  # broken stores that are set aside before this is left alone


@dataclass(frozen=True, slots=True)
class Job:
    """root: absolute, with links resolved. roots: those of all folders of the workspace, which globs count from. maker: whose
    parsers these are; symbols made by another are made anew. scan: compare all files first."""

    cache_dir: str
    root: str
    roots: tuple[str, ...]
    globs: tuple[str, ...]
    max_bytes: int
    maker: str
    linger_s: float = LINGER_S
    scan: bool = True

    @property
    def place(self) -> Place:
        return place.place_of(Path(self.cache_dir), self.root)

    @property
    def rules(self) -> str:
        """A word for what counts by this job."""
        told = json.dumps([sorted(set(self.globs)), self.max_bytes])
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    def line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


def job_of(line: bytes) -> Job:
    told = json.loads(line)
    return Job(**{**told, "roots": tuple(told["roots"]), "globs": tuple(told["globs"])})


class Voice:
    """What the process says. Nobody listens any more: then nobody has to."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe = pipe

    def say(self, what: str, **more: Any) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._pipe.write(json.dumps({"what": what, **more}).encode() + b"\n")
            self._pipe.flush()


def main() -> int:
    _be_humble()
    voice = Voice(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)  # whatever native code prints
    told = open(0, "rb", buffering=0, closefd=False)  # noqa: SIM115 - the interpreter's own waits for a lock at its end
    job = job_of(told.readline())
    wanted = threading.Event()
    wanted.set()
    threading.Thread(target=_end_with, args=(told, wanted), daemon=True).start()
    try:
        place.make_private(job.place.directory)
        with hold(job.place.lock):
            return fill(job, voice, wanted.is_set)
    except Held:
        return BUSY
    except Trouble as trouble:
        voice.say("trouble", sentence=str(trouble))
        return HOPELESS
    except OSError as error:
        why = (error.strerror or "error").lower()
        voice.say("trouble", sentence=f"the workspace index is off: {job.place.lock}: {why}; make room, or make it writable")
        return HOPELESS


def fill(job: Job, voice: Voice, is_wanted: Callable[[], bool], clock: Callable[[], float] = time.monotonic) -> int:
    """With the lock held. Returns the exit status. Trouble."""
    for n in range(_MOST_ASIDE + 1):
        try:
            with _meaning(job.place):
                _fill(job, voice, is_wanted, clock)
                return 0
        except Broken:
            if n == _MOST_ASIDE:
                break
            schema.set_aside(job.place)
    raise Trouble(f"the workspace index is off: {job.place.database} is damaged again and again; check the disk")


@contextmanager
def _meaning(where: Place) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        schema.raise_meaning(error, where.database)


def _fill(job: Job, voice: Voice, is_wanted: Callable[[], bool], clock: Callable[[], float]) -> None:
    from lsp_server.index.filling import LOOK_S, Filling, Surroundings, Unwanted
    from lsp_server.index.quiet import OpenRequests
    from lsp_server.index.reading import Guard
    from lsp_server.index.store import Store
    from lsp_server.workspace import Exclusion

    with contextlib.ExitStack() as stack:
        connection = schema.create_or_open(job.place)
        stack.callback(_close, connection)
        store = Store(connection)
        store.forget_made_by_others(job.maker)
        guard = Guard(job.place.at)
        stack.callback(guard.close)
        requests = OpenRequests(job.place.open_requests)
        stack.callback(requests.close)
        around = Surroundings(
            is_wanted, lambda: requests.is_any_open, lambda done, left: voice.say("progress", done=done, left=left), clock
        )
        exclusion = Exclusion(job.globs, job.roots, memo_s=0.0)
        filling = Filling(job.root, exclusion, job.max_bytes, job.rules, store, guard, around)
        voice.say("ready")
        if filling.begin(scan=job.scan or store.rules() != job.rules):
            around.tell(0, store.n_pending())  # it gets on, though it dies now and then
        verify = clock()
        end = verify + job.linger_s
        try:
            while is_wanted() and clock() <= end:
                if filling.work():
                    voice.say("done")
                    end = clock() + job.linger_s
                if clock() >= verify:
                    verify = clock() + _VERIFY_S
                    _verify(job.place, connection)
                time.sleep(LOOK_S)
        except Unwanted:
            return
        place.sweep(job.place.directory)


def _verify(where: Place, connection: sqlite3.Connection) -> None:
    """Somebody has read what can't be. Broken."""
    try:
        where.suspect.unlink()
    except OSError:
        return
    if not schema.is_sound(connection):
        raise Broken("it is damaged")


def _close(connection: sqlite3.Connection) -> None:
    with contextlib.suppress(sqlite3.Error):
        connection.close()


def _be_humble() -> None:
    """Low priority for CPU and disk, and no more memory than a file needs."""
    with contextlib.suppress(OSError, AttributeError):
        os.nice(_NICE)
    try:
        import psutil

        process = psutil.Process()
        if sys.platform == "win32":
            process.nice(psutil.BELOW_NORMAL_PRIORITY_CLASS)
            process.ionice(psutil.IOPRIO_VERYLOW)
        elif hasattr(process, "ionice"):
            process.ionice(psutil.IOPRIO_CLASS_IDLE)
    except (ImportError, OSError, psutil.Error):
        pass  # it works all the same
    if sys.platform != "win32":
        import resource

        with contextlib.suppress(OSError, ValueError):
            _, most = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, most))


def _end_with(pipe: RawIOBase, wanted: threading.Event) -> None:
    """When nobody holds the other end any more, the process ends after the file at hand, or soon."""
    with contextlib.suppress(OSError, ValueError):
        while pipe.read(1):
            pass
    wanted.clear()
    time.sleep(_END_S)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
