"""Token table: tokens of text in prompt form, remembered piece by piece.

Owns where a text may be cut so that the tokens of the pieces, joined, are the tokens of the whole. Refuses control tokens:
user text never becomes one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from context.types import Tokenizer

# The "qwen2" pre-tokenizer splits with one regular expression, left to right, no look-behind:
#   contractions | [^\r\n\p{L}\p{N}]?\p{L}+ | \p{N} | ` ?[^\s\p{L}\p{N}]+[\r\n]*` | \s*[\r\n]+ | \s+(?!\S) | \s+
# and merges never cross a split. Take a place right after a CR or LF, followed by whitespace without CR and LF (or none) and
# then by something that is not whitespace. The match that holds this line break ends exactly there, whatever stands around:
#   - only two branches can hold a line break that a later one in the same whitespace run does not follow: the punctuation
#     branch, whose [\r\n]* stops there, and \s*[\r\n]+, which reaches for the last CR or LF of the run: this one;
#   - \s+(?!\S) and \s+ come after it, and it matches whenever the run still holds a line break.
# So the left side alone ends with the same match, and the right side alone begins like the rest of the whole.
# What counts as whitespace is asked of no table but decided narrowly: the run may hold blanks and tabs only, and what follows
# must begin with a byte with which no Unicode whitespace begins (it has lead bytes C2, E1, E2 and E3 80, and controls below
# 21; EF is left out for U+FEFF). A place that is missed costs a longer piece, never a wrong token.
_QWEN2_BORDER = re.compile(rb"(?<=[\r\n])(?=[ \t]*(?:[!-~\xc3-\xe0\xe4-\xee\xf0-\xf4]|\xe3[\x81-\xbf]))")

_BORDERS = {"qwen2": _QWEN2_BORDER}

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

    def __init__(self, tokenizer: Tokenizer, pre_type: str, *, max_bytes: int = 16 << 20) -> None:
        """pre_type: name of the pre-tokenizer; with an unknown one a text is remembered as a whole only."""
        self._tokenizer = tokenizer
        self._border = _BORDERS.get(pre_type)
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

    def pieces(self, text: bytes) -> Iterator[bytes]:
        """The pieces in which a text is tokenized; joined they are the text."""
        at = 0
        if self._border is not None:
            for border in self._border.finditer(text):
                yield text[at : border.start()]
                at = border.start()
        if at < len(text):
            yield text[at:]

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
