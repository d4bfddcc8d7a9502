"""A backend stricter than the real one, and its vocabulary.

It stores a token per (sequence, position), refuses gaps, overflow and stale tails, and derives logits from a hash of what the
cells of the sequence really hold: any slip in the engine's book-keeping changes the text. Shared cells count once, as in
llama.cpp.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from inference.backend import Outcome, Row, Vocab
from inference.types import Marker
from tests.support.layouts import both_ways

CONTROL = ("<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>",
           "<|file_sep|>", "<|im_end|>")  # fmt: skip
WORDS = [
    "def", "return", "self", "print", "import", "class", "for", "in", "if", "else", "while", "not", "and", "or",
    "value", "total", "name", "item", "list", "open", "read", "result", "foo", "bar", "foobar", "number", "index",
    "count", "data", "line", "text", "key", "range", "len",
]  # fmt: skip


class FakeVocab:
    """256 byte tokens, words with and without a leading space, indentation, and control tokens. Greedy longest match."""

    pre_type = "qwen2"

    def __init__(self, extra: Iterable[bytes] = ()) -> None:
        pieces = [bytes([b]) for b in range(256)]
        pieces += [w.encode() for w in WORDS] + [b" " + w.encode() for w in WORDS]
        pieces += [b"    ", b"        ", b"\n    ", b"):\n", b"()", b" = ", b"==", b" (", b", ", "é".encode(), "🦊".encode()]
        pieces += [p for p in dict.fromkeys(extra) if p not in pieces]
        self._ids = {p: i for i, p in enumerate(pieces)}
        self._longest = max(map(len, pieces))
        self.control = {text: len(pieces) + i for i, text in enumerate(CONTROL)}
        self.pieces: Sequence[bytes] = tuple(pieces) + (b"",) * len(CONTROL)
        self.n_tokens = len(self.pieces)
        self.stop_tokens = frozenset(self.control.values())
        self.eos = self.control["<|endoftext|>"]
        self.fim = both_ways(*(self.control[f"<|fim_{part}|>"] for part in ("prefix", "suffix", "middle")))
        self.why_no_fim = ""
        self.bos: Marker | None = None
        self.n_encoded_bytes = 0

    def encode(self, text: bytes) -> tuple[int, ...]:
        self.n_encoded_bytes += len(text)
        out: list[int] = []
        # lines are encoded apart, as a pre-tokenizer does: no merge reaches over a line's start
        for line in text.splitlines(keepends=True):
            i = 0
            while i < len(line):
                n = next(k for k in range(min(self._longest, len(line) - i), 0, -1) if line[i : i + k] in self._ids)
                out.append(self._ids[line[i : i + n]])
                i += n
        return tuple(out)

    def encode_special(self, text: str) -> tuple[int, ...]:
        """As a model would mean it: the text of a control token is that token."""
        for name, token in self.control.items():
            if name in text:
                before, _, after = text.partition(name)
                return (*self.encode_special(before), token, *self.encode_special(after))
        return self.encode(text.encode())

    def text(self, tokens: Iterable[int]) -> bytes:
        return b"".join(self.pieces[t] for t in tokens)


class Speaks(Vocab, Protocol):
    """A vocabulary that a scripted model can have."""

    eos: int

    def encode_special(self, text: str) -> tuple[int, ...]: ...
    def text(self, tokens: Iterable[int]) -> bytes: ...


class FakeBackend:
    """partial: whether a part of a sequence can be dropped (false: as in recurrent models). can_stow: whether sequences can be
    saved and restored. states: what was saved, also by others that share this."""

    def __init__(
        self,
        vocab: Speaks | None = None,
        *,
        n_ctx: int = 4096,
        n_batch: int = 64,
        n_seq_max: int = 4,
        partial: bool = True,
        can_stow: bool = True,
        states: dict[bytes, tuple[int, ...]] | None = None,
    ) -> None:
        self.vocab: Speaks = vocab or FakeVocab()
        self.n_ctx, self.n_batch, self.n_seq_max, self.partial = n_ctx, n_batch, n_seq_max, partial
        self.can_abort, self.can_stow = True, can_stow
        self.cells: list[list[tuple[int, int]]] = [[] for _ in range(n_seq_max)]  # (cell id, token) by position
        self.scripts: dict[tuple[int, ...], tuple[int, ...]] = {}
        self.script_always: Callable[[tuple[int, ...]], int | None] | None = None
        self.decoded: list[list[Row]] = []
        self.outcomes: list[Outcome] = []  # forced outcomes, taken first
        self.on_decode: Callable[[list[Row]], None] = lambda rows: None
        self.closed = False
        self.eos_bias = 1.5  # it ends now and then
        self.n_refused_restores = 0  # to come
        self.n_saved = self.n_restored = 0
        # by hash of the state: a state that was not given here is not taken
        self._saved: dict[bytes, tuple[int, ...]] = {} if states is None else states
        self._check: Callable[[], bool] = lambda: False
        self._next_cell = 0
        self._logits: dict[int, NDArray[np.float32]] = {}
        self._inside = threading.Lock()  # one thread at a time, and never nested

    # -- Backend

    @property
    def can_roll_back(self) -> bool:
        return self.partial

    def decode(self, rows: Sequence[Row]) -> Outcome:
        assert self._inside.acquire(blocking=False), "the backend was entered by two threads"
        try:
            return self._decode(list(rows))
        finally:
            self._inside.release()

    def _decode(self, rows: list[Row]) -> Outcome:
        assert rows and len(rows) <= self.n_batch, "more rows than n_batch would abort the process"
        self._logits = {}
        self.on_decode(rows)
        if self.outcomes and (forced := self.outcomes.pop(0)) is not Outcome.OK:
            if forced is Outcome.FATAL:
                self.cells = [[] for _ in range(self.n_seq_max)]
            return forced
        if self._check():
            return Outcome.ABORTED
        lengths = [len(c) for c in self.cells]
        for row in rows:
            if not 0 <= row.token < self.vocab.n_tokens or row.pos != lengths[row.seq]:
                return Outcome.REFUSED
            lengths[row.seq] += 1
        if self.n_used() + len(rows) > self.n_ctx:
            return Outcome.NO_ROOM
        self.decoded.append(rows)
        for i, row in enumerate(rows):
            self.cells[row.seq].append((self._next_cell, row.token))
            self._next_cell += 1
            if row.wants_logits:
                self._logits[i] = self._predict(tuple(t for _, t in self.cells[row.seq]))
        return Outcome.OK

    def logits(self, i: int) -> NDArray[np.float32]:
        return self._logits[i]

    def truncate(self, seq: int, n: int) -> bool:
        if n and not self.partial and n < len(self.cells[seq]):
            return False
        del self.cells[seq][n:]
        return True

    def copy(self, src: int, dst: int, n: int) -> bool:
        assert not self.cells[dst] and n <= len(self.cells[src]), "copy into a used sequence, or of cells that aren't there"
        if not self.partial:
            return False
        self.cells[dst] = self.cells[src][:n]
        return True

    def save(self, seq: int) -> bytes | None:
        assert self.cells[seq], "an empty sequence has no state"
        if not self.can_stow:
            return None
        tokens = tuple(self.tokens(seq))
        self.n_saved += 1
        state = np.array(tokens, dtype=np.int32).tobytes() + self.n_saved.to_bytes(4, "little")
        self._saved[hashlib.blake2b(state).digest()] = tokens
        return state

    def restore(self, seq: int, state: bytes, n: int) -> bool:
        assert not self.cells[seq], "restored into a used sequence"
        tokens = self._saved.get(hashlib.blake2b(state).digest())
        assert tokens is not None and len(tokens) == n, "this state was not saved here, or is another's"
        if self.n_refused_restores:
            self.n_refused_restores -= 1
            return False
        if self.n_used() + n > self.n_ctx:
            return False
        self.cells[seq] = [(self._next_cell + i, token) for i, token in enumerate(tokens)]
        self._next_cell += n
        self.n_restored += 1
        return True

    def saved_tokens(self, state: bytes) -> tuple[int, ...]:
        """What a state holds; KeyError if it is not as it was given."""
        return self._saved[hashlib.blake2b(state).digest()]

    def set_abort(self, check: Callable[[], bool]) -> None:
        self._check = check

    def close(self) -> None:
        self.closed = True

    # -- what tests look at

    def n_used(self) -> int:
        return len({cell for cells in self.cells for cell, _ in cells})

    def tokens(self, seq: int) -> list[int]:
        return [t for _, t in self.cells[seq]]

    def _predict(self, tokens: tuple[int, ...]) -> NDArray[np.float32]:
        digest = hashlib.blake2b(np.array(tokens, dtype=np.int32).tobytes(), digest_size=8).digest()
        logits = np.random.default_rng(int.from_bytes(digest, "little")).standard_normal(self.vocab.n_tokens)
        logits = logits.astype(np.float32)
        logits[self.vocab.eos] += self.eos_bias
        scripted = self._scripted(tokens)
        if scripted is not None:
            logits[scripted] = 50.0
        return logits

    def _scripted(self, tokens: tuple[int, ...]) -> int | None:
        """The script of the longest prompt that these tokens begin with; behind its end, end of generation."""
        if self.script_always is not None and (token := self.script_always(tokens)) is not None:
            return token
        prompts = [p for p in self.scripts if tokens[: len(p)] == p]
        if not prompts:
            return None
        prompt = max(prompts, key=len)
        n = len(tokens) - len(prompt)
        script = self.scripts[prompt]
        if tokens[len(prompt) :] != script[:n]:
            return None
        return script[n] if n < len(script) else self.vocab.eos
