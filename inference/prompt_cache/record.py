"""A state as a file: what it holds, in which order, and that every bit of it is as it was written.

    magic, version, lengths · fingerprint · tokens · logits behind the last token · state · checksum over all of it

Owns the format. Refuses anything else than exactly these bytes: a record is whole and ours, or none. It isn't compressed: of
keys and values there is too little to gain for the time that it takes to read them back.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

MAGIC = b"midfill\x00"
VERSION = 1
N_FINGERPRINT = 32

_HEADER = struct.Struct("<8sIIIIQ32s")  # magic, version, tokens, of them prompt, logits, bytes of state, fingerprint
_N_CHECKSUM = 32


class Fault(StrEnum):
    """Why a record is not used."""

    DAMAGED = "damaged"  # not the bytes that were written
    FOREIGN = "foreign"  # of another model, setting, build or format


class UnfitError(Exception):
    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.value)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class Record:
    """A sequence outside the cache. logits: behind the last token, which was evaluated alone; shape (n_vocab,). n_prompt: how
    many of the tokens were a prompt. state: as the backend gave it, of all tokens."""

    tokens: tuple[int, ...]
    n_prompt: int
    logits: NDArray[np.float32]
    state: bytes

    @property
    def n_bytes(self) -> int:
        """As a file."""
        return _HEADER.size + 4 * len(self.tokens) + 4 * len(self.logits) + len(self.state) + _N_CHECKSUM


def encode(record: Record, fingerprint: bytes) -> tuple[bytes, ...]:
    """The file in pieces, so that the state is not copied."""
    header = _HEADER.pack(
        MAGIC, VERSION, len(record.tokens), record.n_prompt, len(record.logits), len(record.state), fingerprint
    )  # fmt: skip
    parts = (
        header,
        np.array(record.tokens, dtype="<i4").tobytes(),
        record.logits.astype("<f4", copy=False).tobytes(),
        record.state,
    )
    checksum = hashlib.blake2b(digest_size=_N_CHECKSUM)
    for part in parts:
        checksum.update(part)
    return (*parts, checksum.digest())


def decode(data: bytes, fingerprint: bytes) -> Record:
    """UnfitError: it is not used, and why."""
    view = memoryview(data)
    body, checksum = view[:-_N_CHECKSUM], view[-_N_CHECKSUM:]
    if len(body) < _HEADER.size or hashlib.blake2b(body, digest_size=_N_CHECKSUM).digest() != checksum:
        raise UnfitError(Fault.DAMAGED)
    magic, version, n_tokens, n_prompt, n_logits, n_state, of = _HEADER.unpack_from(body)
    if magic != MAGIC or version != VERSION or of != fingerprint:
        raise UnfitError(Fault.FOREIGN)
    if len(body) != _HEADER.size + 4 * n_tokens + 4 * n_logits + n_state or not 0 < n_prompt <= n_tokens:
        raise UnfitError(Fault.DAMAGED)
    tokens = np.frombuffer(body, "<i4", n_tokens, _HEADER.size)
    logits = np.frombuffer(body, "<f4", n_logits, _HEADER.size + 4 * n_tokens).astype(np.float32)
    return Record(tuple(tokens.tolist()), n_prompt, logits, bytes(body[len(body) - n_state :]))
