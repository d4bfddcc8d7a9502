"""Bytes of tokens to whole characters, as they arrive.

A character may span tokens: its bytes are held back until it is complete. Bytes that can't be UTF-8 are dropped, and so is an
incomplete tail; nothing is ever replaced by U+FFFD.
"""

from __future__ import annotations

import codecs


class Detokenizer:
    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="ignore")

    def push(self, data: bytes) -> str:
        """The characters that `data` completes."""
        return self._decoder.decode(data)
