"""Texts to draft from, as a client keeps them: which ones the engine was sent, and what it has to be sent again.

Owns the tokens of those that requests may name, within N_KEPT; the ones named longest ago go first. Refuses to wait: a request
is never later for them. A text that can't be sent now is missed by a draft, by nobody else.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping

Tokens = tuple[int, ...]
N_KEPT = 1024


class Offered:
    def __init__(self) -> None:
        self._tokens: OrderedDict[str, Tokens] = OrderedDict()
        self._sent_at: dict[str, float] = {}

    def offer(self, chunks: Mapping[str, Tokens], now: float) -> dict[str, Tokens]:
        """Those that the engine was not sent yet; they count as sent now."""
        new = {digest: tokens for digest, tokens in chunks.items() if digest not in self._sent_at}
        for digest, tokens in chunks.items():
            self._tokens[digest] = tokens
            self._tokens.move_to_end(digest)
            self._sent_at.setdefault(digest, now)
        while len(self._tokens) > N_KEPT:
            digest, _ = self._tokens.popitem(last=False)
            self._sent_at.pop(digest, None)
        return new

    def again(self, unknown: Iterable[str], asked_at: float, now: float) -> dict[str, Tokens]:
        """What to send again of those that the engine did not know when it was asked: not what was on its way then."""
        found = {d: self._tokens[d] for d in unknown if d in self._tokens and self._sent_at.get(d, 0.0) < asked_at}
        self._sent_at.update(dict.fromkeys(found, now))
        return found

    def missed(self, digest: str) -> None:
        """It could not be sent."""
        self._sent_at.pop(digest, None)
