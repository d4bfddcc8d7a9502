"""One child process with a time limit, for questions that may hang, crash or not exist.

Owns its start, its end with everything that it started, and how that end is told. Refuses to raise for what the child does:
not found, killed, too slow and gone wrong are all answers.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_GRACE_S = 2.0  # for what a killed child had still in its pipes
_SIGNALS = {
    "SIGILL": "it used an instruction that this CPU doesn't have",
    "SIGSEGV": "it touched memory that isn't its own",
    "SIGBUS": "a file that it had mapped became shorter, or a disk failed",
    "SIGABRT": "it gave up by itself",
    "SIGKILL": "something ended it, perhaps for want of memory",
    "SIGFPE": "an arithmetic fault",
}
# what Windows gives as exit status, by the name of the signal that it is nearest to
_WINDOWS = {0xC000001D: "SIGILL", 0xC0000005: "SIGSEGV", 0xC0000409: "SIGABRT", 0xC0000094: "SIGFPE"}


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended. code: its exit status, negative for a signal; None = it could not be started (`error` says why).

    is_late: it was ended because its time was over; output and error then hold what it wrote until that.
    """

    code: int | None
    output: bytes = b""
    error: str = ""
    is_late: bool = False

    @property
    def is_good(self) -> bool:
        return self.code == 0 and not self.is_late

    @property
    def signal(self) -> str:
        """Name of the signal that ended it, "" if none did."""
        if self.code is None or self.is_late:
            return ""
        if self.code < 0:
            try:
                return signal.Signals(-self.code).name
            except ValueError:
                return f"signal {-self.code}"
        return _WINDOWS.get(self.code, "")

    @property
    def how(self) -> str:
        """The end in a few words: "it …"."""
        if self.code is None:
            return f"it could not be started ({self.error})"
        if self.is_late:
            return "it took too long and was ended"
        if self.signal:
            meaning = _SIGNALS.get(self.signal, "")
            return f"it was ended by {self.signal}" + (f": {meaning}" if meaning else "")
        return f"it ended with exit status {self.code}"


def run(command: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None) -> Ended:
    """Run a program without input. environment: None = this process's. An interruption (KeyboardInterrupt) ends it, too."""
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if environment is None else dict(environment),
            start_new_session=sys.platform != "win32",  # a group of its own, so that its children can be ended with it
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        return Ended(None, error=reason or str(error))
    is_late = False
    try:
        output, errors = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        is_late = True
        _end(child)
        output, errors = _left(child)
    except BaseException:
        _end(child)
        raise
    return Ended(child.returncode, output, errors.decode("utf-8", "replace"), is_late)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill the child and everything in its group, which may hold its pipes open."""
    if sys.platform != "win32":
        with contextlib.suppress(OSError):  # it ended meanwhile
            os.killpg(child.pid, signal.SIGKILL)
    child.kill()


def _left(child: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    try:
        return child.communicate(timeout=_GRACE_S)
    except subprocess.TimeoutExpired as error:  # somebody who left the group holds a pipe
        return error.output or b"", error.stderr or b""
