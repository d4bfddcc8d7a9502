"""A server process for the tests of the wire: `python -m tests.lsp_server.child MODE [tcp]`. What a mode does is in `_MODES`;
with `tcp` it listens on a free port of the loopback.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import subprocess
import sys
import threading
import time

from lsp_server.types import Completion, CompletionQuery
from lsp_server.wire import tcp
from lsp_server.wire.address import LOOPBACK, Address
from lsp_server.wire.stdio import Pipes, claim_stdio, leave, run_to_exit, serve, withdraw_stdio
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
    sys.stderr.write("the loop is kept\n")
    sys.stderr.flush()
    time.sleep(AGES_S)
    raise AssertionError


_MODES = {"plain": append_x, "noisy": noisy, "native": native, "stuck": stuck}


async def main(pipes: Pipes, script: Script) -> int:
    house = build(script)
    return await serve(house.server.protocol, pipes, script.aclose, force=leave)


async def main_tcp(script: Script) -> int:
    def open_session() -> tcp.Session:
        return tcp.Session(build(script).server.protocol, script.aclose)

    async def aclose() -> None:
        sys.stderr.write("what sessions share was closed\n")

    return await tcp.serve(Address(LOOPBACK, 0), open_session, aclose, force=leave)


if __name__ == "__main__":
    script = Script(reply=_MODES[sys.argv[1]])
    if sys.argv[2:] == ["tcp"]:
        withdraw_stdio()
        run_to_exit(main_tcp(script))
    run_to_exit(main(claim_stdio(), script))
