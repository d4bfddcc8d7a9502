"""The rows of the database: their keys, and the short one that says what a saved prompt is.

a, fingerprint, path → path, version, tokens, of them prompt, bytes, last use, uses, digests of the blocks
s, fingerprint, path → the state's file
w, slot of time      → bytes that were written in it
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

from inference.prompt_cache.index import N_BLOCK_DIGEST, N_PATH, Entry

N_OF = 16  # bytes of a fingerprint's digest in a key
SLOT_S = 300

_SHORT = struct.Struct("<BIIQdI")
_VERSION = 1
_ABOUT, _STATE, _WRITTEN = b"a", b"s", b"w"
_SLOT = struct.Struct(">Q")
_SLOTS_PER_HOUR = 3600 // SLOT_S


@dataclass(frozen=True, slots=True)
class Listed:
    """An entry, and whose: the beginning of the fingerprint's digest."""

    of: bytes
    entry: Entry

    @property
    def about(self) -> bytes:
        return about(self.of, self.entry.path)

    def pack(self) -> bytes:
        e = self.entry
        return e.path + _SHORT.pack(_VERSION, e.n_tokens, e.n_prompt, e.n_bytes, e.used_at, e.n_used) + e.blocks


def about(of: bytes, path: bytes) -> bytes:
    return _ABOUT + of[:N_OF] + path


def state(of: bytes, path: bytes) -> bytes:
    return _STATE + of[:N_OF] + path


def is_about(key: bytes, of: bytes | None = None) -> bool:
    """Of this fingerprint; None: of any."""
    return key[:1] == _ABOUT and (of is None or key[1 : 1 + N_OF] == of[:N_OF])


def about_of_state(key: bytes) -> bytes | None:
    """The key under which this state is listed; None: this is no state's key."""
    return _ABOUT + key[1:] if key[:1] == _STATE else None


def unpack(key: bytes, value: object) -> Listed | None:
    """None: no row of this format."""
    if not isinstance(value, bytes) or len(key) != 1 + N_OF + N_PATH or len(value) < N_PATH + _SHORT.size:
        return None
    path = key[1 + N_OF :]
    version, n_tokens, n_prompt, n_bytes, used_at, n_used = _SHORT.unpack_from(value, N_PATH)
    blocks = value[N_PATH + _SHORT.size :]
    if value[:N_PATH] != path or version != _VERSION or len(blocks) % N_BLOCK_DIGEST or not math.isfinite(used_at):
        return None
    return Listed(key[1 : 1 + N_OF], Entry(path, n_tokens, n_prompt, n_bytes, blocks, used_at, n_used))


def written(now: float) -> bytes:
    """The key of the slot that `now` lies in."""
    return _WRITTEN + _SLOT.pack(int(now // SLOT_S))


def is_written(key: bytes) -> bool:
    return key[:1] == _WRITTEN


def is_recent(key: bytes, now: float) -> bool:
    """A slot of the last hour."""
    slot = int(now // SLOT_S)
    return len(key) == 1 + _SLOT.size and slot - _SLOTS_PER_HOUR < _SLOT.unpack(key[1:])[0] <= slot
