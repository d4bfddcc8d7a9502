"""When an automatic request that nothing known answers reaches the model: not at all, at once, or after a wait.

Owns how somebody types and what was rejected, over all documents, and puts together what `trigger`, `pace` and `reluctance`
say. Refuses to wait itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from context.text import Text
from context.types import DocumentSnapshot
from inference.types import Costs
from lsp_server.asking.pace import Pace, place_factor
from lsp_server.asking.reluctance import Kind, Reluctance, place_of
from lsp_server.asking.trigger import LastEdit, why_not
from lsp_server.by_language import settings_for
from lsp_server.config import ServerConfig
from lsp_server.trees import Trees

_LOOK = 256  # bytes of the cursor's line on each side
_TYPED = 8  # bytes that come as one key at most: what is longer was put in by a program


@dataclass(frozen=True, slots=True)
class Timing:
    """refusal: why the model is not asked, or "". wait_s: before it is; extra_s: how much of that rejections have added, by
    which the answer may be late."""

    refusal: str = ""
    wait_s: float = 0.0
    extra_s: float = 0.0


class Asking:
    def __init__(self, clock: Callable[[], float], trees: Trees) -> None:
        self._clock = clock
        self._trees = trees
        self.pace = Pace()
        self.reluctance = Reluctance()

    def changed(self, edit: LastEdit | None) -> None:
        """A document was edited."""
        if edit is not None and 0 < edit.n_inserted <= _TYPED and not edit.n_deleted:
            self.pace.typed(self._clock())

    def timing(
        self, snapshot: DocumentSnapshot, offset: int, last: LastEdit | None, server: ServerConfig, costs: Costs, shape: str
    ) -> Timing:
        """For an automatic request. last: what was last done to the text; None: nothing. Who has moved the cursor since, or has
        just taken a suggestion, types nothing: then there is no wait but what rejections add. shape: "line" or "block"."""
        own = settings_for(server, snapshot.language)
        refusal = why_not(snapshot.text, offset, snapshot.language, last, own, self._trees.of(snapshot))
        if refusal:
            return Timing(refusal)
        before, after = around(snapshot.text, offset)
        kind = Kind(snapshot.language, shape, place_of(before, after))
        extra = self.reluctance.extra_ms(kind, self._clock(), own.back_off_ms)
        wait = 0.0
        if last is not None and last.end == offset and not last.is_accepted:
            wait = self.pace.wait_ms(place_factor(before, after), costs, own.wait_ms)
        return Timing("", (max(wait, own.debounce_ms) + extra) / 1000, extra / 1000)


def around(text: Text, offset: int) -> tuple[str, str]:
    """The cursor's line on both sides of it, as much as matters."""
    line = text.line_of(offset)
    start, end = text.floor(max(text.line_start(line), offset - _LOOK)), text.floor(min(text.line_end(line), offset + _LOOK))
    return text.slice(start, offset).decode(), text.slice(offset, max(end, offset)).decode()
