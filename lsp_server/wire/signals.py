"""Signals that end the process, told from a thread: they come through whatever the event loop is doing."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable


def on_signals(on_signal: Callable[[int], None]) -> None:
    """on_signal is called from a thread for SIGINT and SIGTERM. To be called once, from the main thread."""
    inner, outer = socket.socketpair()
    outer.setblocking(False)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: None)  # or there would be no byte on the wake-up descriptor
    signal.set_wakeup_fd(outer.fileno(), warn_on_full_buffer=False)

    def wait(_kept_open: socket.socket) -> None:
        while came := inner.recv(1):
            on_signal(came[0])

    threading.Thread(target=wait, args=(outer,), name="midfill-signals", daemon=True).start()
