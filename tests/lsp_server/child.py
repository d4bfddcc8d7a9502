"""A server process for the tests of stdio: `python -m tests.lsp_server.child MODE`. What a mode does is in `_MODES`."""

from __future__ import annotations

import asyncio
import ctypes
import os
import subprocess
import sys
import threading
import time

from lsp_server.stdio import Pipes, claim_stdio, leave, run_to_exit, serve
from lsp_server.types import Completion, CompletionQuery
from tests.lsp_server.conftest import Script, append_x, build

AGES_S = 600  # longer than any test waits


def noisy(query: CompletionQuery) -> Completion:
    """Everything that writes to standard output: Python, a descriptor, C, a child process."""
    print("noise from print", flush=True)  # noqa: T201
    sys.stdout.write("noise from sys.stdout\n")
    os.write(1, b"noise from descriptor 1\n")
    libc = ctypes.CDLL(None)
    libc.puts(b"noise from C")
    libc.fflush(None)
    code = "import sys; print('noise from a child', len(sys.stdin.read()))"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=10)
    return append_x(query)


def native(query: CompletionQuery) -> Completion:
    """Native work in a thread that nobody can stop, in the loop's own pool as well."""
    sleep = ctypes.CDLL(None).sleep
    threading.Thread(target=sleep, args=(AGES_S,)).start()
    asyncio.get_running_loop().run_in_executor(None, sleep, AGES_S)
    return append_x(query)


def stuck(_query: CompletionQuery) -> Completion:
    """A handler that never gives the loop back."""
    time.sleep(AGES_S)
    raise AssertionError


_MODES = {"plain": append_x, "noisy": noisy, "native": native, "stuck": stuck}


async def main(pipes: Pipes, script: Script) -> int:
    house = build(script)
    return await serve(house.server.protocol, pipes, script.aclose, force=leave)


if __name__ == "__main__":
    run_to_exit(main(claim_stdio(), Script(reply=_MODES[sys.argv[1]])))
