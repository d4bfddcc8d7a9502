"""Server-sent events, as far as they are needed: data lines, comments, and their framing in a stream of bytes.

Owns the bytes of one event and the reader that finds events again wherever the stream was cut. Refuses what is in them, and
an event that grows without end.
"""

from __future__ import annotations

DONE = b"[DONE]"  # what OpenAI's streams end with
LIMIT = 1 << 20  # bytes of one event; ours have some hundred


class TooLong(ValueError):
    """An event is longer than any of ours."""


def frame(data: bytes) -> bytes:
    """One event. data: without line ends."""
    return b"data: %b\n\n" % data


def comment(text: bytes = b"") -> bytes:
    """A line that readers skip; it keeps a quiet connection alive."""
    return b": %b\n\n" % text


class Reader:
    """Takes bytes in any pieces and gives the data of each event that is complete. Fields other than `data` are skipped."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._rest = b""  # the beginning of a line
        self._data: list[bytes] = []
        self._n_bytes = 0
        self._after_cr = False  # a line feed that comes next belongs to the carriage return before it

    def push(self, piece: bytes) -> list[bytes]:
        """Data of the events that end in this piece. TooLong: one is longer than the limit."""
        if self._after_cr and piece:
            piece = piece.removeprefix(b"\n")
            self._after_cr = False
        if piece.endswith(b"\r"):
            self._after_cr = True
        lines = (self._rest + piece).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop()
        found = [event for line in lines if (event := self._line(line)) is not None]
        if self._n_bytes + len(self._rest) > self._limit:
            raise TooLong(f"an event of more than {self._limit:,} bytes")
        return found

    def _line(self, line: bytes) -> bytes | None:
        """An empty line ends the event."""
        if not line:
            event = b"\n".join(self._data) if self._data else None
            self._data, self._n_bytes = [], 0
            return event
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._n_bytes += len(value)
        return None
