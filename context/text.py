"""Document text: immutable, chunked UTF-8, with a line index.

Owns bytes, edits of bytes and where lines begin. Line ends are exactly LF, CRLF and CR; form feed, U+0085 and U+2028 are
ordinary characters. Refuses columns, encodings other than UTF-8 and anything about meaning.

A text is a row of leaves of at most LEAF bytes (more in texts of many megabytes). No leaf border splits a character or a CRLF
pair, so what is counted per leaf adds up. An edit makes new leaves only where it happens; the rest is shared with the text
before it.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from context.leaf import LEAF, cut, is_inside, leaf_size
from context.leaves import Leaves, Place

# Most bytes that an edit copies beside its own text: the head and tail of the edited leaves and two absorbed neighbours. (In a
# long text `leaf_size` of its bytes takes LEAF's place.)
CHUNK = 4 * LEAF

_BLOCK = 1 << 20  # characters that are encoded at once


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace bytes [start, end) of a document by `new` (UTF-8)."""

    start: int
    end: int
    new: bytes


class Text:
    """Immutable UTF-8 text. Offsets are bytes; lines count from 0. Equal and hashed by content.

    n_copied: bytes that went into new leaves when this text was made.
    """

    __slots__ = ("_hash", "_leaves", "n_copied")

    def __init__(self, leaves: Leaves, n_copied: int) -> None:
        """Use `Text.of`."""
        self._leaves = leaves
        self._hash: int | None = None
        self.n_copied = n_copied

    @staticmethod
    def of(data: bytes | str) -> Text:
        """Text of UTF-8 bytes (ValueError if they are not) or of a string.

        Surrogates in a string: a pair becomes its character, a lone one U+FFFD.
        """
        if isinstance(data, str):
            # Block by block: a long text never exists a third time, beside the string and the leaves.
            longest, blocks = leaf_size(len(data)), (encoded(block) for block in _blocks(data))
            leaves = Leaves.of(leaf for block in blocks for leaf in cut([memoryview(block)], longest))
        else:
            _check_utf8(data)
            leaves = Leaves.of(cut([memoryview(data)], leaf_size(len(data))))
        return Text(leaves, leaves.n_bytes)

    def __len__(self) -> int:
        return self._leaves.n_bytes

    def __repr__(self) -> str:
        return f"Text({len(self)} bytes, {self.n_lines} lines)"  # never the content: it could reach a log

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Text):
            return NotImplemented
        if self is other:
            return True
        if len(self) != len(other) or self.n_lines != other.n_lines:
            return False
        return all(a == b for a, b in _aligned(self, other))

    def __hash__(self) -> int:
        if self._hash is None:
            crc = 0
            for leaf in self._leaves:  # does not depend on where the leaf borders are
                crc = zlib.crc32(leaf.data, crc)
            self._hash = hash((len(self), crc))
        return self._hash

    @property
    def n_leaves(self) -> int:
        return len(self._leaves)

    @property
    def n_lines(self) -> int:
        """Line breaks + 1: a text that ends with a line break has an empty last line."""
        return self._leaves.n_breaks + 1

    def line_start(self, line: int) -> int:
        """Offset of a line's first byte. ValueError if there is no such line."""
        self._check_line(line)
        if line == 0:
            return 0
        at = self._leaves.with_break(line)
        return at.start + at.leaf.ends[line - at.n_breaks - 1]

    def line_end(self, line: int) -> int:
        """Offset right after a line's last byte, its terminator not counted. ValueError if there is no such line."""
        self._check_line(line)
        if line == self.n_lines - 1:
            return len(self)
        at = self._leaves.with_break(line + 1)
        end = at.leaf.ends[line - at.n_breaks]
        return at.start + end - (2 if at.leaf.data[:end].endswith(b"\r\n") else 1)

    def line_of(self, offset: int) -> int:
        """The line that an offset is on; between CR and LF: the line that they end. ValueError if out of range."""
        self._check_range(offset, offset)
        if not len(self):
            return 0
        at = self._leaves.at(offset)
        return at.n_breaks + bisect_right(at.leaf.ends, offset - at.start)

    def floor(self, offset: int) -> int:
        """The last offset at or before this one (clamped into the text) that splits neither a character nor a CRLF pair."""
        offset = min(max(offset, 0), len(self))
        if offset in (0, len(self)):
            return offset
        at = self._leaves.at(offset)
        data, k = at.leaf.data, offset - at.start
        while k > 0 and is_inside(data[k]):
            k -= 1
        if k > 0 and data[k] == 0x0A and data[k - 1] == 0x0D:
            k -= 1
        return at.start + k

    def slice(self, start: int, end: int) -> bytes:
        """Bytes [start, end). ValueError: reversed, out of range or inside a character."""
        self._check_range(start, end)
        if not len(self):
            return b""
        first, last = self._checked(start, end)
        if start == end:
            return b""
        if first.leaf is last.leaf and first.start == last.start:
            return first.leaf.data[start - first.start : end - first.start]
        return b"".join(self._pieces(start, end))

    def edit(self, start: int, end: int, new: bytes) -> Text:
        """The text with bytes [start, end) replaced. Copies at most len(new) + 4 * leaf_size(its bytes) bytes.

        ValueError: reversed, out of range or inside a character, or `new` is not UTF-8.
        """
        self._check_range(start, end)
        _check_utf8(new)
        leaves = self._leaves
        if not len(self):
            return Text.of(new)
        first, last = self._checked(start, end)
        if last.start < first.start:  # nothing is replaced, between two leaves
            last = first
        head, tail = memoryview(first.leaf.data)[: start - first.start], memoryview(last.leaf.data)[end - last.start :]
        parts = [part for part in (head, memoryview(new), tail) if len(part)]
        size, longest = sum(map(len, parts)), leaf_size(len(self))
        # A neighbour is taken in where both fit one leaf (else deletions would leave crumbs) or where a CRLF came together.
        if (before := leaves.previous(first)) is not None:
            joins = before.leaf.data[-1] == 0x0D and size > 0 and parts[0][0] == 0x0A
            if joins or before.leaf.n_bytes + size <= longest:
                parts.insert(0, memoryview(before.leaf.data))
                size += before.leaf.n_bytes
                first = before
        if (after := leaves.next(last)) is not None:
            joins = after.leaf.data[0] == 0x0A and size > 0 and parts[-1][-1] == 0x0D
            if joins or after.leaf.n_bytes + size <= longest:
                parts.append(memoryview(after.leaf.data))
                size += after.leaf.n_bytes
                last = after
        return Text(leaves.replaced(first, last, tuple(cut(parts, max(longest, leaf_size(len(new)))))), size)

    def _check_line(self, line: int) -> None:
        if not 0 <= line < self.n_lines:
            raise ValueError(f"line {line} of {self.n_lines}")

    def _check_range(self, start: int, end: int) -> None:
        if start > end:
            raise ValueError(f"reversed range {start}..{end}")
        if start < 0 or end > len(self):
            raise ValueError(f"range {start}..{end} of {len(self)} bytes")

    def _checked(self, start: int, end: int) -> tuple[Place, Place]:
        """The leaf that begins at or before the start, and the one with the byte before the end. ValueError: one of them is
        inside a character."""
        first, last = self._leaves.at(start), self._leaves.before(end)
        for offset, place in ((start, first), (end, last)):
            k = offset - place.start
            if 0 < k < place.leaf.n_bytes and is_inside(place.leaf.data[k]):
                raise ValueError(f"offset {offset} is inside a character")
        return first, last

    def pieces(self, start: int, end: int) -> Iterator[bytes]:
        """Bytes [start, end), leaf by leaf; whole leaves are not copied. ValueError as for `slice`."""
        self._check_range(start, end)
        if len(self):
            self._checked(start, end)
        return self._pieces(start, end)

    def _pieces(self, start: int, end: int) -> Iterator[bytes]:
        at = self._leaves.at(start) if start < end else None
        while at is not None and at.start < end:
            yield at.leaf.data[max(start - at.start, 0) : end - at.start]
            at = self._leaves.next(at)

    def tail(self, offset: int) -> bytes:
        """Bytes from an offset to the end of its leaf, for readers that go on where they are; b"" at the text's end."""
        self._check_range(offset, offset)
        if offset == len(self):
            return b""
        at = self._leaves.at(offset)
        return at.leaf.data[offset - at.start :]

    def splits(self, offset: int) -> bool:
        """Is an offset inside a character?"""
        if not 0 < offset < len(self):
            return False
        at = self._leaves.at(offset)
        return is_inside(at.leaf.data[offset - at.start])

    def leaf_sizes(self) -> tuple[int, ...]:
        """Bytes of each leaf, in order. Their sum is the text's length."""
        return tuple(len(leaf.data) for leaf in self._leaves)

    # Last in the class, so that the annotations above mean the built-in type.
    def bytes(self) -> bytes:
        """All of it, as a new object."""
        return b"".join(leaf.data for leaf in self._leaves)


