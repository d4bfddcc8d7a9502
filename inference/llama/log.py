"""What llama.cpp says: to `logging` at DEBUG, never to descriptors 1 and 2.

Owns the process-wide native log callback, a short memory of errors, so that a failed load can say why, and one of the sizes of
buffers. Refuses to raise: an exception must not cross native frames.
"""

from __future__ import annotations

import ctypes
import logging
import threading
from collections import deque

import llama_cpp

from inference.llama.buffers import Buffer, parse

_log = logging.getLogger(__name__)
_WARN, _ERROR, _CONTINUED = 3, 4, 5  # ggml_log_level; the package's own table names other levels for these numbers


class NativeLog:
    """Lines of the native log. Safe to be called from any thread; native code may log from its own ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._level = 0
        self._partial = ""
        self._errors: deque[str] = deque(maxlen=32)
        self._buffers: deque[Buffer] = deque(maxlen=256)
        self._callback = llama_cpp.llama_log_callback(self._receive)  # kept: a collected callback is a crash

    def install(self) -> None:
        """Take over from whatever callback is set; the package sets one at import that prints to stderr."""
        llama_cpp.llama_log_set(self._callback, ctypes.c_void_p(0))

    def clear_errors(self) -> None:
        with self._lock:
            self._errors.clear()

    def errors(self) -> tuple[str, ...]:
        """Errors and warnings since `clear_errors`, oldest first, at most 32."""
        with self._lock:
            return tuple(self._errors)

    def clear_buffers(self) -> None:
        with self._lock:
            self._buffers.clear()

    def buffers(self) -> tuple[Buffer, ...]:
        """What was laid out in memory since `clear_buffers`, in the order of the log."""
        with self._lock:
            return tuple(self._buffers)

    def _receive(self, level: int, text: bytes, _user_data: object) -> None:
        try:
            for line, at in self._complete_lines(level, text.decode("utf-8", "replace")):
                _log.debug("%s%s", "error: " if at == _ERROR else "", line)
        except Exception:  # native frames are above us, and a log line is worth no failure
            return

    def _complete_lines(self, level: int, text: str) -> list[tuple[str, int]]:
        with self._lock:
            if level != _CONTINUED:
                self._level = level
            *lines, self._partial = (self._partial + text).split("\n")
            if len(self._partial) > 4096:  # something that never ends its line
                lines.append(self._partial)
                self._partial = ""
            complete = [(line.rstrip(), self._level) for line in lines if line.strip()]
            self._errors.extend(line for line, at in complete if at in (_WARN, _ERROR))
            self._buffers.extend(found for line, _ in complete if (found := parse(line)) is not None)
            return complete


native_log = NativeLog()
