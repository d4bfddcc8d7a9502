"""A generation: one stream of the engine as text that grows, which any request may read from.

Owns the reading of the stream, and its early end: where a judge says that no more is worth having, the stream is cancelled, for
everybody who reads. It outlives the request that began it: answered, superseded or cancelled requests leave it behind, and a
later request whose text agrees with it goes on from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from context.types import Plan
from inference.clients.base import Stream
from inference.types import FinishReason, GenerationStats, Ranked
from lsp_server.rules.judge import Judge


@dataclass(frozen=True, slots=True)
class Said:
    """What one candidate says beyond the text typed so far. is_whole: the model or a rule has ended it, no limit. since: what
    was typed since the generation began, all of it said before. mean_logprob: of its tokens, if several were compared.
    is_line: one line was wanted when it began; None: nobody knows. stopped: the rule that has ended it, or "". tokens: of
    since and rest, where each ends, and its logarithmic probability, as far as that was told."""

    candidate: int
    rest: str
    is_whole: bool
    since: str = ""
    mean_logprob: float | None = None
    is_line: bool | None = None
    stopped: str = ""
    tokens: tuple[tuple[int, float], ...] = ()


class Generation:
    """plan, typed: the plan it was made with, and the prompt form of the text between anchor and cursor when it began.
    n_prompt_new: tokens of its prompt that were not resident then. n_candidates: as many were asked for. on_end: is told what
    it took. judge: reads along, and may end it; of several candidates none ends the others. on_text: is told each
    candidate's text as it grows."""

    def __init__(
        self,
        request_id: int,
        plan: Plan,
        typed: bytes,
        n_prompt_new: int,
        stream: Stream,
        n_candidates: int = 1,
        on_end: Callable[[GenerationStats], None] = lambda stats: None,
        judge: Judge | None = None,
        on_text: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.request_id = request_id
        self.plan = plan
        self.typed = typed
        self._n_prompt_new = n_prompt_new
        self.n_candidates = n_candidates
        self._texts = {0: ""}  # by candidate, beyond the cursor at which it began
        self._tokens: list[tuple[int, float]] = []  # of the first one's text: where each ends, and how likely it was
        self._ranking: tuple[Ranked, ...] = ()
        self.stats = GenerationStats()
        self.finish: FinishReason | None = None
        self.error = ""
        self.n_shown = 0  # bytes from the anchor to the end of what was said when somebody was shown it
        self.n_head = 0  # characters that are not shown, since they stand before the cursor already
        self.stopped = ""  # the rule by which the judge has ended it
        self.readers: set[asyncio.Event] = set()  # each is set when there is something new
        self._stream = stream
        self._on_end, self._on_text = on_end, on_text
        self.is_line = None if judge is None else judge.place.single_line  # one line was wanted when it began
        self._judge = judge if n_candidates == 1 else None
        self._parked: asyncio.TimerHandle | None = None
        self._is_cancelled = False
        self._reader = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        is_over = False
        while not is_over:
            event = await self._stream.next()
            is_over = event.finish is not None
            self.stats = event.stats
            if self.finish is None:  # else a judge has ended it, and this is what the engine still says
                text = self._texts[event.candidate] = self._texts.get(event.candidate, "") + event.text
                if event.logprob is not None and not event.candidate:
                    self._tokens.append((len(text), event.logprob))
                self._on_text(text)
                self._ranking = event.ranking
                self.finish, self.error = event.finish, event.error
                self._judge_piece(event.text)
            for reader in self.readers:
                reader.set()
        self._on_end(self.stats)

    def _judge_piece(self, piece: str) -> None:
        if self._judge is None or self.finish in (FinishReason.CANCELLED, FinishReason.ERROR):
            return
        stop = self._judge.push(piece)
        if stop is None:
            return
        if stop.rule != "line":  # behind a line's end the next request may go on
            self._texts[0] = self._judge.text[: stop.n_kept]
        if self.finish is None:
            self._stream.cancel()
        self.stopped = stop.rule
        self.finish = FinishReason.LENGTH if stop.rule == "line" else FinishReason.STOP

    @property
    def is_running(self) -> bool:
        return self.finish is None

    @property
    def first_text(self) -> str:
        """What the first candidate has said so far beyond the cursor at which it began."""
        return self._texts[0]

    def is_shown(self) -> None:
        """Something of what it has said is on a screen."""
        self.n_shown = len(self.typed) + len(self.first_text.encode())

    @property
    def n_ahead(self) -> int:
        """Prompt tokens that had to be evaluated before its first text, if that is still to come."""
        return 0 if any(self._texts.values()) or not self.is_running else self._n_prompt_new

    @property
    def is_parked(self) -> bool:
        return self._parked is not None

    @property
    def is_ending(self) -> bool:
        """Cancelled, but the engine has not said so yet: its text is a beginning, and stays one."""
        return self._is_cancelled and self.is_running

    def said(self, typed: bytes) -> tuple[Said, ...]:
        """What was generated beyond `typed` (anchor to cursor, prompt form), best first; only the first candidate until all
        have ended. Empty if it disagrees or is not there yet. Who types what is shown agrees, whatever was left out there."""
        ended: list[tuple[int, FinishReason | None, float | None]]
        ended = [(r.candidate, r.finish, r.mean_logprob) for r in self._ranking]
        known = ended or [(0, self.finish, None)]
        if not typed.startswith(self.typed):
            return ()
        since = typed[len(self.typed) :].decode()
        texts = ((candidate, self._texts.get(candidate, ""), finish, mean) for candidate, finish, mean in known)
        said = []
        for candidate, text, finish, mean in texts:
            tokens = () if candidate else tuple(self._tokens)
            if not text.startswith(since) and not candidate:
                tokens, text = tuple((end - self.n_head, p) for end, p in tokens if end > self.n_head), text[self.n_head :]
            if text.startswith(since):
                whole, told = finish is FinishReason.STOP, (self.is_line, self.stopped)
                said.append(Said(candidate, text[len(since) :], whole, since, mean, *told, tokens))
        return tuple(said)

    def remainder(self, typed: bytes) -> Said | None:
        """The same of the first candidate, or if that disagrees, of another; None if all do."""
        return min(self.said(typed), key=lambda said: said.candidate, default=None)

    def park(self, adopt_s: float) -> None:
        """Nobody waits for it any more: unless adopted within adopt_s it ends."""
        if self.is_running and not self.is_parked:
            self._parked = asyncio.get_running_loop().call_later(adopt_s, self.cancel)

    def adopt(self) -> None:
        """A request reads from it again."""
        if self._parked is not None:
            self._parked.cancel()
            self._parked = None

    def cancel(self) -> None:
        if self.is_running:
            self._is_cancelled = True
            self._stream.cancel()
