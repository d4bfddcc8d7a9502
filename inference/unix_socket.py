"""Unix sockets that only their user can reach: where they may lie, how one is made, and who is at the other end.

Owns the rules: the directory is the user's own and no one else can write to it, the socket's file has mode 0600, nothing on the
way is a link that somebody could turn, a socket that somebody answers on is never replaced. Both ends of the wire use them.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from inference.types import EngineError

if sys.platform != "win32":
    import fcntl

BACKLOG = 1024  # the event loop takes a connection that finds no place in the queue for one that was made
_LONGEST = 100  # bytes of a path; the smallest limit of a system is 104 with its end
_CREDENTIALS = struct.Struct("3i")  # process, user, group


def is_possible() -> bool:
    """Whether this system has Unix sockets that the event loop can use."""
    return hasattr(socket, "AF_UNIX") and sys.platform != "win32"


def make_directory(directory: Path) -> None:
    """Make it, mode 0700, or check the one that is there. EngineError: others could reach into it."""
    try:
        for missing in [each for each in (directory, *directory.parents) if not each.exists()][::-1]:
            missing.mkdir(mode=0o700, exist_ok=True)  # `parents=True` would give those above the mode of the umask
        directory.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise EngineError(f"The directory {directory} can't be made ({_reason(error)}); choose another place.") from None
    require_private(directory)


def require_private(directory: Path) -> None:
    """EngineError: the directory is a link, somebody else's, or can be written to or moved by others."""
    try:
        info = os.lstat(directory)
    except OSError as error:
        raise EngineError(f"The directory {directory} can't be used ({_reason(error)}).") from None
    if stat.S_ISLNK(info.st_mode):
        raise EngineError(f"{directory} is a symbolic link; name the directory itself.")
    if not stat.S_ISDIR(info.st_mode):
        raise EngineError(f"{directory} is not a directory; choose another place for the socket.")
    if info.st_uid != os.geteuid():
        raise EngineError(f"The directory {directory} belongs to somebody else; choose one of your own.")
    if info.st_mode & 0o022:
        raise EngineError(f"Others can write to the directory {directory}; run `chmod 700` on it, or choose another one.")
    for parent in directory.resolve().parents:
        mode = os.stat(parent).st_mode
        if mode & 0o022 and not mode & stat.S_ISVTX:
            raise EngineError(f"Others can write to {parent}, and so replace {directory}; choose another place for the socket.")


def require_trusted(path: Path) -> None:
    """For one who connects: whoever listens there is this user. EngineError: it could be somebody else, or nothing is there."""
    require_private(path.parent)
    try:
        info = os.lstat(path)
    except FileNotFoundError:
        raise EngineError("No engine listens there; start one.") from None
    except OSError as error:
        raise EngineError(f"The socket {path} can't be used ({_reason(error)}).") from None
    if not stat.S_ISSOCK(info.st_mode):
        raise EngineError(f"{path} is not a socket; remove it, or choose another place.")
    if info.st_uid != os.geteuid():
        raise EngineError(f"The socket {path} belongs to somebody else; choose another place.")


def listen(path: Path) -> socket.socket:
    """A listening socket at `path`, mode 0600, its directory made if needed. A file that a dead engine left is replaced.

    EngineError: somebody listens there already, something else is there, or the place is not private.
    """
    if len(os.fsencode(path)) > _LONGEST - 8:
        raise EngineError(f"The path {path} is too long for a socket; choose one of less than {_LONGEST - 8} bytes.")
    make_directory(path.parent)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # It gets its name only when it is ready and private: no one ever meets it half made, and a stale file goes in one step.
    fresh = path.with_name(f".{os.getpid() % 10**7:07d}")
    try:
        with _locked(path.parent):
            _require_free(path)
            fresh.unlink(missing_ok=True)
            listener.bind(str(fresh))
            os.chmod(fresh, 0o600)
            listener.listen(BACKLOG)
            listener.setblocking(False)
            os.replace(fresh, path)
    except BaseException as error:
        listener.close()
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise EngineError(f"Can't listen on {path} ({_reason(error)}); choose another place.") from None
        raise
    return listener


def _require_free(path: Path) -> None:
    """Nothing is there, or a socket of ours that nobody answers on."""
    try:
        info = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(info.st_mode) or info.st_uid != os.geteuid():
        raise EngineError(f"{path} is there and is no socket of yours; remove it, or choose another place.")
    if is_answered(path):
        raise EngineError(f"An engine listens on {path} already; use that one, or stop it.")


def is_answered(path: Path) -> bool:
    """Whether somebody listens there, however busy."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:  # its queue is full: somebody is there
            return True
        except OSError:
            return False
    return True


def remove(path: Path, listener_inode: int) -> None:
    """Remove the socket's file, unless another engine has taken the name. Never fails."""
    with contextlib.suppress(OSError), _locked(path.parent):
        if os.lstat(path).st_ino == listener_inode:
            path.unlink()


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """One at a time changes the sockets in it. Waits for the others, which takes them no time."""
    handle = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def peer(connection: socket.socket) -> tuple[int, int] | None:
    """Process and user at the other end of a Unix socket; None where the system does not tell."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    try:
        pid, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))
    except OSError:
        return None
    return pid, uid


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
