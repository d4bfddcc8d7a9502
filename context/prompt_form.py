"""The form of a document that a model sees: without the CR of CRLF and without a byte order mark at its beginning.

Owns that form and the way back from a length in it to a length in the document. Pieces of a document may be converted
one by one and joined, as long as no border between them splits a CRLF pair.
"""

from __future__ import annotations

BOM = b"\xef\xbb\xbf"


def to_prompt(data: bytes, at_start: bool) -> bytes:
    """Prompt form of a piece of a document; at_start: the piece begins where the document begins."""
    if at_start and data.startswith(BOM):
        data = data[len(BOM) :]
    return data.replace(b"\r\n", b"\n")


def n_document_head(data: bytes, at_start: bool, n: int) -> int:
    """How many bytes at the beginning of `data` have a prompt form of n bytes (all of them if it is shorter)."""
    at = len(BOM) if at_start and data.startswith(BOM) else 0
    while n > 0 and at < len(data):
        at += 2 if data[at : at + 2] == b"\r\n" else 1
        n -= 1
    return at


def n_document_tail(data: bytes, n: int) -> int:
    """How many bytes at the end of `data` have a prompt form of n bytes (all of them if it is shorter)."""
    at = len(data)
    while n > 0 and at > 0:
        at -= 2 if data[max(at - 2, 0) : at] == b"\r\n" else 1
        n -= 1
    return len(data) - at
