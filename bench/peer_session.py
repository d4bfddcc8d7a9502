"""The script through llama-server: one key after the other, or at a fixed pace."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from bench.llama_server import Call, Peer, PeerReply, infill
from bench.results import KeyResult, Session
from bench.script import Step

Progress = Callable[[int, int], None]


def run_session(peer: Peer, steps: Sequence[Step], n_predict: int, pause_s: float, progress: Progress) -> Session:
    """The next key waits for the reply; llama-server does nothing between them. A key after which the extension asks nothing
    costs nothing."""
    results = []
    for n_done, step in enumerate(steps):
        progress(n_done, len(steps))
        request = infill(step.text, step.offset, n_predict) if step.asks else None
        if request is None:
            continue
        reply = peer.ask(request)
        results.append(
            KeyResult(
                prompt=reply.n_prompt,
                healing=0,
                generated=0,
                background=0,
                first_byte_ms=reply.first_byte_ms,
                reply_ms=reply.reply_ms,
                shown=bool(reply.text.strip()),
                is_single_line=step.is_single_line,
                n_steps=0,
                n_context=reply.n_context,
            )
        )
        time.sleep(pause_s)
    return Session(tuple(results), sum(r.prompt for r in results))


class _Ask(threading.Thread):
    """One call on a thread of its own, so that the next key can end it. error: what it died of."""

    def __init__(self, call: Call) -> None:
        super().__init__(daemon=True)
        self.call = call
        self.reply: PeerReply | None = None
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.reply = self.call.run()
        except Exception as error:  # raised again by whoever looks at the reply
            self.error = error

    @property
    def has_shown(self) -> bool:
        if self.error is not None:
            raise self.error
        return self.reply is not None and bool(self.reply.text.strip())


def run_paced(peer: Peer, steps: Sequence[Step], n_predict: int, period_s: float, progress: Progress) -> list[bool]:
    """For each key that asks: was there a suggestion before the next key? Every key ends the request before it."""
    shown: list[bool] = []
    asks: list[_Ask] = []
    started = time.perf_counter()
    for i, step in enumerate(steps):
        progress(i, len(steps))
        request = infill(step.text, step.offset, n_predict) if step.asks else None
        ask = None
        if request is not None:
            ask = _Ask(peer.call(request))
            asks.append(ask)
            ask.start()
        time.sleep(max(0.0, started + (i + 1) * period_s - time.perf_counter()))
        if step.asks:
            shown.append(ask is not None and ask.has_shown)
        if ask is not None:
            ask.call.abort()
    for ask in asks:
        ask.join(10.0)
    return shown
