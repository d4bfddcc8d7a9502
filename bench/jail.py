"""The child process in which one program runs; started by `bench.sandbox`, never imported by it.

Owns the limits, from inside: processor time, memory, file sizes and processes by rlimits; no network by a namespace of its own
and no writing outside its folder by Landlock, where the kernel lets it; and an audit hook, on every system, that refuses other
processes, sockets, native code and changes of files elsewhere. That is enough for programs that a model wrote; it is no wall
against somebody who means harm.

Run as `python -B -P -s -S jail.py`, with the program in ./program.py. Standard input: one line of JSON, {"nonce", "cpu_s",
"memory"}. Standard output: one line of JSON with the guards that stand, then the nonce if the program ran to its end, else the
name of what it raised. The program itself has no standard streams and does not know the nonce: nothing that it prints, and no
way in which it leaves early, looks like success.
"""

from __future__ import annotations

import json
import os
import resource
import struct
import sys
import types
from typing import Any

NEW_USER_NAMESPACE, NEW_NETWORK = 0x10000000, 0x40000000
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446  # the same on every architecture
LANDLOCK_BENEATH = 1
NO_NEW_PRIVILEGES = 38
# write to files, and make or remove any kind of entry; what else Landlock knows stays allowed
WRITES = 1 << 1 | sum(1 << bit for bit in range(4, 13))

MOST_FILE_BYTES = 1 << 20
MOST_OPEN_FILES = 32

REFUSED = ("os.fork", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "os.kill", "os.putenv", "os.startfile",
           "pty.", "subprocess.", "socket.", "ctypes.", "resource.", "signal.", "webbrowser.")  # fmt: skip
ON_FILES = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown",
            "os.utime", "os.setxattr", "os.removexattr", "shutil.")  # fmt: skip
OPENED_TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def main() -> None:
    setup = json.loads(sys.stdin.readline())
    with open("program.py", encoding="utf-8") as file:
        source = file.read()
    report = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    # held here: the program may put something else in their place
    write, leave, done = os.write, os._exit, str(setup["nonce"]).encode()
    folder = os.path.realpath(".")
    guards = {"network": leave_network(), "files": write_only_in(folder), "rlimits": _limit(setup["cpu_s"], setup["memory"])}
    write(report, json.dumps(guards).encode() + b"\n")
    sys.addaudithook(_refusing(folder))
    try:
        module = types.ModuleType("program")
        sys.modules["program"] = module
        exec(compile(source, "program.py", "exec"), module.__dict__)
    except BaseException as error:
        done = type(error).__name__.encode("utf-8", "replace")[:64]
    write(report, done)
    leave(0)


def _limit(cpu_s: int, memory: int) -> bool:
    """Whether all of them were taken."""
    limits = {
        "RLIMIT_CPU": cpu_s,
        "RLIMIT_AS": memory,
        "RLIMIT_FSIZE": MOST_FILE_BYTES,
        "RLIMIT_NOFILE": MOST_OPEN_FILES,
        "RLIMIT_CORE": 0,
        "RLIMIT_NPROC": 1,  # the kernel lets root have more; the audit hook does not
    }
    is_complete = True
    for name, value in limits.items():
        try:
            resource.setrlimit(getattr(resource, name), (value, value))
        except (AttributeError, OSError, ValueError):
            is_complete = False
    return is_complete


def _libc() -> Any:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def leave_network() -> bool:
    """Into a network namespace in which there is no network, not even loopback."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        return bool(_libc().unshare(NEW_USER_NAMESPACE | NEW_NETWORK) == 0)
    except (AttributeError, OSError):
        return False


def write_only_in(folder: str) -> bool:
    """From here on the kernel refuses to write, make or remove files anywhere else."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        import ctypes

        libc = _libc()
        libc.syscall.restype = ctypes.c_long
        rights = ctypes.create_string_buffer(struct.pack("=Q", WRITES), 8)
        rules = libc.syscall(LANDLOCK_CREATE, rights, ctypes.c_size_t(8), 0)
        if rules < 0:
            return False
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        beneath = ctypes.create_string_buffer(struct.pack("=Qi", WRITES, place), 12)
        return bool(
            libc.syscall(LANDLOCK_ADD, rules, LANDLOCK_BENEATH, beneath, 0) == 0
            and libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
            and libc.syscall(LANDLOCK_RESTRICT, rules, 0) == 0
        )
    except (AttributeError, OSError):
        return False


def _refusing(folder: str) -> Any:
    """The audit hook. A hook can not be taken away again."""
    inside = folder + os.sep
    real, text = os.path.realpath, os.fsdecode

    def is_outside(path: object) -> bool:
        return isinstance(path, (str, bytes)) and not real(text(path)).startswith(inside)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            flags = arguments[2]
            if isinstance(flags, int) and flags & OPENED_TO_WRITE and is_outside(arguments[0]):
                raise PermissionError("writing outside of the folder")
        elif event.startswith(REFUSED) or (event.startswith(ON_FILES) and any(map(is_outside, arguments))):
            raise PermissionError(event)

    return hook


if __name__ == "__main__":
    main()
