"""What the server's process asks of the interpreter, so that its loop is never held up for long by what is not its own.

Owns the two settings. Refuses to be called by anything but whoever starts serving.
"""

from __future__ import annotations

import gc
import sys

# So long the interpreter lets a thread that computes go on while others wait. With Python's own 5 ms the loop would wait that
# long for each thread that reads or parses beside it.
_SWITCH_S = 0.0005


def keep_loop_free() -> None:
    """To be called when what stays for the process's life has been made, most of it imported modules.

    The collector leaves alone what is there now: looking through all of it took 40 ms at a time, in any callback.
    """
    sys.setswitchinterval(_SWITCH_S)
    gc.freeze()
