"""The state of one sequence as bytes.

Owns the copying between llama.cpp and Python. Such bytes are only good for the context that they came from; they are never kept
beyond it, and so carry no fingerprint.
"""

from __future__ import annotations

import ctypes
from typing import Any

import llama_cpp

_Bytes = ctypes.POINTER(ctypes.c_uint8)
_new_bytes = ctypes.pythonapi.PyBytes_FromStringAndSize
_new_bytes.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t]
_new_bytes.restype = ctypes.py_object


def save(context: Any, seq: int) -> bytes | None:
    """All cells of the sequence; None if llama.cpp gives nothing."""
    n = int(llama_cpp.llama_state_seq_get_size(context, seq))
    if n < 2:  # nothing; and Python shares bytes objects of up to one byte
        return None
    # Written in place: a second copy of 18 MB would take longer than the saving. Nobody else has seen these bytes yet.
    saved: bytes = _new_bytes(None, n)
    written = llama_cpp.llama_state_seq_get_data(context, ctypes.cast(ctypes.c_char_p(saved), _Bytes), n, seq)
    return saved if written == n else None


def restore(context: Any, seq: int, saved: bytes) -> bool:
    """Put saved cells into the empty sequence. False: not all of it was taken."""
    data = ctypes.cast(ctypes.c_char_p(saved), _Bytes)
    return int(llama_cpp.llama_state_seq_set_data(context, data, len(saved), seq)) == len(saved)
