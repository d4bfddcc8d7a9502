"""Ending a running decode from outside.

Owns the flag that native code polls and the thread that sets it. Refuses to touch the context.

llama.cpp asks its abort callback before every node of the graph, hundreds of times a step. A Python callback would need the
interpreter lock each time: with another busy Python thread a step of 30 ms took 1,000 ms. So the callback is the C library's
`strlen` over two bytes of ours (0 = go on, 1 = stop), and a thread of ours polls the caller's check while a decode runs.
"""

from __future__ import annotations

import ctypes
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import llama_cpp

_log = logging.getLogger(__name__)
_POLL_S = 0.004


def _c_library() -> ctypes.CDLL:
    if sys.platform == "win32":
        return ctypes.cdll.msvcrt
    return ctypes.CDLL(None)


class AbortFlag:
    """`watching()` surrounds a decode; while it lasts, a check that answers true sets the flag."""

    def __init__(self) -> None:
        self._memory = ctypes.create_string_buffer(2)  # "" or "\x01"
        self._library = _c_library()
        self._callback = ctypes.cast(self._library.strlen, llama_cpp.ggml_abort_callback)
        self._check: Callable[[], bool] | None = None
        self._lock = threading.Lock()
        self._round = 0  # odd while a decode runs; a poll of an older round must not set the flag
        self._wake = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    def attach(self, context: object) -> None:
        """Let the native context poll this flag. The flag must outlive the context."""
        llama_cpp.llama_set_abort_callback(context, self._callback, ctypes.c_void_p(ctypes.addressof(self._memory)))

    def set_check(self, check: Callable[[], bool]) -> None:
        self._check = check
        if self._thread is None:
            self._thread = threading.Thread(target=self._poll, name="midfill-abort", daemon=True)
            self._thread.start()

    def is_wanted(self) -> bool:
        """The check's answer; false if there is none or it failed."""
        if self._check is None:
            return False
        try:
            return bool(self._check())
        except Exception:
            _log.exception("the abort check failed; the decode goes on")
            return False

    @contextmanager
    def watching(self) -> Iterator[None]:
        with self._lock:
            self._round += 1
            self._memory[0] = b"\x00"
        self._wake.set()
        try:
            yield
        finally:
            with self._lock:
                self._round += 1
            self._wake.clear()

    def close(self) -> None:
        """End the thread. Idempotent."""
        self._closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _poll(self) -> None:
        idle = threading.Event()  # never set: a sleep that needs no clock of the caller
        while not self._closed:
            self._wake.wait()
            round_ = self._round
            while round_ % 2 and round_ == self._round and not self._closed:
                if self.is_wanted():
                    with self._lock:
                        if round_ == self._round:
                            self._memory[0] = b"\x01"
                    break
                idle.wait(_POLL_S)
            if round_ == self._round:
                idle.wait(_POLL_S)  # flag set, or between two decodes: wait for the round to end
