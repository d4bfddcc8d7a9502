"""Where an engine is reached, and the key that opens it.

Owns the address as a value, and key files: made once, readable by their owner only, refused otherwise. Refuses to connect.
"""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from inference.types import EngineError

_KEY = re.compile(rb"[\x21-\x7e]{16,512}")  # a header's value can't hold more


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A Unix socket's path, or the address of a server (`http://HOST:PORT`, or https behind a proxy that ends TLS)."""

    socket: Path | None = None
    url: str = ""
    key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if (self.socket is None) == (not self.url):
            raise ValueError("an endpoint is a socket or an address")
        if self.url:
            parts = urlsplit(self.url)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query or parts.fragment:
                raise EngineError(f"{self.url.rpartition('@')[2]} is not the address of an engine; write http://HOST:PORT.")

    def __str__(self) -> str:
        return str(self.socket) if self.socket is not None else self.url


def is_loopback(host: str) -> bool:
    """Whether a host, as a number or `localhost`, is this machine alone. False if in doubt."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def read_key(path: Path) -> str:
    """The key in a file, blanks around it removed. EngineError: it can't be read, others can read it, or it is no key."""
    try:
        with open(path, "rb") as file:
            info = os.fstat(file.fileno())
            data = file.read(4096).strip()
    except OSError as error:
        raise EngineError(f"The key file {path} can't be read ({(error.strerror or 'error').lower()}).") from None
    if os.name == "posix":
        if info.st_uid not in (os.geteuid(), 0):
            raise EngineError(f"The key file {path} belongs to somebody else; use one of your own.")
        if stat.S_IMODE(info.st_mode) & 0o077:
            raise EngineError(f"Others can read the key file {path}; run `chmod 600` on it, and change the key.")
    if not _KEY.fullmatch(data):
        raise EngineError(f"The key file {path} holds no key; write 16 to 512 printable characters without blanks into it.")
    return data.decode()


def at_url(url: str, key_file: str) -> Endpoint:
    """An engine on another machine, from the settings. EngineError: no address, no key."""
    Endpoint(url=url)  # what is no address is told before a key is asked for
    key = read_key(Path(key_file).expanduser()) if key_file else ""
    if not key:
        raise EngineError(f"{url} needs a key; name the file that holds it with the setting `api_key_file`.")
    return Endpoint(url=url, key=key)


def make_key(path: Path) -> str:
    """The key in the file, which is made with a fresh one (256 bits, mode 0600) if it is not there. EngineError."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    key = secrets.token_urlsafe(32)
    try:
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with open(handle, "w", encoding="ascii") as file:
                file.write(key + "\n")
            os.link(fresh, path)  # complete when it appears, and never over another one
        finally:
            os.unlink(fresh)
    except FileExistsError:
        return read_key(path)
    except OSError as error:
        raise EngineError(f"The key file {path} can't be made ({(error.strerror or 'error').lower()}).") from None
    return key
