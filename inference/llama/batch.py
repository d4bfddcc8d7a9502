"""One reusable native batch.

Owns the memory that `llama_batch` points to: arrays of our own, so that a batch is filled in a few assignments and needs no
freeing. Refuses more rows than it was made for.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import llama_cpp
import numpy as np

from inference.backend import Row


class Batch:
    def __init__(self, n_max: int) -> None:
        self.n_max = n_max
        self._token = np.zeros(n_max, dtype=np.int32)
        self._pos = np.zeros(n_max, dtype=np.int32)
        self._seq = np.zeros(n_max, dtype=np.int32)
        self._n_seq = np.ones(n_max, dtype=np.int32)
        self._wants_logits = np.zeros(n_max, dtype=np.int8)
        # each row's list of sequences has one entry: a pointer into _seq
        self._seq_lists = self._seq.ctypes.data + np.arange(n_max, dtype=np.uintp) * self._seq.itemsize
        self._native = llama_cpp.llama_batch()
        for name, array in (
            ("token", self._token),
            ("pos", self._pos),
            ("n_seq_id", self._n_seq),
            ("seq_id", self._seq_lists),
            ("logits", self._wants_logits),
        ):
            pointer_type = type(getattr(self._native, name))
            setattr(self._native, name, ctypes.cast(array.ctypes.data, pointer_type))

    def fill(self, rows: Sequence[Row]) -> llama_cpp.llama_batch:
        """The native batch of these rows; valid until the next call."""
        n = len(rows)
        if n > self.n_max:
            raise ValueError(f"{n} rows do not fit a batch of {self.n_max}")
        self._token[:n] = [row.token for row in rows]
        self._pos[:n] = [row.pos for row in rows]
        self._seq[:n] = [row.seq for row in rows]
        self._wants_logits[:n] = [row.wants_logits for row in rows]
        self._native.n_tokens = n
        return self._native
