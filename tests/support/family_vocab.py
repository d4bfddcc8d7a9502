"""Vocabularies of model families: real ones where there are files, elsewhere tiny ones with the family's control tokens.

A file never says more than a publisher's does: names, types and ids of tokens.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterable
from pathlib import Path

from inference.families import FAMILIES
from inference.llama.load import open_model
from inference.llama.vocab import LlamaVocab
from tests.support.tiny_gguf import bpe_vocabulary, sentencepiece_vocabulary, write_tiny

_PACKED = Path(__file__).parent / "vocabularies"
REAL = {"deepseek-coder": "deepseek-coder", "starcoder2": "starcoder", "starcoder": "refact"}
_SENTENCEPIECE = frozenset({"codellama", "codestral", "codegemma"})
_ENDS = {"codellama": ("▁<EOT>",), "codegemma": ("<|file_separator|>",)}
_EOS = ("<|endoftext|>", "</s>", "<｜end▁of▁sentence｜>")
_BOS = frozenset({"codellama", "codestral", "codegemma"})


class ScriptVocab(LlamaVocab):
    """A real vocabulary for a scripted model: it can be told what to say, control tokens by their names."""

    def __init__(self, path: Path) -> None:
        super().__init__(open_model(path, vocab_only=True))
        self.eos = next(token for token in sorted(self.stop_tokens) if self._name(token) in _EOS)

    def encode_special(self, text: str) -> tuple[int, ...]:
        """As a publisher's tokenizer reads it. A blank may be spelled U+2581 in a control token's name."""
        return tuple(self._tokenize(text.encode(), parse_special=True))

    def text(self, tokens: Iterable[int]) -> bytes:
        return b"".join(self.pieces[token] for token in tokens)

    def id_of(self, name: str) -> int:
        """The token that is spelled so in the file."""
        return next(token for token in range(self.n_tokens) if self._name(token) == name)


def write_family(name: str, folder: Path, *, without: str = "") -> Path:
    """A vocabulary of the family as a file; tiny ones can leave out one marker."""
    path = folder / f"{name}{'-cut' if without else ''}.gguf"
    if path.exists():
        return path
    if name in REAL and not without:
        path.write_bytes(lzma.decompress((_PACKED / f"{REAL[name]}.gguf.xz").read_bytes()))
        return path
    family = next(each for each in FAMILIES if each.name == name)
    names = (*family.markers, *family.needs, *_ENDS.get(name, ()))
    markers = [marker for marker in dict.fromkeys(names) if marker != without]
    vocabulary = sentencepiece_vocabulary(markers) if name in _SENTENCEPIECE else bpe_vocabulary(markers=markers)
    called = family.called[0] if family.called else "tiny"
    return write_tiny(path, vocabulary=vocabulary, add_bos=name in _BOS, name=f"{called} 1")


def family_vocab(name: str, folder: Path) -> ScriptVocab:
    return ScriptVocab(write_family(name, folder))
