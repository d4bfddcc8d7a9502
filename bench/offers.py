"""What of a recorded generation is offered: by the product's rules, all or with some switched off, or by none of them.

Owns the replay. The stream is fed piece by piece, as it came; a rule that ends it leaves the tokens behind it ungenerated. The
parser's word and the known names are asked as the server asks them, without an index.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.case_log import Record
from bench.faults import Offer
from bench.places import Place
from context.gate import Gate
from context.syntax import NoTree, SyntaxTree, parse
from context.text import Text
from context.types import DocumentSnapshot
from inference.types import FinishReason
from lsp_server.answers.offer import place_at
from lsp_server.rules.checking import known_names, syntax_check
from lsp_server.rules.confidence import N_TOKENS, SILENT_BELOW
from lsp_server.rules.judge import RULES, Judge
from lsp_server.rules.settled import Known

__all__ = ["RULES", "Replay", "Replayed", "baseline"]


@dataclass(frozen=True, slots=True)
class Replayed:
    """offer: what comes of it. n_tokens: beyond the cursor that were generated for it. rules: that took part; reason: why
    nothing is offered; confidence: None if nobody knows."""

    offer: Offer
    n_tokens: int
    rules: tuple[str, ...] = ()
    reason: str = ""
    confidence: float | None = None

    @property
    def is_offered(self) -> bool:
        return bool(self.offer.text.strip())


def baseline(record: Record) -> Replayed:
    """Stop at the end of generation or at the limit, and offer all of it."""
    return Replayed(Offer("".join(record["pieces"])), record["n_generated"])


class Replay:
    """Of one place; the tree and the known names are those of the document as it was asked in."""

    def __init__(self, place: Place, record: Record) -> None:
        document = Text.of(place.before + place.closers + place.after)
        tree = parse(place.language, document)
        self._place = place
        self._record = record
        self._document = document
        self._tree: SyntaxTree | None = None if isinstance(tree, NoTree) else tree
        self._known: Known | None = known_names(place.language, document)
        snapshot = DocumentSnapshot("file:///" + place.path, 1, place.language, document)
        self._asked = place_at(snapshot, len(place.before.encode()), tree=self._tree)

    def by_rules(self, off: frozenset[str] = frozenset(), least: float | None = SILENT_BELOW) -> Replayed:
        """With all rules but those, as for an automatic request. least: the confidence that is wanted."""
        place, record = self._place, self._record
        gate = Gate(place.language, self._document, len(place.before.encode()), self._tree)
        check = syntax_check(gate, self._asked.rest)
        judge = Judge(self._asked, off, check=check, known=self._known, least=least)
        n_tokens = record["n_generated"]
        last = 0
        for piece, end, logprob in _pieces(record):
            told = logprob if last < N_TOKENS else None
            last = end
            if judge.push(piece, told) is not None:
                n_tokens = end
                break
        settled = judge.settle(is_whole=judge.stop is None and record["finish"] == FinishReason.STOP.value)
        return Replayed(Offer(settled.text, settled.n_replaced), n_tokens, settled.rules, settled.reason, settled.confidence)


def _pieces(record: Record) -> Iterator[tuple[str, int, float]]:
    """Each piece, how many tokens beyond the cursor there were with it, and the mean logarithmic probability of its own."""
    logprobs: list[float] = record["logprobs"]
    n_before = len(logprobs) - record["n_generated"]  # chosen for what was typed already
    last = 0
    for piece, end in zip(record["pieces"], record["ends"], strict=True):
        own = logprobs[n_before + last : n_before + end] or [0.0]
        yield piece, end, sum(own) / len(own)
        last = end
