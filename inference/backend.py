"""What the engine asks of a model: rows in, logits out, and sequence book-keeping.

Two implementations: `inference.llama.model` (llama.cpp) and `tests.support.fake_backend` (stricter than the real one).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from inference.types import FimTokens, Marker


class Vocab(Protocol):
    """A vocabulary: read-only, usable from any thread."""

    @property
    def n_tokens(self) -> int: ...
    @property
    def fim(self) -> FimTokens | None:
        """None: the model can't fill in the middle; `why_no_fim` says why."""
        ...

    @property
    def why_no_fim(self) -> str:
        """Half a sentence; "" if it can."""
        ...

    @property
    def bos(self) -> Marker | None:
        """The token that every sequence begins with, if the model wants one."""
        ...

    @property
    def pieces(self) -> Sequence[bytes]:
        """Bytes of each token as they appear in text; empty for control tokens. Shape (n_tokens,)."""
        ...

    @property
    def stop_tokens(self) -> frozenset[int]:
        """End-of-generation and every control token: none of them may become text."""
        ...

    @property
    def pre_type(self) -> str:
        """Name of the pre-tokenizer as the GGUF gives it (`tokenizer.ggml.pre`), e.g. "qwen2"; "" if none."""
        ...

    def encode(self, text: bytes) -> tuple[int, ...]:
        """Tokens of UTF-8 text. Never parses control tokens, never adds BOS or a leading space."""
        ...


@dataclass(frozen=True, slots=True)
class Row:
    """One token position of a batch. wants_logits: `logits(i)` will be asked for this row's index i."""

    seq: int
    pos: int
    token: int
    wants_logits: bool = False


class Outcome(Enum):
    OK = "ok"
    NO_ROOM = "no room"  # nothing was stored; release cells and try again
    ABORTED = "aborted"  # nothing of this batch was kept
    REFUSED = "refused"  # the batch was malformed; nothing was stored
    FATAL = "fatal"  # the context is unusable; what it holds is lost


class Backend(Protocol):
    """One model context. Every method but `vocab` belongs to the engine's owner thread."""

    @property
    def vocab(self) -> Vocab: ...
    @property
    def n_ctx(self) -> int:
        """Cells in all, shared by the sequences."""
        ...

    @property
    def n_batch(self) -> int:
        """Most rows of one decode."""
        ...

    @property
    def n_seq_max(self) -> int: ...
    @property
    def can_roll_back(self) -> bool:
        """Whether the last positions of any sequence can be dropped at any time: else nothing is drafted."""
        ...

    @property
    def can_abort(self) -> bool:
        """Whether a running decode ends soon after the abort check says so."""
        ...

    def decode(self, rows: Sequence[Row]) -> Outcome:
        """Put rows through the model. A sequence's rows are consecutive and begin at its length."""
        ...

    def logits(self, i: int) -> NDArray[np.float32]:
        """Logits of row i of the last batch, shape (n_tokens,). Valid until the next decode: copy to keep."""
        ...

    def truncate(self, seq: int, n: int) -> bool:
        """Keep the first n positions. False: this model can't drop a part, and nothing was changed."""
        ...

    def copy(self, src: int, dst: int, n: int) -> bool:
        """Let the empty sequence dst share the first n positions of src. False: not possible, nothing changed."""
        ...

    def save(self, seq: int) -> bytes | None:
        """All that the sequence's cells hold, to be put back by `restore` of this same context; None: not possible."""
        ...

    def restore(self, seq: int, state: bytes, n: int) -> bool:
        """Put a saved sequence of n positions into the empty sequence seq. False: not possible, and seq is empty still."""
        ...

    def set_abort(self, check: Callable[[], bool]) -> None:
        """`check` is polled during decode; true ends it with ABORTED where the device allows."""
        ...

    def close(self) -> None: ...
