"""Token table: tokens of text in prompt form, remembered piece by piece.

Owns the pieces and their tokens. A piece is what stands between two borders (`context.borders`), as a rule a line; borders
depend on the text alone. Pieces are remembered by their content, not by their place: an edit encodes the pieces it changed,
in whichever document and however often it is undone, and nothing has to be moved along with a text. Refuses control tokens:
user text never becomes one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from context.borders import border_rule
from context.prompt_form import to_prompt
from context.text import Text
from context.types import Tokenizer

_BLOCK = 64 << 10  # bytes that are cut at once
_ENTRY_BYTES = 200  # about what a remembered piece costs beside its text and tokens


@dataclass(slots=True)
class _Generation:
    tokens: dict[bytes, tuple[int, ...]] = field(default_factory=dict)
    n_bytes: int = 0


class TokenTable:
    """Tokens of texts in prompt form. Bounded: pieces that were not asked for lately are forgotten.

    n_encoded_bytes: bytes given to the tokenizer so far.

    Used by the event loop and one planning thread without a lock. Every step on shared state is a single dict lookup, dict
    store or attribute store, each atomic in CPython; values never change and the same piece always gets the same tokens, so
    a race can only encode a piece twice, drop remembered ones or lose a few bytes of a count.
    """

    def __init__(self, tokenizer: Tokenizer, pre_type: str, pieces: Sequence[bytes] = (), *, max_bytes: int = 16 << 20) -> None:
        """pre_type: name of the pre-tokenizer; with an unknown one a text is remembered as a whole only. pieces: bytes of each
        token of the vocabulary, for the borders' sake."""
        self._set_out(tokenizer, border_rule(pre_type, pieces), max_bytes)

    def sibling(self, tokenizer: Tokenizer, *, max_bytes: int) -> TokenTable:
        """An empty table of the same vocabulary."""
        made = TokenTable.__new__(TokenTable)
        made._set_out(tokenizer, self._border, max_bytes)
        return made

    def _set_out(self, tokenizer: Tokenizer, border: re.Pattern[bytes] | None, max_bytes: int) -> None:
        self._tokenizer = tokenizer
        self._border = border
        # Two generations instead of a list by age: evicting from one ordered dict means iterating over it, which another
        # thread's store would break. What is asked for moves to the young one; a full young one becomes the old one.
        self._max_generation = max(max_bytes // 2, 1)
        self._young = _Generation()
        self._old = _Generation()
        self.n_encoded_bytes = 0

    def encode(self, text: bytes) -> tuple[int, ...]:
        """Tokens of UTF-8 text in prompt form, equal to the tokenizer's of the whole."""
        if not text:
            return ()
        tokens: list[int] = []
        for piece in self.pieces(text):
            tokens.extend(self._tokens_of(piece))
        return tuple(tokens)

    def encode_document(self, text: Text) -> tuple[int, ...]:
        """Tokens of a whole document: of its prompt form, equal to the tokenizer's. It is never copied as a whole."""
        tokens: list[int] = []
        for piece in self.document_pieces(text):
            tokens.extend(self._tokens_of(piece))
        return tuple(tokens)

    def pieces(self, text: bytes) -> Iterator[bytes]:
        """The pieces in which a text is tokenized; joined they are the text."""
        at = 0
        if self._border is not None:
            for border in self._border.finditer(text):
                if border.start() > at:
                    yield text[at : border.start()]
                at = border.start()
        if at < len(text):
            yield text[at:]

    def document_pieces(self, text: Text) -> Iterator[bytes]:
        """The same of a document's prompt form, block by block."""
        rest = b""
        for block in _prompt_blocks(text):
            # what a border looks at may stand in the next block, so the last piece waits for it
            *whole, rest = self.pieces(rest + block)
            yield from whole
        if rest:
            yield rest

    @property
    def n_kept_bytes(self) -> int:
        """About how much memory the remembered pieces take."""
        return self._young.n_bytes + self._old.n_bytes

    def _tokens_of(self, piece: bytes) -> tuple[int, ...]:
        young = self._young
        tokens = young.tokens.get(piece)
        if tokens is not None:
            return tokens
        tokens = self._old.tokens.get(piece)
        if tokens is None:
            self.n_encoded_bytes += len(piece)
            tokens = tuple(self._tokenizer.encode(piece))
        self._keep(young, piece, tokens)
        return tokens

    def _keep(self, young: _Generation, piece: bytes, tokens: tuple[int, ...]) -> None:
        size = len(piece) + 8 * len(tokens) + _ENTRY_BYTES
        if size > self._max_generation:
            return
        if young.n_bytes + size > self._max_generation:
            self._old = young
            young = self._young = _Generation()
        young.tokens[piece] = tokens
        young.n_bytes += size


def _prompt_blocks(text: Text) -> Iterator[bytes]:
    """A document's prompt form in blocks, none empty."""
    block: list[bytes] = []
    size = 0
    for i, leaf in enumerate(text.pieces(0, len(text))):
        block.append(to_prompt(leaf, i == 0))
        size += len(leaf)
        if size >= _BLOCK and any(block):
            yield b"".join(block)
            block, size = [], 0
    if any(block):
        yield b"".join(block)
