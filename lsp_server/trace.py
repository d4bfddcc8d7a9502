"""What happened to each request: phases on one clock, counts, and why nothing was shown.

Records hold no text of the user's but the healing bytes; they stay in memory, the latest few, for `midfill.explain` and the
command line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from context.types import Piece
from inference.types import GenerationStats

PHASES = ("read", "assemble", "tokenize", "queue", "prefill", "decode", "postprocess", "deliver")


class Phases:
    """Disjoint wall intervals on one clock: every lap goes to one phase, so they add up to the total."""

    def __init__(self, clock: Callable[[], float], started: float | None = None) -> None:
        self._clock = clock
        self._last = self._started = clock() if started is None else started
        self.ms = dict.fromkeys(PHASES, 0.0)

    def lap(self, name: str) -> None:
        """The time since the last lap belongs to `name`."""
        self.split(name, {})

    def split(self, rest: str, parts: dict[str, float]) -> None:
        """The time since the last lap: known parts in ms, the remainder to `rest`."""
        now = self._clock()
        elapsed, self._last = (now - self._last) * 1000, now
        for name, ms in parts.items():
            part = min(ms, elapsed)
            self.ms[name] += part
            elapsed -= part
        self.ms[rest] += elapsed

    def total(self) -> float:
        return (self._last - self._started) * 1000


@dataclass(slots=True)
class Record:
    """One request. Filled while it runs; read through `as_dict`."""

    request_id: int
    doc_id: str
    offset: int
    invoked: bool
    phases: Phases
    layout: str = ""
    anchor: int = 0
    heal: bytes = b""
    pieces: tuple[Piece, ...] = ()
    notes: tuple[str, ...] = ()
    state: dict[str, object] = field(default_factory=dict)  # of the plan: with the document and the pieces it can be made again
    choice: dict[str, object] = field(default_factory=dict)  # why these pieces, and how often each was sent
    warm_up: str = ""  # what was prefilled for this document before the request, or why not
    source: str = ""  # "generated" | "adopted" | "typed through" | "known": generated before
    n_new: int = 0  # tokens of the prompt not resident when it was planned
    stats: GenerationStats = field(default_factory=GenerationStats)
    finish: str = ""
    waited_ms: float = 0.0  # before it was given to the model, so that it need not be asked for nothing
    n_offered: int = 0  # characters
    reason: str = ""

    def as_dict(self) -> dict[str, object]:
        stats = self.stats
        return {
            "request_id": self.request_id,
            "document": self.doc_id,
            "offset": self.offset,
            "trigger": "invoked" if self.invoked else "automatic",
            "source": self.source,
            "reason": self.reason,
            "finish": self.finish,
            "waited_ms": round(self.waited_ms, 3),
            "layout": self.layout,
            "anchor": self.anchor,
            "healing": self.heal.decode("utf-8", "replace"),
            "pieces": self._pieces(),
            "notes": list(self.notes),
            "plan": self.state,
            "choice": self.choice,
            "warm_up": self.warm_up,
            "n_prompt_tokens": stats.n_prompt,
            "n_reused_tokens": stats.n_reused,
            "n_evaluated_tokens": stats.n_evaluated,
            "n_healing_tokens": stats.n_healing,
            "n_generated_tokens": stats.n_generated,
            "n_steps": stats.n_steps,
            "n_offered_characters": self.n_offered,
            "first_byte_ms": stats.first_byte_ms,
            "ms": {**{k: round(v, 3) for k, v in self.phases.ms.items()}, "total": round(self.phases.total(), 3)},
        }

    def _pieces(self) -> list[dict[str, object]]:
        """Each with how many of its tokens were in the cache."""
        told: list[dict[str, object]] = []
        left = self.stats.n_reused
        for piece in self.pieces:
            n = min(left, piece.n_tokens)
            left -= n
            told.append({**asdict(piece), "n_reused": n})
        return told


class Trace:
    """The latest records, oldest first."""

    def __init__(self, n: int = 64) -> None:
        self._records: deque[Record] = deque(maxlen=n)

    def add(self, record: Record) -> None:
        self._records.append(record)

    @property
    def last(self) -> Record | None:
        return self._records[-1] if self._records else None
