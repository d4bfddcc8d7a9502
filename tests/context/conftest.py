"""A tiny tokenizer whose tokens can be read back, and the real vocabulary where a model is on disk."""

from __future__ import annotations

import functools
import lzma
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from context.tokens import TokenTable
from context.types import Tokenizer
from tests.support.layouts import layout

if TYPE_CHECKING:
    from inference.llama.vocab import LlamaVocab

_PACKED = Path(__file__).parent.parent / "support" / "vocabularies"
ANCHORED = layout("anchored")
CONTROL = {1, 2, 3, 4}

_SPLIT = re.compile(r"[^\r\n\w]?[^\W\d_]+|\d| ?(?:[^\s\w]|_)+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
_PIECE = 6  # bytes; longer matches are several tokens


class WordTokenizer:
    """Splits as the "qwen2" pre-tokenizer does, then into pieces of at most six bytes. A token's id holds its bytes."""

    def __init__(self) -> None:
        self.n_bytes = 0

    def encode(self, text: bytes) -> tuple[int, ...]:
        self.n_bytes += len(text)
        tokens: list[int] = []
        for match in _SPLIT.finditer(text.decode()):
            data = match.group().encode()
            tokens += (int.from_bytes(b"\x01" + data[i : i + _PIECE], "big") + 1000 for i in range(0, len(data), _PIECE))
        return tuple(tokens)


def decode(tokens: Sequence[int]) -> bytes:
    """Text of WordTokenizer's tokens. Fails on a control token."""
    return b"".join(_bytes_of(token) for token in tokens)


def _bytes_of(token: int) -> bytes:
    assert token not in CONTROL
    number = token - 1000
    return number.to_bytes((number.bit_length() + 7) // 8, "big")[1:]


def new_table(pre_type: str = "qwen2") -> TokenTable:
    return TokenTable(WordTokenizer(), pre_type)


@pytest.fixture(scope="session")
def packed_vocab(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], LlamaVocab]:
    """Vocabularies of `tests/support/vocabularies`, by name; each is loaded once."""
    from inference.llama.vocab import load_vocab

    @functools.cache
    def load(name: str) -> LlamaVocab:
        path = tmp_path_factory.mktemp("vocabularies") / f"{name}.gguf"
        path.write_bytes(lzma.decompress((_PACKED / f"{name}.gguf.xz").read_bytes()))
        vocab = load_vocab(path)
        path.unlink()
        return vocab

    return load


@pytest.fixture(scope="session")
def real_tokenizer(real_model_path: Path) -> Tokenizer:
    from inference.llama.vocab import load_vocab

    vocab = load_vocab(real_model_path)
    if vocab.pre_type != "qwen2":
        pytest.skip(f"the model's pre-tokenizer is {vocab.pre_type!r}, not qwen2")
    return vocab
