"""Texts to draft from, as token ids named by digest: sent once, used by every request that names them.

Owns them within a sum of bytes; those used longest ago go first. For any thread: they are put by whoever serves requests, and
read by the engine's owner. Refuses what is not named rightly: a digest is that of the tokens, so that no two senders can mean
different texts by one name.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence

import numpy as np

from inference.drafts.trail import Tokens

CHUNK_BYTES = 16 << 20  # of tokens, kept by an engine: some millions
MAX_TOKENS = 1 << 14  # of one chunk
MAX_CHUNKS = 256  # that one request may name
DIGEST = re.compile(r"[0-9a-f]{32}")
_ENTRY_BYTES = 256  # of one beside its tokens


def digest_of(tokens: Sequence[int]) -> str:
    """32 hexadecimal digits: BLAKE2b of the ids as 32-bit little-endian numbers."""
    return hashlib.blake2b(np.asarray(tokens, dtype="<i4").tobytes(), digest_size=16).hexdigest()


class Chunks:
    """max_bytes: 0 = none are kept."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Tokens] = OrderedDict()  # used longest ago first
        self._n_bytes = 0

    def __len__(self) -> int:
        return len(self._known)

    @property
    def n_bytes(self) -> int:
        return self._n_bytes

    def put(self, digest: str, tokens: Sequence[int]) -> bool:
        """Keep them, at the cost of those used longest ago. False: they are more than is kept at all. ValueError: the digest is
        not theirs, or they are too many."""
        if len(tokens) > MAX_TOKENS:
            raise ValueError(f"A chunk has at most {MAX_TOKENS:,} tokens; send this one in parts.")
        if digest != digest_of(tokens):
            raise ValueError("The digest is not that of these tokens.")
        array = np.array(tokens, dtype=np.int32)
        array.flags.writeable = False
        with self._lock:
            if _size(array) > self.max_bytes:
                return False
            self._drop(digest)
            while self._n_bytes + _size(array) > self.max_bytes:
                self._drop(next(iter(self._known)))
            self._known[digest] = array
            self._n_bytes += _size(array)
        return True

    def unknown(self, digests: Iterable[str]) -> tuple[str, ...]:
        """Those that have to be sent (again). The others count as used."""
        with self._lock:
            missing = []
            for digest in dict.fromkeys(digests):
                if digest in self._known:
                    self._known.move_to_end(digest)
                else:
                    missing.append(digest)
            return tuple(missing)

    def get(self, digests: Iterable[str]) -> list[Tokens]:
        """The tokens of those that are known, in this order."""
        with self._lock:
            return [self._known[digest] for digest in digests if digest in self._known]

    def clear(self) -> None:
        with self._lock:
            self._known.clear()
            self._n_bytes = 0

    def _drop(self, digest: str) -> None:
        array = self._known.pop(digest, None)
        if array is not None:
            self._n_bytes -= _size(array)


def _size(array: Tokens) -> int:
    return array.nbytes + _ENTRY_BYTES
