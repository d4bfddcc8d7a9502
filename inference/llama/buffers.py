"""Sizes of buffers as llama.cpp's log tells them: what a model really takes.

Owns the form of these lines. Refuses where they come from: see `log`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_LINE = re.compile(r":\s+(\S+)\s+(?:\S+ )*?(model|output|KV|RS|state|compute) buffer size =\s*([\d.]+) MiB")
_HOST = ("CPU",)  # buffers whose names begin so are in RAM; so are those that a device reads from there


@dataclass(frozen=True, slots=True)
class Buffer:
    """place: e.g. CPU_Mapped or CUDA0. kind: model, output, KV, RS (recurrent states) or compute."""

    place: str
    kind: str
    n_bytes: int

    @property
    def is_on_host(self) -> bool:
        return self.place.startswith(_HOST) or self.place.endswith("_Host")


def parse(line: str) -> Buffer | None:
    """None: the line tells no size of a buffer."""
    found = _LINE.search(line)
    return None if found is None else Buffer(found.group(1), found.group(2), round(float(found.group(3)) * (1 << 20)))


def settled(told: Iterable[Buffer]) -> tuple[Buffer, ...]:
    """One for each place and kind: their sum, but for compute buffers the last one, since they are laid out anew."""
    sums: dict[tuple[str, str], int] = {}
    for buffer in told:
        at = (buffer.place, buffer.kind)
        sums[at] = buffer.n_bytes + (sums.get(at, 0) if buffer.kind != "compute" else 0)
    return tuple(Buffer(place, kind, n_bytes) for (place, kind), n_bytes in sums.items())
