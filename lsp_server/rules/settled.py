"""What comes of a generation, and what is asked about it, as frozen values; and the sentences for nothing.

Owns the shapes only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Known = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Checked:
    """What a parser says of a text put in at the cursor. error_at: characters of it before its first new error; None: there is
    none, or it can't tell, and why says so. calls: names that it calls, each once."""

    error_at: int | None = None
    why: str = ""
    calls: tuple[str, ...] = ()


# The text put in at the cursor, and how many characters behind the cursor it replaces.
SyntaxCheck = Callable[[str, int], Checked]


@dataclass(frozen=True, slots=True)
class Said:
    """text: as far as no rule has cut it. stopped: the rule that has, or "". is_whole: the model ended it itself. tokens: where
    each ends in the text, and its logarithmic probability."""

    text: str
    stopped: str = ""
    is_whole: bool = False
    tokens: tuple[tuple[int, float], ...] = ()

    @property
    def is_cut(self) -> bool:
        """By a limit or a deadline: neither the model nor a rule says that it ends here."""
        return not self.is_whole and not self.stopped


@dataclass(frozen=True, slots=True)
class Settled:
    """text goes in at the cursor, in place of n_replaced characters behind it; "" = nothing is offered, and reason says why.
    rules: those that took part. n_said: characters of the generation that the text stands for. mean_logprob: of their tokens;
    confidence: that, less what speaks against the text; None if unknown. unknown_names: called, and found nowhere. notes: what
    could not be told. n_head: characters of the generation in front of the text, which stand before the cursor already."""

    text: str
    n_replaced: int = 0
    reason: str = ""
    rules: tuple[str, ...] = ()
    n_said: int = 0
    mean_logprob: float | None = None
    confidence: float | None = None
    unknown_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    n_head: int = 0


NOTHING_YET = "nothing was generated in time"
ENDS_HERE = "the model ends here"
COMPLETE = "the line is complete"
ONLY_BLANKS = "only blanks, or what stands there already"
REASONS = {
    "syntax": "the parser refuses what was generated",
    "below": "what was generated stands on the lines below already",
    "closers": "what was generated stands behind the cursor already",
    "behind": "what was generated stands behind the cursor already",
    "echo": "what was generated repeats what stands before the cursor",
    "stump": "what was generated only begins something",
    "marker": "the model has left the text",
    "other-file": "the model has begun another file",
    "fence": "the model has left the code",
    "half-character": "what was generated is no text",
    "equal-lines": "the model repeats itself",
    "period": "the model repeats itself",
    "counter": "the model repeats itself",
    "blank-run": "the model says nothing but blanks",
    "comment-run": "the model says nothing but comments",
    "scope": "the block is complete",
    "unit": "the block is complete",
}
