"""The values and the tensor types of a GGUF header, read one by one from a cursor.

Owns what a type's number means. Refuses the order in which they come and what their names mean: see `gguf` and `gguf_sizes`.
"""

from __future__ import annotations

from inference.models.gguf_cursor import SCALARS, Cursor, Damaged

Value = int | float | str
STRING, ARRAY = 8, 9
_MAX_KEY = 65_535  # the format's own limit, bytes
_MAX_TEXT = 65_535  # a longer value is skipped: none of those that are wanted comes near

# Tensor type → (elements per block, bytes per block). A type that is missing here only makes the size check weaker.
TENSOR_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 40),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292),
    16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82),
    23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2),
    34: (256, 54), 35: (256, 66), 39: (32, 17),
}  # fmt: skip


def read_key(cursor: Cursor) -> str:
    """The name of a value or a tensor."""
    n = cursor.u64()
    cursor.require(n)
    if n > _MAX_KEY:
        raise Damaged(f"a name of {n:,} bytes")
    return cursor.take(n).decode("utf-8", "replace")


def read_value(cursor: Cursor, kind: int) -> Value:
    """A scalar or a text; of one that is too long, ""."""
    if kind in SCALARS:
        return cursor.scalar(SCALARS[kind])
    if kind != STRING:
        raise Damaged(f"value type {kind}")
    n = cursor.u64()
    cursor.require(n)
    if n > _MAX_TEXT:
        cursor.skip(n)
        return ""
    return cursor.take(n).decode("utf-8", "replace")


def skip_value(cursor: Cursor, kind: int) -> None:
    """A scalar or a text."""
    if kind in SCALARS:
        cursor.skip(SCALARS[kind].size)
    elif kind == STRING:
        cursor.skip(cursor.u64())
    else:
        raise Damaged(f"value type {kind}")


def skip_array(cursor: Cursor) -> int:
    """Skip the items; their number."""
    kind, count = cursor.u32(), cursor.u64()
    skip_items(cursor, kind, count)
    return count


def skip_items(cursor: Cursor, kind: int, count: int) -> None:
    """Of an array whose beginning was read."""
    if kind == STRING:
        cursor.skip_strings(count)
    elif kind in SCALARS:
        cursor.skip(count * SCALARS[kind].size)
    else:
        raise Damaged(f"item type {kind}")