def encoded(text: str) -> bytes:
    """UTF-8. Surrogates: a pair becomes its character, a lone one U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def _blocks(text: str) -> Iterator[str]:
    """A string in pieces; no border splits a CRLF or a pair of surrogates."""
    at = 0
    while at < len(text):
        end = min(at + _BLOCK, len(text))
        if end < len(text) and (text[end - 1 : end + 1] == "\r\n" or "\ud800" <= text[end - 1] <= "\udbff"):
            end -= 1
        yield text[at:end]
        at = end


def _check_utf8(data: bytes) -> None:
    if not data.isascii():
        data.decode()  # UnicodeDecodeError is a ValueError


def _aligned(a: Text, b: Text) -> Iterator[tuple[memoryview, memoryview]]:
    """Pieces of two equally long texts, cut at the leaf borders of both. Leaves that both share are left out."""
    at = 0
    while at < len(a):
        one, other = a._leaves.at(at), b._leaves.at(at)
        end = min(one.start + one.leaf.n_bytes, other.start + other.leaf.n_bytes)
        if one.leaf is not other.leaf or one.start != other.start:
            yield (
                memoryview(one.leaf.data)[at - one.start : end - one.start],
                memoryview(other.leaf.data)[at - other.start : end - other.start],
            )
        at = end
