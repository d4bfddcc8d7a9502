"""The vocabulary of a GGUF: text to tokens, token to bytes, and which tokens are no text.

Owns the rules for text that the native tokenizer can't be trusted with: bytes that are not UTF-8 (a code point beyond U+10FFFF
ends the process), very long runs (some pre-tokenizers overflow the stack), and merges that would make a control token of user
text. Refuses to change after it was made: any thread may use it.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterable
from itertools import pairwise, repeat
from pathlib import Path
from typing import Any

import llama_cpp

from inference.llama.fim import marker_ids, read_fim
from inference.llama.load import ModelHandle, open_model
from inference.types import FimTokens, Marker

_SENTENCEPIECE = 1  # llama_vocab_type
_UNUSED, _CONTROL, _USER_DEFINED = 2, 8, 16  # llama_token_attr, bits
_SPECIAL = _UNUSED | _CONTROL | _USER_DEFINED
# Pre-tokenizers seen to take runs of a million equal characters. Others go through a recursive regular expression, which
# overflowed the stack between 10,000 and 100,000; there a run is tokenized in parts.
_UNLIMITED_RUNS = frozenset(
    {"qwen2", "qwen35", "gpt-2", "llama-bpe", "starcoder", "refact", "command-r", "codeshell", "smollm", "olmo", "stablelm2"}
)
_LONG_RUN = re.compile(r"\S{2048}|\s{2048}")
_BAD_BYTES = re.compile("([\udc80-\udcff]+)")
_BAD_BYTES_OR_BLANK_MARK = re.compile("([\udc80-\udcff▁]+)")  # SentencePiece writes a blank as U+2581, and reads it so


class LlamaVocab:
    """Fits `inference.backend.Vocab`. stop_tokens also holds tokens without bytes (padding of the table)."""

    def __init__(self, handle: ModelHandle) -> None:
        self._handle = handle  # keeps the native vocabulary alive
        self._vocab: Any = llama_cpp.llama_model_get_vocab(handle.pointer)
        self._pre_type = handle.metadata("tokenizer.ggml.pre")
        self._pieces = self._read_pieces(llama_cpp.llama_vocab_n_tokens(self._vocab))
        self._attributes = tuple(self._of_all(llama_cpp.llama_vocab_get_attr))
        self._bos = self._read_bos()
        fim = self._read_fim(f"{handle.metadata('general.name')} {handle.path.name}")
        self._fim = None if isinstance(fim, str) else fim
        self._why_no_fim = fim if isinstance(fim, str) else ""
        self._stop_tokens = self._read_stop_tokens()
        self._byte_tokens = {
            piece[0]: token for token, piece in enumerate(self._pieces) if len(piece) == 1 and token not in self._stop_tokens
        }
        is_sentencepiece = llama_cpp.llama_vocab_type(self._vocab) == _SENTENCEPIECE
        self._unsafe = _BAD_BYTES_OR_BLANK_MARK if is_sentencepiece else _BAD_BYTES
        self._cuts_runs = not is_sentencepiece and self._pre_type not in _UNLIMITED_RUNS

    @property
    def n_tokens(self) -> int:
        return len(self._pieces)

    @property
    def fim(self) -> FimTokens | None:
        return self._fim

    @property
    def why_no_fim(self) -> str:
        return self._why_no_fim

    @property
    def bos(self) -> Marker | None:
        return self._bos

    @property
    def pieces(self) -> tuple[bytes, ...]:
        return self._pieces

    @property
    def stop_tokens(self) -> frozenset[int]:
        return self._stop_tokens

    @property
    def pre_type(self) -> str:
        return self._pre_type

    def encode(self, text: bytes) -> tuple[int, ...]:
        """Tokens whose pieces, joined, are `text`. What is not UTF-8 becomes byte tokens, where the vocabulary has them."""
        if not text:
            return ()
        characters = text.decode("utf-8", "surrogateescape")
        tokens: list[int] = []
        for i, part in enumerate(self._unsafe.split(characters)):
            if i % 2:
                tokens += self._as_bytes(part.encode("utf-8", "surrogateescape"))
            elif part:
                for run in self._parts(part):
                    tokens += self._exact(run.encode())
        return tuple(tokens)

    def _exact(self, text: bytes) -> list[int]:
        tokens = self._tokenize(text)
        n_bytes = sum(map(len, map(self._pieces.__getitem__, tokens)))
        if n_bytes == len(text) and self._stop_tokens.isdisjoint(tokens):
            return tokens
        return self._respelled(tokens, text)

    def _parts(self, text: str) -> Iterable[str]:
        if not self._cuts_runs:
            return (text,)
        cuts = [0, *(match.end() for match in _LONG_RUN.finditer(text)), len(text)]
        return [text[a:b] for a, b in pairwise(cuts) if a < b]

    def _tokenize(self, text: bytes, *, parse_special: bool = False) -> list[int]:
        n_max = len(text) + 1  # a token has at least one byte, and no blank is put in front
        out = (llama_cpp.llama_token * n_max)()
        n = llama_cpp.llama_tokenize(self._vocab, text, len(text), out, n_max, False, parse_special)
        if n < 0:
            n_max = -n
            out = (llama_cpp.llama_token * n_max)()
            n = llama_cpp.llama_tokenize(self._vocab, text, len(text), out, n_max, False, parse_special)
        return out[: max(n, 0)]

    def _as_bytes(self, text: bytes) -> list[int]:
        tokens: list[int] = []
        for byte in text:
            token = self._byte_tokens.get(byte)
            tokens += self._tokenize("\ufffd".encode()) if token is None else [token]
        return tokens

    def _respelled(self, tokens: list[int], text: bytes) -> list[int]:
        """The same tokens, but where merges made a control or byte token of its spelled name, that name in parts."""
        result: list[int] = []
        at = 0
        for token in tokens:
            piece = self._pieces[token]
            if token not in self._stop_tokens and text.startswith(piece, at):
                result.append(token)
                at += len(piece)
                continue
            name = llama_cpp.llama_vocab_get_text(self._vocab, token)
            if len(name) < 2 or not text.startswith(name, at):
                break
            result += self.encode(name[:1]) + self.encode(name[1:])
            at += len(name)
        return result + self._as_bytes(text[at:])

    def _read_pieces(self, n: int) -> tuple[bytes, ...]:
        """Of 150,000 tokens it takes a good part of the start: nothing is made anew for each."""
        piece, vocab, buffer = llama_cpp.llama_token_to_piece, self._vocab, ctypes.create_string_buffer(64)
        pieces: list[bytes] = []
        for token in range(n):
            size = piece(vocab, token, buffer, 64, 0, False)
            if size < 0:  # too small; the answer says how much is needed
                longer = ctypes.create_string_buffer(-size)
                size = piece(vocab, token, longer, len(longer), 0, False)
                pieces.append(ctypes.string_at(longer, max(size, 0)))
            else:
                pieces.append(ctypes.string_at(buffer, size))
        return tuple(pieces)

    def _of_all(self, function: Callable[[Any, int], int]) -> Iterable[int]:
        """What the native function says of each token."""
        return map(function, repeat(self._vocab), range(self.n_tokens))

    def _read_bos(self) -> Marker | None:
        token = llama_cpp.llama_vocab_bos(self._vocab) if llama_cpp.llama_vocab_get_add_bos(self._vocab) else -1
        return None if token < 0 else (int(token), self._name(token))

    def _read_fim(self, model_name: str) -> FimTokens | str:
        vocab = self._vocab
        native = (
            int(llama_cpp.llama_vocab_fim_pre(vocab)),
            int(llama_cpp.llama_vocab_fim_suf(vocab)),
            int(llama_cpp.llama_vocab_fim_mid(vocab)),
        )
        special = {
            self._name(token): token
            for token, attribute in enumerate(self._attributes)
            if token in native or attribute & _SPECIAL
        }
        return read_fim(special, native, model_name, lambda name: self._tokenize(name.encode(), parse_special=True))

    def _name(self, token: int) -> str:
        return str(llama_cpp.llama_vocab_get_text(self._vocab, token).decode("utf-8", "replace"))

    def _read_stop_tokens(self) -> frozenset[int]:
        vocab, ends = self._vocab, self._of_all(llama_cpp.llama_vocab_is_eog)
        stops = {
            token
            for token, (piece, attribute, is_end) in enumerate(zip(self._pieces, self._attributes, ends, strict=True))
            if not piece or attribute & (_CONTROL | _UNUSED) or is_end
        }
        fim = ("pre", "suf", "mid", "pad", "rep", "sep")
        stops |= {int(t) for name in fim if (t := getattr(llama_cpp, f"llama_vocab_fim_{name}")(vocab)) >= 0}
        return frozenset(stops | (marker_ids(self._fim) if self._fim else frozenset()))


def load_vocab(path: str | Path) -> LlamaVocab:
    """The vocabulary alone: under a second, some 55 MB for 150,000 tokens. Raises EngineError."""
    return LlamaVocab(open_model(Path(path), vocab_only=True))
