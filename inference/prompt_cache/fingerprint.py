"""What the bytes of a state depend on.

Owns the list, and the digest that stands for it. A state is only put back where every one of these is the same; what is not
known here to be harmless is in the list. The number of threads is in it: attention is split among them, and what is computed by
another number differs by more than the verification allows.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
from dataclasses import asdict, dataclass, field

from inference.prompt_cache.record import VERSION


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """model: digest of the file. n_ctx: cells in all; n_ctx_seq: longest sequence (some models choose their positions' scale by
    it). rope: everything positions are turned by, as text. device: where layers and cells lie. build: of llama.cpp, with the
    instructions it was compiled for. state_version: llama.cpp's own number for its format."""

    model: str
    n_ctx: int
    n_ctx_seq: int
    n_seq_max: int
    is_unified: bool
    kv_type_k: str
    kv_type_v: str
    flash_attention: str
    rope: str
    n_swa: int
    device: str
    build: str
    state_version: int
    n_threads: int
    n_vocab: int
    format_version: int = VERSION
    word_bits: int = field(default_factory=lambda: struct.calcsize("P") * 8)
    byte_order: str = sys.byteorder

    @property
    def digest(self) -> bytes:
        """32 bytes."""
        return hashlib.blake2b(json.dumps(asdict(self), sort_keys=True).encode(), digest_size=32).digest()
