"""A program in a terminal of its own: keys are bytes, the screen is what it has written so far."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

ROWS, COLUMNS = 40, 120


class Terminal:
    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], folder: Path, size: tuple[int, int] = (ROWS, COLUMNS)
    ) -> None:
        """size: rows and columns."""
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        self.process = subprocess.Popen(
            list(command), stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=folder, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # /dev/tty is it, too
        )  # fmt: skip
        os.close(theirs)
        self.screen = bytearray()  # with the control sequences
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # the program has ended
            while data := os.read(self._ours, 65536):
                self.screen += data

    def send(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def close(self) -> None:
        """Wait for the program's end, or end it."""
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(10)
        os.close(self._ours)
