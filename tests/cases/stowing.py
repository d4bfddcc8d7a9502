"""A process that stows large states, and what it weighs meanwhile: `python -m tests.cases.stowing STATE LIMIT N`.

The engine, its cache and its stow are the real ones; the model is the fake, whose states are made as large as asked (STATE,
LIMIT: bytes). N prompts that have nothing in common, one after the other. Prints one JSON object: `base`, resident bytes
before the first; `highest`, at most (looked at when a state was just made, and when a step was done); `after`, behind each
prompt; `held`, bytes that the stow says it holds then; `n_stows`.
"""

from __future__ import annotations

import json
import sys

import psutil

from inference.engine import Engine
from inference.types import Costs, GenerationRequest, TokenEvent
from tests.support.fake_backend import FakeBackend, FakeVocab

_N_TOKENS = 40


class Heavy(FakeBackend):
    """Its states have the size asked for, and every page of them is touched."""

    def __init__(self, n_bytes: int) -> None:
        super().__init__(FakeVocab(), n_seq_max=2)
        self.n_bytes = n_bytes
        self.highest = 0
        self._process = psutil.Process()

    def look(self) -> int:
        resident = int(self._process.memory_info().rss)
        self.highest = max(self.highest, resident)
        return resident

    def save(self, seq: int) -> bytes | None:
        state = super().save(seq)
        heavy = None if state is None else state.ljust(self.n_bytes, b"\xa5")
        self.look()
        return heavy


def weigh(n_bytes: int, limit: int, n_prompts: int) -> dict[str, object]:
    backend = Heavy(n_bytes)
    engine = Engine(backend, n_ctx=512, n_sequences=1, costs=Costs(1.0, 1.0), n_stowed=n_prompts, stow_bytes=limit)
    ended: list[TokenEvent] = []
    base, after, held = backend.look(), [], []
    for i in range(n_prompts):
        tokens = tuple((i + k * (i + 1)) % 250 for k in range(_N_TOKENS))
        engine.submit(GenerationRequest(i, tokens, n_max=0), ended.append)
        while engine.step():
            backend.look()
        after.append(backend.look())
        held.append(engine.kv.stowage.n_bytes)
    assert [event.finish for event in ended if event.error] == [] and len(ended) == n_prompts
    return {"base": base, "highest": backend.highest, "after": after, "held": held, "n_stows": engine.kv.n_stows}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(weigh(*map(int, sys.argv[1:]))) + "\n")
