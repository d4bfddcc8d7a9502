"""Document text: immutable, chunked UTF-8, with a line index.

Owns bytes, edits of bytes and where lines begin. Line ends are exactly LF, CRLF and CR; form feed, U+0085 and U+2028 are
ordinary characters. Refuses columns, encodings other than UTF-8 and anything about meaning.

A text is a row of leaves of at most LEAF bytes (more in texts of many megabytes). No leaf border splits a character or a CRLF
pair, so what is counted per leaf adds up. An edit makes new leaves only where it happens; the rest is shared with the text
before it.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from context.leaf import LEAF, Leaf, cut, is_inside, leaf_size

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

    __slots__ = ("_breaks", "_hash", "_leaves", "_starts", "n_copied")

    def __init__(self, leaves: tuple[Leaf, ...], starts: list[int], breaks: list[int], n_copied: int) -> None:
        """Use `Text.of`. starts, breaks: bytes and line breaks before each leaf, and their totals at the end."""
        self._leaves = leaves
        self._starts = starts
        self._breaks = breaks
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
            leaves = tuple(leaf for block in blocks for leaf in cut([memoryview(block)], longest))
        else:
            _check_utf8(data)
            leaves = tuple(cut([memoryview(data)], leaf_size(len(data))))
        starts = list(accumulate((len(leaf.data) for leaf in leaves), initial=0))
        return Text(leaves, starts, list(accumulate((leaf.n_breaks for leaf in leaves), initial=0)), starts[-1])

    def __len__(self) -> int:
        return self._starts[-1]

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
        return self._breaks[-1] + 1

    def line_start(self, line: int) -> int:
        """Offset of a line's first byte. ValueError if there is no such line."""
        self._check_line(line)
        if line == 0:
            return 0
        i = bisect_left(self._breaks, line) - 1
        return self._starts[i] + self._leaves[i].ends[line - self._breaks[i] - 1]

    def line_end(self, line: int) -> int:
        """Offset right after a line's last byte, its terminator not counted. ValueError if there is no such line."""
        self._check_line(line)
        if line == self.n_lines - 1:
            return len(self)
        i = bisect_left(self._breaks, line + 1) - 1
        leaf = self._leaves[i]
        end = leaf.ends[line - self._breaks[i]]
        return self._starts[i] + end - (2 if leaf.data[:end].endswith(b"\r\n") else 1)

    def line_of(self, offset: int) -> int:
        """The line that an offset is on; between CR and LF: the line that they end. ValueError if out of range."""
        self._check_range(offset, offset)
        if not self._leaves:
            return 0
        i = self._leaf_of(offset)
        return self._breaks[i] + bisect_right(self._leaves[i].ends, offset - self._starts[i])

    def floor(self, offset: int) -> int:
        """The last offset at or before this one (clamped into the text) that splits neither a character nor a CRLF pair."""
        offset = min(max(offset, 0), len(self))
        if offset in (0, len(self)):
            return offset
        i = self._leaf_of(offset)
        data, k = self._leaves[i].data, offset - self._starts[i]
        while k > 0 and is_inside(data[k]):
            k -= 1
        if k > 0 and data[k] == 0x0A and data[k - 1] == 0x0D:
            k -= 1
        return self._starts[i] + k

    def slice(self, start: int, end: int) -> bytes:
        """Bytes [start, end). ValueError: reversed, out of range or inside a character."""
        self._check(start, end)
        if start == end:
            return b""
        i, j = self._leaf_of(start), self._leaf_before(end)
        at = self._starts[i]
        if i == j:
            return self._leaves[i].data[start - at : end - at]
        parts: list[bytes | memoryview] = [leaf.data for leaf in self._leaves[i : j + 1]]
        parts[0] = memoryview(parts[0])[start - at :]
        parts[-1] = memoryview(parts[-1])[: end - self._starts[j]]
        return b"".join(parts)

    def edit(self, start: int, end: int, new: bytes) -> Text:
        """The text with bytes [start, end) replaced. Copies at most len(new) + 4 * leaf_size(its bytes) bytes.

        ValueError: reversed, out of range or inside a character, or `new` is not UTF-8.
        """
        self._check(start, end)
        _check_utf8(new)
        if not self._leaves:
            return Text.of(new)
        i = self._leaf_of(start)
        j = max(i, self._leaf_before(end))
        head = memoryview(self._leaves[i].data)[: start - self._starts[i]]
        tail = memoryview(self._leaves[j].data)[end - self._starts[j] :]
        parts = [part for part in (head, memoryview(new), tail) if len(part)]
        size, longest = sum(map(len, parts)), leaf_size(len(self))
        # A neighbour is taken in where both fit one leaf (else deletions would leave crumbs) or where a CRLF came together.
        if i > 0:
            before = self._leaves[i - 1].data
            joins = before[-1] == 0x0D and size > 0 and parts[0][0] == 0x0A
            if joins or len(before) + size <= longest:
                parts.insert(0, memoryview(before))
                size += len(before)
                i -= 1
        if j + 1 < len(self._leaves):
            after = self._leaves[j + 1].data
            joins = after[0] == 0x0A and size > 0 and parts[-1][-1] == 0x0D
            if joins or len(after) + size <= longest:
                parts.append(memoryview(after))
                size += len(after)
                j += 1
        made = tuple(cut(parts, max(longest, leaf_size(len(new)))))
        return self._replace(i, j + 1, made, size)

    def _replace(self, i: int, j: int, made: tuple[Leaf, ...], n_copied: int) -> Text:
        """Leaves [i, j) replaced. Only references and sums are rebuilt for the others."""
        starts = list(accumulate((len(leaf.data) for leaf in made), initial=self._starts[i]))
        breaks = list(accumulate((leaf.n_breaks for leaf in made), initial=self._breaks[i]))
        shift, lines = starts[-1] - self._starts[j], breaks[-1] - self._breaks[j]
        return Text(
            self._leaves[:i] + made + self._leaves[j:],
            self._starts[:i] + starts[:-1] + [s + shift for s in self._starts[j:]],
            self._breaks[:i] + breaks[:-1] + [b + lines for b in self._breaks[j:]],
            n_copied,
        )

    def _leaf_of(self, offset: int) -> int:
        """The leaf that begins at or before an offset; the last one for the text's end. There must be a leaf."""
        return min(bisect_right(self._starts, offset), len(self._leaves)) - 1

    def _leaf_before(self, offset: int) -> int:
        """The leaf that holds the byte before an offset; the first one for 0."""
        return max(bisect_left(self._starts, offset) - 1, 0)

    def _check_line(self, line: int) -> None:
        if not 0 <= line < self.n_lines:
            raise ValueError(f"line {line} of {self.n_lines}")

    def _check_range(self, start: int, end: int) -> None:
        if start > end:
            raise ValueError(f"reversed range {start}..{end}")
        if start < 0 or end > len(self):
            raise ValueError(f"range {start}..{end} of {len(self)} bytes")

    def _check(self, start: int, end: int) -> None:
        self._check_range(start, end)
        for offset in (start, end):
            if self.splits(offset):
                raise ValueError(f"offset {offset} is inside a character")

    def pieces(self, start: int, end: int) -> Iterator[bytes]:
        """Bytes [start, end), leaf by leaf; whole leaves are not copied. ValueError as for `slice`."""
        self._check(start, end)
        i = self._leaf_of(start) if start < end else len(self._leaves)
        while i < len(self._leaves) and self._starts[i] < end:
            at = self._starts[i]
            yield self._leaves[i].data[max(start - at, 0) : end - at]
            i += 1

    def tail(self, offset: int) -> bytes:
        """Bytes from an offset to the end of its leaf, for readers that go on where they are; b"" at the text's end."""
        self._check_range(offset, offset)
        if offset == len(self):
            return b""
        i = self._leaf_of(offset)
        return self._leaves[i].data[offset - self._starts[i] :]

    def splits(self, offset: int) -> bool:
        """Is an offset inside a character?"""
        if not 0 < offset < len(self):
            return False
        i = self._leaf_of(offset)
        return is_inside(self._leaves[i].data[offset - self._starts[i]])

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
        i, j = a._leaf_of(at), b._leaf_of(at)
        end = min(a._starts[i + 1], b._starts[j + 1])
        if a._leaves[i] is not b._leaves[j] or a._starts[i] != b._starts[j]:
            yield (
                memoryview(a._leaves[i].data)[at - a._starts[i] : end - a._starts[i]],
                memoryview(b._leaves[j].data)[at - b._starts[j] : end - b._starts[j]],
            )
        at = end
