"""A process that will be an engine, started before it is known which one.

It imports what an engine needs while whoever started it has still its own imports to do, and then waits to be told. Owns the
process until then: one that is told nothing ends when its standard input does, or after a while.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inference.environment import reduced
from inference.types import EngineError

WAIT_S = 60.0  # for the word which engine it is to be


def detached() -> dict[str, Any]:
    """How `subprocess.Popen` starts a process that the end of this one does not reach."""
    if sys.platform == "win32":
        flags = subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP
        return {"env": reduced(os.environ), "cwd": os.path.expanduser("~"), "creationflags": flags}
    return {"env": reduced(os.environ), "cwd": "/", "start_new_session": True}


class Spare:
    """Any thread may use it. begin: how each engine's command line begins. wait: the arguments of one that does not know yet
    what it is, and runs `await_word`."""

    def __init__(self, begin: Sequence[str], wait: Sequence[str]) -> None:
        self._begin = list(begin)
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        with contextlib.suppress(OSError):  # then there is none
            self._child = subprocess.Popen(
                [*begin, *wait], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **detached()
            )

    def take(self, command: Sequence[str], log: Path) -> subprocess.Popen[bytes] | None:
        """Make it the engine that this command line starts, its standard error the log; None: it can't be, or is not there any
        more."""
        n = len(self._begin)
        if list(command[:n]) != self._begin:
            return None
        with self._lock:
            child, self._child = self._child, None
        if child is None:
            return None
        assert child.stdin is not None
        try:
            with child.stdin:
                child.stdin.write(json.dumps({"arguments": list(command[n:]), "log": str(log)}).encode() + b"\n")
        except OSError:
            _let_go(child)
            return None
        return child

    def close(self) -> None:
        """It is not needed."""
        with self._lock:
            child, self._child = self._child, None
        if child is not None:
            _let_go(child)


def end_group(child: subprocess.Popen[bytes]) -> None:
    """The process and those that it has started."""
    with contextlib.suppress(OSError):
        if sys.platform != "win32":
            os.killpg(child.pid, signal.SIGKILL)
        else:
            child.kill()


def _let_go(child: subprocess.Popen[bytes]) -> None:
    end_group(child)
    for pipe in (child.stdin, child.stdout):
        with contextlib.suppress(OSError):
            if pipe is not None:
                pipe.close()
    threading.Thread(target=child.wait, daemon=True).start()


def await_word() -> tuple[list[str], Path] | None:
    """In the process itself: the arguments and the log that it is told; None: it is not needed. EngineError: nonsense."""
    timer = threading.Timer(WAIT_S, os._exit, (0,))
    timer.daemon = True
    timer.start()
    line = sys.stdin.buffer.readline()
    timer.cancel()
    if not line.endswith(b"\n"):
        return None
    try:
        told = json.loads(line)
        return [str(word) for word in told["arguments"]], Path(told["log"])
    except (ValueError, KeyError, TypeError):
        raise EngineError("the engine was told nonsense on its standard input") from None
