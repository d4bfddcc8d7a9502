"""The header of a GGUF file: read it, and say in one sentence what is wrong with a file that cannot be used.

Owns the format's header (versions 2 and 3, little-endian: magic, counts, metadata, tensor infos). Refuses tensor data, and
any verdict about fill-in-the-middle: metadata is only a hint there, the loaded vocabulary decides.

A file may be garbage or hostile. Nothing is allocated or looped over because a count says so: every length is compared with
what the file still has before it is used, and only the few short values that are wanted are ever kept.
"""

from __future__ import annotations

import math
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from inference.models.gguf_cursor import Cursor, Cut, Damaged
from inference.models.gguf_values import ARRAY, TENSOR_BLOCKS, Value, read_key, read_value, skip_array, skip_value
from inference.models.registry import MODELS
from inference.types import EngineError

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MAX_DIMS = 4
_DEFAULT_ALIGNMENT = 32
_MAX_VALUES = 1 << 16  # some hundred times what the largest models have; so nothing can keep the reader busy for long
_MAX_TENSORS = 1 << 20

_FIM_KEYS = (  # the newer names first
    ("tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id"),
    ("tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.suffix_token_id"),
    ("tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.middle_token_id"),
)
_WANTED = frozenset(
    {"general.architecture", "general.name", "general.type", "general.alignment"}
    | {"tokenizer.ggml.model", "tokenizer.ggml.pre"}
    | {key for pair in _FIM_KEYS for key in pair}
)
_CONTEXT_LENGTH = ".context_length"
_NOT_MODELS = {"adapter": "an adapter", "mmproj": "a projector for images", "imatrix": "an importance matrix"}


@dataclass(frozen=True, slots=True)
class Header:
    """What a GGUF file says of itself. "" and 0 stand for "not given".

    n_bytes: size of the file; n_bytes_expected: the least that its tensors need. n_vocab: entries of the token list.
    kind: `general.type`. fim_hint: ids of the prefix, suffix and middle marker that the metadata gives; None says nothing about
    the vocabulary.
    """

    version: int
    architecture: str
    name: str
    kind: str
    n_tensors: int
    n_bytes: int
    n_bytes_expected: int
    context_length: int
    tokenizer_model: str
    tokenizer_pre: str
    n_vocab: int
    fim_hint: tuple[int, int, int] | None

    @property
    def is_vocabulary_only(self) -> bool:
        return self.n_tensors == 0


def require_file(path: Path) -> int:
    """Size in bytes of the regular file at `path`. EngineError: there is none, or it is something else."""
    try:
        info = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        raise EngineError(f"There is no file {path}; check the path, or choose a model of `midfill models list`.") from None
    except (OSError, ValueError) as error:
        raise EngineError(f"{path} cannot be read ({_reason(error)}); check its path and permissions.") from None
    if stat.S_ISDIR(info.st_mode):
        raise EngineError(f"{path} is a directory; give the path of the GGUF file in it.")
    if not stat.S_ISREG(info.st_mode):
        raise EngineError(f"{path} is not a regular file; give the path of a GGUF file.")
    return info.st_size


def read_header(path: Path) -> Header:
    """The header of the file at `path`. EngineError: missing, unreadable, not a GGUF, another version, cut or damaged.

    Tells nothing about the part behind the header: see `check`.
    """
    n_bytes = require_file(path)
    if n_bytes == 0:
        raise EngineError(f"{path} is empty; pull or copy it again.")
    try:
        with open(path, "rb") as file:
            return _read(Cursor(file, n_bytes), path, n_bytes)
    except Cut:
        raise EngineError(
            f"{path} ends after {n_bytes:,} bytes, before its header does: it is cut short or damaged, pull or copy it again."
        ) from None
    except Damaged as damage:
        raise EngineError(f"{path} has a damaged header ({damage}); pull or copy it again.") from None
    except OSError as error:
        raise EngineError(f"{path} cannot be read ({_reason(error)}); check its permissions.") from None


def check(path: Path, *, vocabulary: bool = False) -> Header:
    """The header of a file that holds a whole model (with `vocabulary`: of one that may hold only a vocabulary).

    EngineError: whatever keeps it from being loaded, as far as the header and the size can tell; one sentence.
    """
    header = read_header(path)
    if header.n_bytes < header.n_bytes_expected:
        raise EngineError(
            f"{path} is cut short: it has {header.n_bytes:,} bytes, its header speaks of {header.n_bytes_expected:,}; "
            "pull it again (or copy it again, if it is not one of `midfill models list`)."
        )
    if header.kind in _NOT_MODELS:
        raise EngineError(f"{path} holds {_NOT_MODELS[header.kind]}, not a model; give the path of a model's GGUF file.")
    if header.is_vocabulary_only and not vocabulary:
        raise EngineError(f"{path} holds only a vocabulary and no weights, so nothing can be generated with it.")
    return header


