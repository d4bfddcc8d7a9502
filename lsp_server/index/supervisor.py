"""Starts the process that fills a store whenever there is something to do, and again when it has died.

Owns one thread, which waits for the process, and the process's end. Several servers may want to start one: the store's lock
lets one run, and the others look again later. Refuses to know what is to be done; the store knows.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from inference.environment import reduced
from inference.models.lock import Held, hold
from lsp_server.index.worker import BUSY, HOPELESS, Job

log = logging.getLogger(__name__)

_LOOK_AGAIN_S = 1.0  # when another server's process fills the store
_HOPELESS_S = 60.0  # a disk may have been full only for a while
_MOST_IN_A_ROW = 6
_FIRST_WAIT_S, _MOST_WAIT_S = 0.2, 30.0


@dataclass(frozen=True, slots=True)
class News:
    """what: "ready", "progress", "done" or "trouble"; see `worker`. done, left: files. sentence: of trouble."""

    what: str
    done: int = 0
    left: int = 0
    sentence: str = ""


def command_line() -> list[str]:
    home = Path(__file__).resolve().parent.parent.parent
    begin = "import sys; sys.path.append(sys.argv.pop(1)); from lsp_server.index.worker import main; sys.exit(main())"
    return [sys.executable, "-P", "-c", begin, str(home)]


class Supervisor:
    """on_news: called from the thread. is_needed: whether the store says that something is to be done."""

    def __init__(
        self,
        job: Job,
        on_news: Callable[[News], None],
        is_needed: Callable[[], bool],
        command: Sequence[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._job = job
        self._on_news = on_news
        self._is_needed = is_needed
        self._command = list(command) if command is not None else command_line()
        self._clock = clock
        self._needed = threading.Event()
        self._closed = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._not_before = 0.0
        self._n_silent_deaths = 0  # in a row, without anything said
        self._has_spoken = False
        self._has_scanned = False
        self._thread = threading.Thread(target=self._run, name="index", daemon=True)

    def start(self, *, is_needed: bool = True) -> None:
        """is_needed: at once, without waiting for `need`."""
        if is_needed:
            self._needed.set()
        self._thread.start()

    def need(self) -> None:
        """Something is to be done. Costs nothing if the process runs: it looks by itself."""
        self._needed.set()

    def close(self) -> None:
        """The process ends after the file at hand. Does not wait."""
        self._closed.set()
        self._needed.set()
        with self._lock:
            self._hang_up()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    @property
    def pid(self) -> int | None:
        child = self._child
        return child.pid if child is not None else None

    def _run(self) -> None:
        while True:
            self._needed.wait()
            self._closed.wait(max(0.0, self._not_before - self._clock()))
            if self._closed.is_set():
                return
            code = BUSY if self._is_filled_elsewhere() else self._run_child()
            if self._closed.is_set():
                return
            if code not in (0, BUSY):
                self._died(code)
                continue
            self._n_silent_deaths = 0
            if code == 0:
                self._has_scanned = True
            else:
                self._closed.wait(_LOOK_AGAIN_S)
            self._be_content()
            if self._is_needed():
                self._needed.set()

    def _be_content(self) -> None:
        self._needed.clear()
        if self._closed.is_set():  # meanwhile: the thread is to notice
            self._needed.set()

    def _died(self, code: int) -> None:
        """Or said that it can't work. See to it that it is started again, soon, later, or when it is next needed."""
        if code == HOPELESS:
            self._not_before = self._clock() + _HOPELESS_S
            self._be_content()
            return
        log.warning("the process that fills the index has ended with %d", code)
        self._n_silent_deaths = 0 if self._has_spoken else self._n_silent_deaths + 1
        if self._n_silent_deaths < _MOST_IN_A_ROW:
            self._closed.wait(min(_FIRST_WAIT_S * 2**self._n_silent_deaths, _MOST_WAIT_S))
            return
        self._n_silent_deaths = 0
        self._not_before = self._clock() + _HOPELESS_S
        self._be_content()
        sentence = "the workspace index is off: its process dies as soon as it is started; run midfill doctor"
        self._on_news(News("trouble", sentence=sentence))

    def _is_filled_elsewhere(self) -> bool:
        """Another server's process is at work. Asking costs less than starting one that ends at once."""
        try:
            with hold(self._job.place.lock):
                return False
        except Held:
            return True
        except OSError:  # there is no directory yet, or the process will say what is wrong
            return False

    def _run_child(self) -> int:
        """Its exit status."""
        self._has_spoken = False
        try:
            child = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                cwd=os.path.abspath(os.sep), env=reduced(os.environ),
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )  # fmt: skip
        except OSError as error:
            why = (error.strerror or "error").lower()
            self._on_news(News("trouble", sentence=f"the workspace index is off: its process can't be started ({why})"))
            return HOPELESS
        with self._lock:
            self._child = child
            if self._closed.is_set():
                self._hang_up()
        assert child.stdin is not None and child.stdout is not None
        with contextlib.suppress(OSError, ValueError):  # it has died already, or was hung up on
            child.stdin.write(replace(self._job, scan=not self._has_scanned).line())
            child.stdin.flush()
        with child.stdout:
            for line in child.stdout:
                news = _news(line)
                if news is not None:
                    self._has_spoken = self._has_spoken or news.what in ("progress", "done")
                    self._on_news(news)
        code = child.wait()
        with self._lock:
            self._hang_up()
            self._child = None
        return code

    def _hang_up(self) -> None:
        child = self._child
        if child is not None and child.stdin is not None:
            with contextlib.suppress(OSError, ValueError):
                child.stdin.close()


def _news(line: bytes) -> News | None:
    try:
        told = json.loads(line)
        return News(told["what"], int(told.get("done", 0)), int(told.get("left", 0)), str(told.get("sentence", "")))
    except (ValueError, KeyError, TypeError):
        return None
