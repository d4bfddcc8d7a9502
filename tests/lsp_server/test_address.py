"""What people write behind --tcp."""

from __future__ import annotations

import pytest

from lsp_server.wire.address import Address, is_loopback, parse


@pytest.mark.parametrize(
    ("text", "host", "port", "shown"),
    [
        ("4711", "127.0.0.1", 4711, "127.0.0.1:4711"),
        (":4711", "127.0.0.1", 4711, "127.0.0.1:4711"),
        ("localhost:0", "127.0.0.1", 0, "127.0.0.1:0"),
        ("LocalHost:65535", "127.0.0.1", 65535, "127.0.0.1:65535"),
        ("0.0.0.0:80", "0.0.0.0", 80, "0.0.0.0:80"),
        ("box.local:1", "box.local", 1, "box.local:1"),
        ("[::1]:4711", "::1", 4711, "[::1]:4711"),
        ("[0:0:0:0:0:0:0:0]:007", "::", 7, "[::]:7"),
        ("[fe80::1%eth0]:5", "fe80::1%eth0", 5, "[fe80::1%eth0]:5"),
    ],
)
def test_addresses(text: str, host: str, port: int, shown: str) -> None:
    address = parse(text)
    assert address == Address(host, port)
    assert str(address) == shown
    assert parse(shown) == address


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "[HOST:]PORT"), (":", "[HOST:]PORT"), ("localhost", "[HOST:]PORT"), ("localhost:", "[HOST:]PORT"),
        ("-1", "[HOST:]PORT"), ("1.5", "[HOST:]PORT"), ("٣", "[HOST:]PORT"), ("a:http", "[HOST:]PORT"),
        ("http://a:1", "[HOST:]PORT"), ("[::1]", "brackets"), ("::1:4711", "brackets"), ("[zz]:1", "not an IPv6"),
        ("[127.0.0.1]:1", "not an IPv6"), ("[]:1", "not an IPv6"), ("65536", "65535"), ("a:" + "9" * 5000, "65535"),
    ],
)  # fmt: skip
def test_what_is_no_address(text: str, part: str) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        parse(text)
    assert part in str(raised.value)


@pytest.mark.parametrize(
    ("host", "inside"),
    [("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("0.0.0.0", False), ("::", False), ("10.0.0.1", False),
     ("fe80::1%lo", False), ("localhost", False), ("", False)],
)  # fmt: skip
def test_what_only_this_machine_reaches(host: str, inside: bool) -> None:
    assert is_loopback(host) is inside