def refuse_without_fim(name: str) -> EngineError:
    """The error for a model whose vocabulary has no fill-in-the-middle tokens."""
    return EngineError(
        f"{name} has no fill-in-the-middle tokens, so it cannot complete in the middle of a file. "
        f"Choose a base or coder model such as {MODELS[0].id}."
    )


def _read(cursor: Cursor, path: Path, n_bytes: int) -> Header:
    version = _version(cursor, path)
    n_tensors, n_values = cursor.u64(), cursor.u64()
    if n_values > _MAX_VALUES or n_tensors > _MAX_TENSORS:
        raise Damaged(f"{n_values:,} values and {n_tensors:,} tensors")
    values: dict[str, Value] = {}
    n_vocab = 0
    for _ in range(n_values):
        key = read_key(cursor)
        kind = cursor.u32()
        if kind == ARRAY:
            n_items = skip_array(cursor)
            n_vocab = n_items if key == "tokenizer.ggml.tokens" else n_vocab
        elif key in _WANTED or key.endswith(_CONTEXT_LENGTH):
            values[key] = read_value(cursor, kind)
        else:
            skip_value(cursor, kind)
    architecture = _text(values, "general.architecture")
    return Header(
        version=version,
        architecture=architecture,
        name=_text(values, "general.name"),
        kind=_text(values, "general.type"),
        n_tensors=n_tensors,
        n_bytes=n_bytes,
        n_bytes_expected=_expected(cursor, n_tensors, _alignment(values)),
        context_length=_number(values, architecture + _CONTEXT_LENGTH),
        tokenizer_model=_text(values, "tokenizer.ggml.model"),
        tokenizer_pre=_text(values, "tokenizer.ggml.pre"),
        n_vocab=n_vocab,
        fim_hint=_fim_hint(values),
    )


def _version(cursor: Cursor, path: Path) -> int:
    """The format's version, the magic before it having been checked."""
    try:
        magic = cursor.take(4)
    except Cut:
        magic = b""
    if magic != _MAGIC:
        with open(path, "rb") as file:
            begin = file.read(23)
        if begin and _MAGIC.startswith(begin):
            raise Cut
        if begin.startswith(b"version https://git-lfs"):
            raise EngineError(f"{path} is the pointer that Git LFS leaves in place of a file; fetch the file itself.")
        raise EngineError(f"{path} is not a model: it begins with {_show(begin[:4])}, not GGUF; give the path of a GGUF file.")
    version = cursor.u32()
    if version in _VERSIONS:
        return version
    swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
    if 0 < swapped <= max(_VERSIONS):
        raise EngineError(f"{path} is written in the other byte order (big-endian); get the little-endian file of this model.")
    raise EngineError(f"{path} is of GGUF version {version}, but only 2 and 3 can be read; get a current file of this model.")


def _show(begin: bytes) -> str:
    return f'"{begin.decode()}"' if begin.isascii() and begin.decode().isprintable() else "bytes " + begin.hex(" ")


def _reason(error: OSError | ValueError) -> str:
    reason = error.strerror if isinstance(error, OSError) else None
    return (reason or str(error)).lower()


def _alignment(values: dict[str, Value]) -> int:
    alignment = _number(values, "general.alignment") if "general.alignment" in values else _DEFAULT_ALIGNMENT
    if alignment <= 0 or alignment & (alignment - 1):
        raise Damaged(f"alignment {alignment}")
    return alignment


def _expected(cursor: Cursor, n_tensors: int, alignment: int) -> int:
    """Reads the tensor infos. Bytes up to the end of the last tensor, or of the header if there are none."""
    end = 0
    for _ in range(n_tensors):
        read_key(cursor)
        n_dims = cursor.u32()
        if n_dims > _MAX_DIMS:
            raise Damaged(f"a tensor of {n_dims} dimensions")
        shape = [cursor.u64() for _ in range(n_dims)]
        kind, offset = cursor.u32(), cursor.u64()
        per_block, block_bytes = TENSOR_BLOCKS.get(kind, (1, 0))
        end = max(end, offset + -(-math.prod(shape) // per_block) * block_bytes)
    if n_tensors == 0:
        return cursor.position
    return -(-cursor.position // alignment) * alignment + end


def _text(values: dict[str, Value], key: str) -> str:
    value = values.get(key, "")
    return value if isinstance(value, str) else ""


def _number(values: dict[str, Value], key: str) -> int:
    value = values.get(key, 0)
    return value if isinstance(value, int) else 0


def _fim_hint(values: dict[str, Value]) -> tuple[int, int, int] | None:
    ids: list[int] = []
    for newer, older in _FIM_KEYS:
        value = values.get(newer, values.get(older))
        if not isinstance(value, int):
            return None
        ids.append(value)
    return ids[0], ids[1], ids[2]
