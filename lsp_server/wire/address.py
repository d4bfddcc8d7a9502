"""Where to listen: `[HOST:]PORT` as people write it. Loopback unless another host is named. Asks no name service."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

LOOPBACK = "127.0.0.1"
_FORM = re.compile(r"(?:(?P<host>\[[^\[\]]*\]|[^\[\]:]*):)?(?P<port>[0-9]+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Address:
    """host: a name or a number, without brackets. port: 0 = any that is free."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse(text: str) -> Address:
    """`PORT`, `:PORT`, `HOST:PORT` or `[IPv6]:PORT`; without a host, or with `localhost`, it is 127.0.0.1. ValueError: one
    sentence that says what is wrong."""
    found = _FORM.fullmatch(text.strip())
    if found is None:
        hint = "; an IPv6 address stands in brackets, as in [::1]:4711" if text.count(":") > 1 else ""
        raise ValueError(f"{text!r} is not [HOST:]PORT{hint}")
    port = int(found["port"][:6])
    if port > 65535 or len(found["port"]) > 5:
        raise ValueError(f"{text!r}: a port is a number from 0 to 65535")
    host = found["host"] or ""
    if host.startswith("["):
        try:
            host = str(ipaddress.IPv6Address(host[1:-1]))
        except ValueError:
            raise ValueError(f"{text!r}: what stands in brackets is not an IPv6 address") from None
    return Address(LOOPBACK if host.lower() in ("", "localhost") else host, port)


def is_loopback(host: str) -> bool:
    """host: a number, as a socket tells it. False if in doubt."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
