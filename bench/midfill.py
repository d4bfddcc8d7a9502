"""Midfill's own side of the bench: the real server, driven as an editor drives it, and the passes over the script."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.errors import BenchError
from bench.lsp_client import LspClient, Pending
from bench.material import Material
from bench.probe import Probe, Seen
from bench.results import KeyResult, Session
from bench.script import Pace, Step
from bench.wiring import Running, pipe
from inference.types import Counters, FinishReason

Progress = Callable[[int, int], None]
READY_TIMEOUT_S = 180.0
QUIET_S, QUIET_TIMEOUT_S = 1.0, 120.0
AUTOMATIC = 2


@dataclass(slots=True)
class _Ask:
    """One key's request under way."""

    step: Step
    sent: float
    before: Counters
    n_typing: int
    pending: Pending


class Midfill:
    """One server with one document. Use as a context manager.

    deadline_ms: `reply_deadline_ms`, None = its default, 0 = none. Typed-through reuse and adopting are off: each key is new
    work. All else is as a user has it, but that no settings file is read.
    """

    def __init__(self, model: str, *, n_threads: int, n_predict: int, deadline_ms: int | None = None) -> None:
        self._options: dict[str, Any] = {
            "model": model,
            "n_threads": n_threads,
            "max_tokens": n_predict,
            "typed_through": False,
            "adopt_ms": 0,
            "prompt_cache": False,  # each run begins with nothing
            "wait_ms": 0,  # each key reaches the model at once, wherever it is typed
            **dict.fromkeys(("after_delete", "inside_words", "in_comments", "in_strings"), "on"),
        }
        if deadline_ms is not None:
            self._options["reply_deadline_ms"] = deadline_ms
        self._failure = ""
        self._ready = threading.Event()
        self._running: Running | None = None
        self._client: LspClient | None = None
        self._uri = ""
        self._version = 0
        self._opened = Counters()

    # -- life

    def __enter__(self) -> Midfill:
        to_server, from_client = pipe()
        to_client, from_server = pipe()
        self._running = Running(to_server, from_server)
        self._client = LspClient(from_client, to_client, self._hear)
        capabilities = {"textDocument": {"inlineCompletion": {"dynamicRegistration": True}, "synchronization": {}}}
        params = {
            "processId": os.getpid(),
            "rootUri": None,
            "capabilities": capabilities,
            "initializationOptions": self._options,
        }
        self.client.request("initialize", params).wait()
        self.client.notify("initialized", {})
        if not self._ready.wait(READY_TIMEOUT_S):
            raise BenchError(f"midfill was not ready after {READY_TIMEOUT_S:.0f} s")
        if self._failure:
            raise BenchError(self._failure)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._client is not None:
            self._client.close()
        if self._running is not None:
            self._running.join()

    @property
    def client(self) -> LspClient:
        assert self._client is not None
        return self._client

    @property
    def probe(self) -> Probe:
        assert self._running is not None
        probe = self._running.probe
        if probe is None:
            raise BenchError("midfill has no engine; look for its reason on standard error")
        return probe

    def _hear(self, method: str, params: Any) -> None:
        if method == "window/showMessage":  # settings it did not take, mostly: then it is not the server that was meant
            self._failure = params["message"]
        elif method == "midfill/status" and params["state"] == "error":
            self._failure = params["message"]
            self._ready.set()
        elif method == "midfill/status" and params["state"] == "ready":
            self._ready.set()

    # -- the editor's part

    def open(self, material: Material) -> None:
        self._opened = self.probe.counters()
        self._version = 1
        self._uri = (Path.cwd() / "bench-session" / material.name).as_uri()
        document = {"uri": self._uri, "languageId": material.language, "version": 1, "text": material.text}
        self.client.notify("textDocument/didOpen", {"textDocument": document})

    def _type(self, step: Step) -> None:
        if not step.key.changes:
            return
        self._version += 1
        changes = [
            {"range": {"start": asdict(change.start), "end": asdict(change.end)}, "text": change.text}
            for change in step.key.changes
        ]
        params = {"textDocument": {"uri": self._uri, "version": self._version}, "contentChanges": changes}
        self.client.notify("textDocument/didChange", params)

    def _ask(self, step: Step) -> _Ask:
        params = {
            "textDocument": {"uri": self._uri},
            "position": asdict(step.key.cursor),
            "context": {"triggerKind": AUTOMATIC},
        }
        before, n_typing, sent = self.probe.counters(), len(self.probe.typing), time.perf_counter()
        self._type(step)
        return _Ask(step, sent, before, n_typing, self.client.request("textDocument/inlineCompletion", params))

    def _settle(self, ask: _Ask) -> KeyResult:
        """Call it when the next key is due: what was spent for this one until then is this one's."""
        now, before = self.probe.counters(), ask.before
        seen = self.probe.typing[ask.n_typing :]
        return KeyResult(
            prompt=now.prompt - before.prompt,
            healing=now.healing - before.healing,
            generated=now.generated - before.generated,
            background=now.background - before.background,
            first_byte_ms=_first_byte_ms(seen, ask.sent),
            reply_ms=(ask.pending.received - ask.sent) * 1000,
            shown=_has_items(ask.pending.wait()),
            is_single_line=ask.step.is_single_line,
            n_steps=max((s.n_steps_at(ask.pending.received) for s in seen), default=0),
            n_context=max((s.n_context for s in seen), default=0),
        )

    # -- the passes

    def run_session(self, steps: Sequence[Step], pace: Pace, progress: Progress) -> Session:
        """The next key waits for the reply. Ends when the engine has been quiet for a while; all until then counts."""
        results = [self._settle(ask) for ask in self._asks(steps, pace, progress)]
        self._wait_until_quiet(QUIET_TIMEOUT_S)
        now, before = self.probe.counters(), self._opened
        spent = (now.prompt - before.prompt) + (now.healing - before.healing) + (now.background - before.background)
        return Session(tuple(results), spent)

    def run_single_lines(self, steps: Sequence[Step], pace: Pace, progress: Progress) -> list[KeyResult]:
        """The keys at single-line places; meant for a server without a deadline."""
        return [self._settle(ask) for ask in self._asks(steps, pace, progress) if ask.step.is_single_line]

    def _asks(self, steps: Sequence[Step], pace: Pace, progress: Progress) -> Iterator[_Ask]:
        """Type, and for each key that asks: its request, answered and thought about. The next key comes when it is taken."""
        for n_done, step in enumerate(steps):
            progress(n_done, len(steps))
            if not step.asks:
                self._type(step)
                continue
            ask = self._ask(step)
            ask.pending.wait()
            self._wait(step, pace)
            yield ask

    def run_paced(self, steps: Sequence[Step], period_s: float, progress: Progress) -> list[bool]:
        """For each key that asks: was there a suggestion before the next key? Every key cancels the request before it."""
        shown: list[bool] = []
        started = time.perf_counter()
        for i, step in enumerate(steps):
            progress(i, len(steps))
            ask = self._ask(step) if step.asks else None
            if ask is None:
                self._type(step)
            time.sleep(max(0.0, started + (i + 1) * period_s - time.perf_counter()))
            if ask is None:
                continue
            shown.append(ask.pending.is_done and _has_items(ask.pending.wait()))
            self.client.cancel(ask.pending)
        return shown

    def _wait(self, step: Step, pace: Pace) -> None:
        time.sleep(pace.pause_s)
        if step.key.kind == "enter":
            self._wait_until_quiet(pace.think_s)

    def _wait_until_quiet(self, most_s: float) -> None:
        """Return when the engine has done nothing for QUIET_S, or after most_s."""
        deadline, last, since = time.perf_counter() + most_s, self.probe.counters(), time.perf_counter()
        while time.perf_counter() < deadline and time.perf_counter() - since < QUIET_S:
            time.sleep(0.02)
            now = self.probe.counters()
            if now != last:
                last, since = now, time.perf_counter()


def _first_byte_ms(seen: Sequence[Seen], sent: float) -> float | None:
    firsts = [s.first_text for s in seen if s.first_text]
    if firsts:
        return (min(firsts) - sent) * 1000
    is_cut = any(s.finish in (None, FinishReason.CANCELLED) for s in seen)
    return math.inf if is_cut else None


def _has_items(answer: dict[str, Any]) -> bool:
    if "error" in answer:
        raise BenchError(f"midfill answered with an error: {answer['error']}")
    result = answer["result"]
    items = result["items"] if isinstance(result, dict) else result
    return bool(items)
