"""Is the client still alive? A daemon thread looks once a second, so that a busy loop can't keep an orphan running."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import psutil

INTERVAL_S = 1.0


def is_alive(process: psutil.Process) -> bool:
    """False also for a zombie, which nobody has waited for yet, and for another process under the same number."""
    try:
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:  # not ours to look at, so it is there
        return True


def watch_process(pid: int, gone: Callable[[], None], interval_s: float = INTERVAL_S) -> None:
    """Call gone() once, from another thread, when the process does not exist (any more)."""

    def watch() -> None:
        try:
            process = psutil.Process(pid)
        except psutil.NoSuchProcess:
            gone()
            return
        except ValueError:  # -1 and the like name no process: the pipe tells when the client is gone
            return
        while is_alive(process):
            time.sleep(interval_s)
        gone()

    threading.Thread(target=watch, name="midfill-client-watch", daemon=True).start()
