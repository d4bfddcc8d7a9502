"""What is on disk, in memory: which saved prompt shares the longest beginning with a request, without its tokens.

Owns the digests of token paths. A path is a chain: each block of 64 tokens is digested together with the digest before it, so
that equal digests mean equal beginnings. An index never changes; another one takes its place, and any thread may read it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from inference.sequence import WIDTH

BLOCK = 64  # tokens
N_BLOCK_DIGEST = 8  # bytes: a false one is noticed when the tokens are read
N_PATH = 16


@dataclass(frozen=True, slots=True)
class Entry:
    """A saved prompt, and what was said behind it. path: digest of all its tokens. n_prompt: how many of them are the prompt.
    blocks: digests at the borders, one after the other. n_bytes: of the file. used_at: seconds since 1970. n_used: how often it
    was put back."""

    path: bytes
    n_tokens: int
    n_prompt: int
    n_bytes: int
    blocks: bytes
    used_at: float = 0.0
    n_used: int = 0

    @property
    def n_blocks(self) -> int:
        return len(self.blocks) // N_BLOCK_DIGEST

    def block(self, i: int) -> bytes:
        return self.blocks[i * N_BLOCK_DIGEST : (i + 1) * N_BLOCK_DIGEST]


@dataclass(frozen=True, slots=True)
class Match:
    """n: tokens in common for certain; fewer than a block more may be."""

    entry: Entry
    n: int


class Chain:
    """The digests of one token path. packed: tokens as `inference.sequence.pack` gives them. seed: the fingerprint."""

    def __init__(self, packed: bytes | bytearray, seed: bytes) -> None:
        self._packed = bytes(packed)
        self._links = [seed]
        size = BLOCK * WIDTH
        for start in range(0, len(packed) - size + 1, size):
            self._links.append(_link(self._links[-1], self._packed[start : start + size]))

    @property
    def n_tokens(self) -> int:
        return len(self._packed) // WIDTH

    @property
    def n_blocks(self) -> int:
        return len(self._links) - 1

    def block(self, i: int) -> bytes:
        return self._links[i + 1][:N_BLOCK_DIGEST]

    @property
    def blocks(self) -> bytes:
        return b"".join(self.block(i) for i in range(self.n_blocks))

    def path(self, n: int) -> bytes:
        """Digest of the first n tokens."""
        k = n // BLOCK
        return _link(self._links[k], self._packed[k * BLOCK * WIDTH : n * WIDTH] + b"end")


def _link(before: bytes, block: bytes) -> bytes:
    return hashlib.blake2b(before + block, digest_size=N_PATH).digest()


class Index:
    """Of the entries with one fingerprint."""

    def __init__(self, seed: bytes, entries: Iterable[Entry] = ()) -> None:
        self._seed = seed
        self._entries = {entry.path: entry for entry in entries}
        self._by_block: dict[bytes, list[Entry]] = {}
        for entry in self._entries.values():
            for i in range(entry.n_blocks):
                self._by_block.setdefault(entry.block(i), []).append(entry)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._entries.values())

    def get(self, path: bytes) -> Entry | None:
        return self._entries.get(path)

    def chain(self, packed: bytes | bytearray) -> Chain:
        return Chain(packed, self._seed)

    def match(self, chain: Chain) -> Match | None:
        """The longest beginning; of several entries with it one that ends there, then the one used last."""
        for k in range(chain.n_blocks, 0, -1):
            found = self._by_block.get(chain.block(k - 1))
            if found:
                return max((self._measured(entry, chain, k) for entry in found), key=lambda m: (m.n, m.entry.used_at))
        return None

    @staticmethod
    def _measured(entry: Entry, chain: Chain, k: int) -> Match:
        is_whole = entry.n_blocks == k and entry.n_tokens <= chain.n_tokens and chain.path(entry.n_tokens) == entry.path
        return Match(entry, entry.n_tokens if is_whole else k * BLOCK)

    def beginnings(self, chain: Chain) -> tuple[Entry, ...]:
        """Other entries whose prompt is the beginning of this path, but for less than a block: it holds what they are worth."""
        return tuple(
            entry for entry in self._entries.values()
            if BLOCK <= entry.n_prompt <= chain.n_tokens and chain.path(chain.n_tokens) != entry.path
            and chain.blocks.startswith(entry.blocks[: entry.n_prompt // BLOCK * N_BLOCK_DIGEST])
        )  # fmt: skip

    def with_entry(self, entry: Entry) -> Index:
        return Index(self._seed, [*(e for e in self._entries.values() if e.path != entry.path), entry])

    def without(self, paths: Iterable[bytes]) -> Index:
        gone = set(paths)
        return Index(self._seed, [e for e in self._entries.values() if e.path not in gone])

    def used(self, path: bytes, now: float) -> Index:
        """The entry was put back at this time."""
        entry = self._entries.get(path)
        return self if entry is None else self.with_entry(replace(entry, used_at=now, n_used=entry.n_used + 1))
